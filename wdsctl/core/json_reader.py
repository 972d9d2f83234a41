"""JSON as the loader reads it, and what other readers refuse in it or read otherwise."""

from __future__ import annotations

import json
from typing import Any

_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class JsonReader:
    """`json.loads` of bytes, one after the other. Not for several threads at once.

    `odd`: by code, what is odd in the value that was read last. Cost: that of `json.loads`.
    """

    def __init__(self) -> None:
        self.odd: dict[str, str] = {}
        self._decoder = json.JSONDecoder(parse_constant=self._constant, object_pairs_hook=self._object)

    def read(self, data: bytes) -> Any:
        """Raises what `json.loads` raises."""
        self.odd.clear()
        return self._decoder.decode(data.decode(json.detect_encoding(data), "surrogatepass"))

    def _constant(self, name: str) -> float:
        self.odd.setdefault("WDS158", f"{name} is no number of JSON")
        return _CONSTANTS[name]

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            self.odd.setdefault("WDS159", f"an object has the name {twice!r} more than once")
        return found
