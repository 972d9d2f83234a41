"""Where every so many-th row of a list of files begins, so that reading can begin near any row."""

from __future__ import annotations

from array import array
from typing import NamedTuple

EVERY = 64  # rows between two that are kept: 24 bytes for as many rows


class Spot(NamedTuple):
    """Where a row begins: the number of its file, the byte in it, the line from 1."""

    row: int
    file: int
    offset: int
    line: int


class Checkpoints:
    """Grows as the files are read the first time."""

    def __init__(self) -> None:
        self._spots = array("q", (0, 0, 1))

    def note(self, spot: Spot) -> None:
        """A row begins there. Most are not kept."""
        if spot.row % EVERY == 0 and spot.row // EVERY * 3 == len(self._spots):
            self._spots.extend(spot[1:])

    def before(self, row: int) -> Spot:
        """The nearest place at or before `row` that is known."""
        kept = min(row // EVERY, len(self._spots) // 3 - 1)
        return Spot(kept * EVERY, *self._spots[3 * kept : 3 * kept + 3])
