"""Values of rows as JSON that every reader takes."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, time, timedelta
from typing import Any


def as_json(value: Any) -> bytes:
    """Compact JSON in UTF-8, keys in their order: the same value gives the same bytes."""
    try:
        text = _ENCODER.encode(value)
    except ValueError:  # NaN or an infinity somewhere: rare, and found faster so than by looking
        text = _ENCODER.encode(plain(value))
    return text.encode("utf-8", "backslashreplace")


def plain(value: Any) -> Any:
    """The value in the words of JSON. Times in ISO 8601, decimals as text, bytes in base64, NaN and infinities null."""
    made: Any
    match value:
        case None | bool() | int() | str():
            made = value
        case float():
            made = value if math.isfinite(value) else None
        case dict():
            made = {str(name): plain(each) for name, each in value.items()}
        case list() | tuple():
            made = [plain(each) for each in value]
        case datetime() | date() | time():
            made = value.isoformat()
        case timedelta():
            made = value.total_seconds()
        case bytes() | bytearray() | memoryview():
            made = base64.b64encode(value).decode()
        case _:
            made = plain(value.item()) if hasattr(value, "item") else str(value)
    return made


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=plain)
