"""What keys JSON has, and what is in them: types, lengths, ranges. Collected value by value, within bounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from wdsctl.core.stats_histogram import Histogram

MOST = 200  # paths: in some JSON the keys are data
DEEPEST = 4  # keys in keys


@dataclass(slots=True)
class KeyFacts:
    """`lengths`: of strings in characters, of lists in items. `low` and `high`: of numbers."""

    samples: int = 0
    types: Counter[str] = field(default_factory=Counter)
    lengths: Histogram = field(default_factory=Histogram)
    low: float | None = None
    high: float | None = None

    def add(self, value: Any) -> None:
        kind = type_of(value)
        self.types[kind] += 1
        if kind in ("string", "list"):
            self.lengths.add_one(len(value))
        elif kind in ("integer", "number"):
            self.low = value if self.low is None else min(self.low, value)
            self.high = value if self.high is None else max(self.high, value)


@dataclass(slots=True)
class Keys:
    """`paths`: `meta.size` is a key in a mapping, `boxes[].label` one in the mappings of a list; the whole is `.`."""

    values: int = 0
    paths: dict[str, KeyFacts] = field(default_factory=dict)
    left_out: int = 0  # values under paths that were one too many

    def add(self, value: Any) -> None:
        """One sample's JSON. Counts once each sample that has a path, and every value in `types`."""
        self.values += 1
        seen: set[str] = set()
        self._walk("." if not isinstance(value, dict) else "", value, 0, seen)
        for path in seen:
            self.paths[path].samples += 1

    def _walk(self, path: str, value: Any, depth: int, seen: set[str]) -> None:
        if path and not self._note(path, value, seen):
            return
        if depth > DEEPEST:
            return
        if isinstance(value, dict):
            for key, inner in value.items():
                self._walk(f"{path}.{key}" if path else key or '""', inner, depth + 1, seen)
        elif isinstance(value, list):
            for inner in value:
                if isinstance(inner, dict | list):
                    self._walk(f"{path}[]", inner, depth + 1, seen)

    def _note(self, path: str, value: Any, seen: set[str]) -> bool:
        if path not in self.paths:
            if len(self.paths) >= MOST:
                self.left_out += 1
                return False
            self.paths[path] = KeyFacts()
        self.paths[path].add(value)
        seen.add(path)
        return True


def type_of(value: Any) -> str:
    """JSON's name of it."""
    if value is None:
        return "null"
    names = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "list"))
    return next((name for kind, name in names if isinstance(value, kind)), "object")
