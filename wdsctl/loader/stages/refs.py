"""The first stage: references to samples in the order of the plan. Its state is one number: how many were picked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from wdsctl.loader.arms import REFERENCES, Arm, ArmCursor
from wdsctl.loader.order.blend import Blend
from wdsctl.loader.order.geometry import Lane
from wdsctl.loader.order.mixing import History, Mixing
from wdsctl.loader.recalled import refs_at
from wdsctl.loader.source import Ref, RefRange

BLOCK = 1024  # picks whose arms are worked out at once


@dataclass(frozen=True, slots=True)
class RefStage:
    """`blends`: one for each segment of the schedule, over the same arms.

    `is_finite`: a lane ends with the epoch, of the one arm that there is, with which it begins: number `epoch`.
    """

    arms: Sequence[Arm]
    blends: Sequence[Blend]
    key: int
    is_finite: bool = False
    epoch: int = 0

    def open(self, lane: Lane, histories: Sequence[History] = ()) -> RefCursor:
        return RefCursor(self, lane, histories)


class RefCursor:
    """The references of one lane."""

    def __init__(self, stage: RefStage, lane: Lane, histories: Sequence[History]) -> None:
        self._stage = stage
        self._lane = lane
        self._mixing = Mixing(stage.blends, stage.key, lane, histories)
        self._arms: dict[int, ArmCursor] = {}  # those that were drawn from since the last seek
        self._which: list[int] = []  # the arms of the picks from `_known` on
        self._known = 0
        self._foreseen: dict[int, None] = {}  # picks, in the order in which they will be asked for
        self._found: dict[int, Ref] = {}  # of the next of them
        self.picks = 0
        self._limit = self._new(0).samples_of_an_epoch() if stage.is_finite else None

    def take(self, count: int) -> list[Ref]:
        """The next `count` references, fewer where a finite lane ends."""
        if self._limit is not None:
            count = min(count, self._limit - self.picks)
        if len(self._stage.arms) == 1:
            taken = self._arm(0).take(count)
            self.picks += count
            return taken
        refs: list[Ref] = []
        arms = self._arms
        while len(refs) < count:
            at = self.picks - self._known
            if at >= len(self._which):
                self._look_ahead()
                at = 0
            for which in self._which[at : at + count - len(refs)]:
                cursor = arms.get(which)
                # A pick counts when its reference is there: an arm that is new finds its place by what came before.
                refs.append(self._arm(which).one() if cursor is None else cursor.one())
                self.picks += 1
        return refs

    def pieces(self, count: int) -> list[RefRange]:
        """The next `count` references of a lane without end, in runs of neighbours where its one arm has them."""
        if len(self._stage.arms) > 1 or not self._stage.arms[0].in_runs:
            return [(source, block, i, i + 1) for source, block, i in self.take(count)]
        runs = self._arm(0).runs(count)
        self.picks += count
        return runs

    def at(self, pick: int) -> Ref:
        """The reference of any pick of this lane, earlier ones too; moves nothing. Some 0.4 ms, unless it was
        foreseen."""
        if pick in self._foreseen:
            together = [pick, *islice(self._foreseen, REFERENCES)]
            self._found.update(refs_at(together, self._mixing, self._known_arm))
            for each in together:
                self._foreseen.pop(each, None)
        if pick in self._found:
            return self._found.pop(pick)
        which, nth = self._mixing.at(pick)
        return self._known_arm(which).at(nth)

    def foresee(self, picks: Iterable[int]) -> None:
        """`at` will be asked for these picks, in about this order: they are worked out together, some thousand at a
        time, when it is asked for one."""
        self._foreseen = dict.fromkeys(picks)

    def seek(self, picks: int) -> None:
        """Go to where so many were picked. Each arm finds its place when it is drawn from."""
        self.picks = picks
        self._arms.clear()
        self._which, self._known = [], picks

    def mix(self, histories: Sequence[History]) -> None:
        """From here on the picks are mixed by these histories, which agree with the old ones up to here."""
        self._mixing = Mixing(self._stage.blends, self._stage.key, self._lane, histories)
        self._which, self._known = [], self.picks

    def _look_ahead(self) -> None:
        which, _ = self._mixing.picks(self.picks, self.picks + BLOCK)
        self._which, self._known = which.tolist(), self.picks

    def _arm(self, which: int) -> ArmCursor:
        cursor = self._arms.get(which)
        if cursor is None:
            cursor = self._arms[which] = self._new(which)
            cursor.seek(self._mixing.count(which, self.picks))
        return cursor

    def _known_arm(self, which: int) -> ArmCursor:
        """A cursor of an arm, wherever it is: one that is drawn from knows its window already."""
        return self._arms.get(which) or self._new(which)

    def _new(self, which: int) -> ArmCursor:
        arms = self._stage.arms
        return ArmCursor(arms[which], self._lane, self._mixing.taken(which), len(arms), self._stage.epoch)
