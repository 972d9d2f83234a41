"""Names of numbers that stay as they are while pictures change: collected per unit, then merged for the report.

A name is a path: the part, then keys. Merging is a union, so that units, workers and continued runs do not matter.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter

from wdsctl.core.json_text import read_json
from wdsctl.core.samples.geometry import NumberPath
from wdsctl.core.text import escape_unprintable

#: Of a path that stands for all keys of an object: data with more keys has ids as keys, for example.
_ANY_KEY = "*"
_MAX_KEYS = 64
_MAX_STEPS = 8
_MAX_STEP_CHARS = 80
_MAX_PATHS = 512
_MORE: NumberPath = ("...",)


class UnchangedNumbers:
    """A bounded set of paths."""

    def __init__(self, paths: Iterable[NumberPath] = ()) -> None:
        self.paths: set[NumberPath] = set(paths)
        self._limit = _MAX_KEYS

    def add(self, paths: Iterable[NumberPath]) -> None:
        self.paths.update(_cut(path) for path in paths)
        if len(self.paths) > self._limit:
            self.paths = set(merge_paths([self.paths]))
            self._limit = 2 * max(_MAX_KEYS, len(self.paths))

    def encoded(self) -> str:
        """JSON for `decode_paths`."""
        return json.dumps(merge_paths([self.paths]))


def _cut(path: NumberPath) -> NumberPath:
    return tuple(step if len(step) <= _MAX_STEP_CHARS else f"{step[:_MAX_STEP_CHARS]}..." for step in path[:_MAX_STEPS])


def decode_paths(text: str) -> list[NumberPath]:
    """Raises ValueError for other JSON than lists of texts."""
    found = read_json(text)
    if not isinstance(found, list) or not all(isinstance(each, list) for each in found):
        raise ValueError("the names of numbers are no lists")
    if not all(isinstance(step, str) for each in found for step in each):
        raise ValueError("the names of numbers are no texts")
    return [tuple(each) for each in found]


def merge_paths(several: Iterable[Iterable[NumberPath]]) -> tuple[NumberPath, ...]:
    """All paths, sorted; `*` stands for the keys of an object that has more than 64, `...` for paths beyond 512."""
    paths = set().union(*several)
    folded = sorted(_fold(paths - {_MORE}))
    is_more = len(folded) > _MAX_PATHS or _MORE in paths
    return (*folded[:_MAX_PATHS], *[_MORE] * is_more)


def _fold(paths: set[NumberPath]) -> set[NumberPath]:
    below: defaultdict[str, set[NumberPath]] = defaultdict(set)
    for path in paths:
        if path:
            below[path[0]].add(path[1:])
    if len(below) > _MAX_KEYS or _ANY_KEY in below:
        below = defaultdict(set, {_ANY_KEY: set().union(*below.values())})
    folded = {(step, *rest) for step, each in below.items() for rest in _fold(each)}
    return folded | ({()} & paths)


def describe_paths(paths: Sequence[NumberPath]) -> str:
    """Sorted paths as one text, such as `json: lens.k, objects[*].i; txt`."""
    texts = []
    for part, each in groupby(paths, itemgetter(0)):
        keys = [".".join(path[1:]) for path in each]
        whole = [part] * (not keys[0])
        listed = ", ".join(key for key in keys if key)
        texts.append(", ".join(whole + [f"{part}: {listed}"] * bool(listed)))
    return escape_unprintable("; ".join(texts))
