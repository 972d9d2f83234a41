"""`subset: {range: [a, b]}`: a run of neighbours of what there is, as a share or by position; ranges of ranges."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

from wdsctl.core.blend_file.nodes import Node
from wdsctl.core.blend_file.problems import Place, called, unknown_key, wrong
from wdsctl.core.errors import DatasetError

Bound = int | Fraction

_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,18})?) ?%")
_HINT = 'write [0, 500], [500, end], ["0%", "25%"] or ["25%", end]'


@dataclass(frozen=True, slots=True)
class Subset:
    """Half-open. An int is a position, a Fraction a share of what there is; no `stop`: to the end."""

    start: Bound
    stop: Bound | None
    where: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"[{_written(self.start)}, {'end' if self.stop is None else _written(self.stop)}]"


def resolve(subsets: Iterable[Subset], n: int) -> tuple[int, int]:
    """(start, stop) of the n positions that the subsets leave, each taking its range of what the one before it left.

    Shares are exact and round down, so that ranges that meet share no sample and leave none out. Raises DatasetError
    WDS603 where positions lie past the end.
    """
    start, stop = 0, n
    for subset in subsets:
        count = stop - start
        first, last = _range(subset, count, n)
        start, stop = start + first, start + last
    return start, stop


def subset_of(node: Node, place: Place) -> Subset:
    """Raises DatasetError WDS603 where the range is none."""
    if not isinstance(node.value, dict) or "range" not in node.value:
        for key in node.value if isinstance(node.value, dict) else ():
            raise unknown_key(key, node.at(key), ["range"])
        raise _misfit(f"subset: expected {{range: [a, b]}}, found {called(node.value)}", place)
    for key in node.value.keys() - {"range"}:
        raise unknown_key(key, node.at(key), ["range"])
    return _parsed(node.value["range"], node.at("range"))


def _parsed(node: Node, place: Place) -> Subset:
    if not isinstance(node.value, list) or len(node.value) != 2:
        raise _misfit(f"range: expected two bounds, found {called(node.value)}", place)
    first, last = (each.value for each in node.value)
    start = _bound(first, place)
    stop = None if last == "end" else _bound(last, place)
    if stop is not None and type(start) is not type(stop):
        raise _misfit(f"range: {first!r} and {last!r} mix positions and percent", place)
    nothing_left = isinstance(start, Fraction) and start == 1
    if nothing_left if stop is None else stop <= start:
        raise _misfit(f"range: [{first}, {last}] is empty", place)
    return Subset(start, stop, str(place))


def _bound(value: object, place: Place) -> Bound:
    if type(value) is int and value >= 0:
        return value
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if percent and Fraction(percent[1]) <= 100:
        return Fraction(percent[1]) / 100
    raise _misfit(f"range: expected a position, percent from 0% to 100%, or end, found {called(value)}", place)


def _range(subset: Subset, count: int, n: int) -> tuple[int, int]:
    start = _position(subset.start, count)
    stop = count if subset.stop is None else _position(subset.stop, count)
    if stop > count or start > stop or (isinstance(subset.start, int) and start == count > 0):
        there = f"{n:,} samples here" if count == n else f"{count:,} of {n:,} samples left by the inner ranges"
        raise DatasetError(
            f"range: {subset} reaches past the end: there are {there}",
            hint="write a smaller range, or percent",
            where=subset.where,
            code="WDS603",
        )
    return start, stop


def _position(bound: Bound, count: int) -> int:
    return floor(bound * count) if isinstance(bound, Fraction) else bound


def _written(bound: Bound) -> str:
    return f"{float(bound * 100):g}%" if isinstance(bound, Fraction) else str(bound)


def _misfit(message: str, place: Place) -> DatasetError:
    return wrong(message, place, hint=_HINT, code="WDS603")
