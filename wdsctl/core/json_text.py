"""Read JSON from untrusted files."""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str | bytes | bytearray) -> Any:
    """Call `json.loads`, and raise ValueError for any invalid text.

    Python raises RecursionError for values that are nested too deeply, which callers do not expect.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("the values are nested too deeply") from error


_NON_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class JsonReader:
    """`json.loads` of bytes, for one value after the other. Not thread-safe.

    `oddities` maps a code to a message for the value read last: WDS158 for numbers that are not JSON, WDS159 for
    repeated names. Takes as long as `json.loads`.
    """

    def __init__(self) -> None:
        self.oddities: dict[str, str] = {}
        self._decoder = json.JSONDecoder(parse_constant=self._parse_constant, object_pairs_hook=self._parse_object)

    def read(self, data: bytes) -> Any:
        """Return the value. Raises the errors of `json.loads`."""
        self.oddities.clear()
        return self._decoder.decode(data.decode(json.detect_encoding(data), "surrogatepass"))

    def _parse_constant(self, name: str) -> float:
        self.oddities.setdefault("WDS158", f"{name} is not a JSON number")
        return _NON_FINITE[name]

    def _parse_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            self.oddities.setdefault("WDS159", f"an object has the name {twice!r} more than once")
        return found
