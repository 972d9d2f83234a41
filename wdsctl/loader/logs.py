"""The log of the loader: what it says of data is harmless to the terminal it ends on, and holds nothing secret."""

from __future__ import annotations

import logging
import traceback

from wdsctl.core.printable import harmless
from wdsctl.core.urls import shown

log = logging.getLogger("wdsctl.loader")


class _Told(logging.Filter):
    """Writes a record out, with its traceback, before any handler sees it. Handlers are the user's."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = harmless(shown(record.getMessage())), ()
        if record.exc_info and record.exc_info[1] is not None:
            told = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            record.exc_text = harmless(shown(told))  # which formatters take in the place of their own
        return True


log.addFilter(_Told())
