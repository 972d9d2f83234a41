"""The log of the loader. Text from data is escaped for terminals, and secrets are redacted."""

from __future__ import annotations

import logging
import traceback

from wdsctl.core.text import escape_control_chars
from wdsctl.core.urls import redact_secrets

logger = logging.getLogger("wdsctl.loader")


class _SanitizingFilter(logging.Filter):
    """Formats a record, with its traceback, before any handler of the user sees it."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = escape_control_chars(redact_secrets(record.getMessage())), ()
        if record.exc_info and record.exc_info[1] is not None:
            text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            record.exc_text = escape_control_chars(
                redact_secrets(text)
            )  # which formatters use instead of formatting it themselves
        return True


logger.addFilter(_SanitizingFilter())
