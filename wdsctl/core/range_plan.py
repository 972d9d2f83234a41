"""Ranges of bytes as few requests: neighbours are read together, long ones in pieces that can go side by side. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wdsctl.core.storage import Range

GAP = 256 << 10  # bytes between two ranges that are read rather than skipped: about what a request's delay costs
PIECE = 8 << 20  # bytes of one request at most


class Piece(NamedTuple):
    """One request: bytes [start, stop) of a file."""

    path: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class RangePlan:
    """`pieces` are to be fetched. `runs`: (start, first piece, one past the last) of what lies together in them."""

    ranges: Sequence[Range]
    pieces: list[Piece]
    runs: list[tuple[int, int, int]]
    run_of: list[int]  # of each range; -1 for one of no bytes

    def cut(self, fetched: Sequence[bytes]) -> list[bytes]:
        """The bytes of every range, in the order asked for, from those of the pieces."""
        found = [b""] * len(self.ranges)
        whole, held = b"", -1
        for i in sorted(range(len(self.ranges)), key=self.run_of.__getitem__):
            run, wanted = self.run_of[i], self.ranges[i]
            if run < 0:
                continue
            start, first, last = self.runs[run]
            if run != held:
                whole, held = fetched[first] if last - first == 1 else b"".join(fetched[first:last]), run
            found[i] = whole[wanted.offset - start : wanted.offset - start + wanted.size]
        return found


def planned(ranges: Sequence[Range], *, gap: int = GAP, piece: int = PIECE) -> RangePlan:
    """The requests for these ranges, in any order, from any files. Cost: a sort."""
    pieces: list[Piece] = []
    runs: list[tuple[int, int, int]] = []
    run_of = [-1] * len(ranges)
    order = sorted((i for i, each in enumerate(ranges) if each.size), key=ranges.__getitem__)
    at = 0
    while at < len(order):
        path, start, size = ranges[order[at]]
        stop, then = start + size, at
        while then < len(order) and ranges[order[then]].path == path and ranges[order[then]].offset <= stop + gap:
            stop = max(stop, ranges[order[then]].offset + ranges[order[then]].size)
            run_of[order[then]] = len(runs)
            then += 1
        first = len(pieces)
        pieces += [Piece(path, begin, min(begin + piece, stop)) for begin in range(start, stop, piece)]
        runs.append((start, first, len(pieces)))
        at = then
    return RangePlan(ranges, pieces, runs, run_of)
