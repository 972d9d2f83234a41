"""The rows of a sequence in an offsets file: its frames are neighbours, and their keys count up."""

from __future__ import annotations

from typing import NamedTuple

from wdsctl.core.errors import SampleFailed
from wdsctl.core.offsets.read import ShardIndex

_MAX_DIGITS = 18  # of a frame's number


class FrameRange(NamedTuple):
    """The frames [start, stop) of a sequence, as rows of the offsets file."""

    start: int
    stop: int


class FrameRows:
    """Finds the sequence of a frame. The first frame of a sequence costs a microsecond for each of its frames."""

    def __init__(self, offsets: ShardIndex) -> None:
        self._offsets = offsets
        self._rows = int(offsets.shard_row[-1])
        self._found: dict[str, FrameRange] = {}

    def sequence_of(self, row: int) -> FrameRange:
        """The frames of the sequence that `row` belongs to.

        Raises SampleFailed WDS503 if keys are not SEQUENCE/NUMBER, or if frames are missing, or not in order.
        """
        name, number = self._split(row)
        found = self._found.get(name)
        if found is not None and found.start <= row < found.stop:
            return found
        start, stop = row, row + 1
        while start and self._is_frame(start - 1, name, number + start - 1 - row):
            start -= 1
        while stop < self._rows and self._is_frame(stop, name, number + stop - row):
            stop += 1
        if found is not None:
            apart = f"{self._offsets.key(found.start)} and {self._offsets.key(row)} are in different places"
            raise _gap_error(name, apart)
        self._found[name] = FrameRange(start, stop)
        return self._found[name]

    def _is_frame(self, row: int, name: str, number: int) -> bool:
        """Whether a row belongs to a sequence. Raises SampleFailed if it does, and has not this number."""
        other, found = self._split(row)
        if other != name:
            return False
        if found != number:
            raise _gap_error(name, f"found frame {found} in the place of frame {number}")
        return True

    def _split(self, row: int) -> tuple[str, int]:
        key = self._offsets.key(row)
        name, slash, number = key.rpartition("/")
        if not slash or not (number.isascii() and number.isdecimal() and len(number) <= _MAX_DIGITS):
            raise SampleFailed(
                f"the key {key!r} is not SEQUENCE/NUMBER",
                hint="prepare the dataset with keys such as a/000042, or remove `sequences` from dataset.yaml",
            )
        return name, int(number)


def _gap_error(name: str, problem: str) -> SampleFailed:
    return SampleFailed(
        f"the frames of {name!r} do not follow each other: {problem}",
        hint="prepare the dataset again with all frames of a sequence in order, without gaps",
    )
