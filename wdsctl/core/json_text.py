"""JSON from files that anybody may have written."""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str | bytes | bytearray) -> Any:
    """`json.loads`, with ValueError for all that cannot be read: also for lists in lists in lists without end, of which
    Python says RecursionError, which nobody expects of a file."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its values are nested too deep") from error
