"""Where a video can be entered: its keyframes by time, by number and by byte. A small value, for a catalog to keep.

A decoder that is given one needs no search: frame n is so many frames behind the keyframe before it, and what lies
between is decoded. The times of the frames between are not kept: whoever enters at a keyframe meets them.

As bytes (`to_bytes`): `WKI1`, then LEB128 numbers, those that may be negative zigzagged: numerator and denominator of
the time base, frames, start, end, keyframes; then of every keyframe what is added to the one before, in time, number
and byte. That is some 9 bytes a keyframe, 6 KB an hour of film that has one every 5 s.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

from wdsctl.core.errors import InputError

MAGIC = b"WKI1"


@dataclass(frozen=True, slots=True)
class KeyframeIndex:
    """Times are in ticks of `time_base` seconds, on the clock of the file. The three tuples are of one length."""

    time_base: Fraction
    frames: int  # that are shown
    start: int  # when the first frame is shown
    end: int  # when the last frame has been shown
    pts: tuple[int, ...]  # when each keyframe is shown, ascending
    numbers: tuple[int, ...]  # how many frames are shown before it
    positions: tuple[int, ...]  # of its first byte in the file, -1 where it is not known

    def at_tick(self, tick: float) -> int:
        """Which keyframe to enter by for what is shown at this time: the last one that is shown by then, or the 0th."""
        return max(0, bisect_right(self.pts, tick) - 1)

    def to_bytes(self) -> bytes:
        head = [*self.time_base.as_integer_ratio(), self.frames]
        head += [_zigzag(self.start), _zigzag(self.end), len(self.pts)]
        body = zip(_steps(self.pts), _steps(self.numbers), _steps(self.positions), strict=True)
        return MAGIC + b"".join(map(_leb, head)) + b"".join(_leb(_zigzag(step)) for steps in body for step in steps)

    @classmethod
    def from_bytes(cls, data: bytes) -> KeyframeIndex:
        """Raises InputError where the bytes are not those of an index."""
        try:
            return cls._read(data)
        except (ValueError, ZeroDivisionError):
            raise InputError(
                "these bytes are no keyframe index, or are damaged",
                hint="leave the index out: the decoder then looks for keyframes itself",
            ) from None

    @classmethod
    def _read(cls, data: bytes) -> KeyframeIndex:
        if data[: len(MAGIC)] != MAGIC:
            raise ValueError(MAGIC)
        numbers = _numbers(data[len(MAGIC) :])
        numerator, denominator, frames, start, end, count = islice(numbers, 6)
        steps = [_unzigzag(number) for number in numbers]
        if len(steps) != 3 * count:
            raise ValueError(count)
        columns = (tuple(_sums(steps[i::3])) for i in range(3))
        return cls(Fraction(numerator, denominator), frames, _unzigzag(start), _unzigzag(end), *columns)


def _steps(values: tuple[int, ...]) -> Iterator[int]:
    before = 0
    for value in values:
        yield value - before
        before = value


def _sums(steps: list[int]) -> Iterator[int]:
    total = 0
    for step in steps:
        total += step
        yield total


def _zigzag(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1


def _unzigzag(value: int) -> int:
    return -(value + 1) // 2 if value & 1 else value // 2


def _leb(value: int) -> bytes:
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)


def _numbers(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0
    if shift:
        raise ValueError(shift)
