"""Which arm of a blend each pick of a lane comes from, and how many of an arm's samples came before: arithmetic.

A lane counts its picks from 0. A cut that gives a lane children lets child 0 count on; the others begin at 0 again, so
a lane's life has levels, one more with each such beginning. Where weights change on the way, a level's history says
which segment of the schedule began at which pick; without a schedule it is one segment from pick 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.keys import derive
from wdsctl.loader.order.blend import Blend
from wdsctl.loader.order.geometry import Lane

Ints = NDArray[np.int64]
History = Sequence[Sequence[int]]  # (segment, the pick it began at), ascending

CONSTANT: tuple[tuple[tuple[int, int], ...], ...] = (((0, 0),),)


@dataclass(frozen=True, slots=True)
class Span:
    """Picks [begin, end) of a level, mixed by one blend. `before`: samples of each arm that came before `begin`."""

    blend: Blend
    phase: Ints
    begin: int
    end: int | None
    before: Ints

    def counts(self, picks: int) -> Ints:
        """Samples of each arm among the level's first `picks`, which end in this span."""
        return self.before + self.blend.counts(self.phase, picks - self.begin)


class Mixing:
    """The picks of one lane. `histories`: one for each level of the lane's life, the last one its present."""

    def __init__(self, blends: Sequence[Blend], key: int, lane: Lane, histories: Sequence[History] = ()) -> None:
        names = _names(lane)
        # A child of a lane that never drew knows the present and nothing before: then nothing was before.
        given = list(histories) or [CONSTANT[0]] * len(names)
        self._levels = [_spans(blends, key, name, history) for name, history in zip(names, given, strict=True)]
        self._cuts = lane.cuts

    def picks(self, start: int, stop: int) -> tuple[Ints, Ints]:
        """Of the picks [start, stop): the arm of each, and its number among all samples of that arm in this lane."""
        pieces = []
        for span in self._levels[-1]:
            low, high = max(start, span.begin), stop if span.end is None else min(stop, span.end)
            if low < high:
                which, nth = span.blend.picks(span.phase, low - span.begin, high - span.begin)
                pieces.append((which, nth + span.before[which]))
        which, nth = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
        return which, nth

    def at(self, pick: int) -> tuple[int, int]:
        """The arm of one pick, and its number among the arm's samples."""
        which, nth = self.picks(pick, pick + 1)
        return int(which[0]), int(nth[0])

    def count(self, arm: int, picks: int) -> int:
        """How many of the lane's first `picks` come from this arm."""
        return _count(self._levels[-1], arm, picks)

    def taken(self, arm: int) -> tuple[int, ...]:
        """Samples of an arm that the lane, or the ancestor it then was, had taken at each of its cuts."""
        level, taken = 0, []
        for cut in self._cuts:
            taken.append(_count(self._levels[level], arm, cut.picks))
            level += cut.child > 0
        return tuple(taken)


def _count(spans: Sequence[Span], arm: int, picks: int) -> int:
    span = next(span for span in reversed(spans) if span.begin <= picks)
    return int(span.before[arm]) + span.blend.count(span.phase, arm, picks - span.begin)


def _names(lane: Lane) -> list[tuple[int, ...]]:
    """What each level of a lane's life was called."""
    ends = [i for i, cut in enumerate(lane.cuts) if cut.child > 0]
    return [Lane(lane.root, lane.cuts[:end]).name() for end in ends] + [lane.name()]


def _spans(blends: Sequence[Blend], key: int, name: tuple[int, ...], history: History) -> tuple[Span, ...]:
    spans: list[Span] = []
    before = np.zeros(len(blends[0].weights), np.int64)
    for (segment, begin), following in pairwise([*history, None]):  # type: ignore[misc]
        end = None if following is None else following[1]
        blend = blends[segment]
        spans.append(Span(blend, blend.phase(derive("blend", key, segment, *name)), begin, end, before))
        if end is not None:
            before = spans[-1].counts(end)
    return tuple(spans)
