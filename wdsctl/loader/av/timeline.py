"""Seconds and places. A place is what a reader of frames counts in: ticks of a stream's clock, or frames."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from wdsctl.core.errors import UsageError

Range = tuple[float, float]

#: Of a place. Seconds that come from our own times, rounded to floats, are to mean the frame they came from.
_SLACK = Fraction(1, 1000)


@dataclass(frozen=True, slots=True)
class Timeline:
    """`unit`: seconds of one place; `begins`: what second 0 is on the clock that places are counted on."""

    unit: Fraction
    begins: Fraction

    def place(self, seconds: float) -> float:
        """The last place that is not after this time."""
        if math.isinf(seconds):
            return seconds
        exact = (Fraction(seconds) + self.begins) / self.unit
        near = round(exact)
        return near if abs(exact - near) < _SLACK else math.floor(exact)

    def seconds(self, place: int) -> float:
        return float(place * self.unit - self.begins)


def checked(ranges: object, what: str) -> list[Range]:
    """Raises UsageError for what is no list of (start, end) with 0 <= start <= end; the end may be infinite."""
    try:
        pairs = [(float(start), float(end)) for start, end in ranges]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise UsageError(f"{what}={ranges!r} is no list of ranges", hint="such as [(0, 2), (4.5, 6)]") from None
    for start, end in pairs:
        if not (0 <= start <= end) or math.isinf(start):
            raise UsageError(
                f"{what}: no range goes from {start:g} to {end:g}",
                hint="a range begins at 0 or later and does not end before it begins",
            )
    return pairs


def checked_unit(unit: str, known: tuple[str, ...], what: str) -> None:
    """Raises UsageError for a unit that is not among the known ones."""
    if unit not in known:
        raise UsageError(f"{what}={unit!r} is not known", hint=f"one of {', '.join(known)}")
