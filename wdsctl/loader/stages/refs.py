"""The first stage: references to samples in the order of the plan. Its state is one number: how many were picked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wdsctl.loader.arms import Arm, ArmCursor
from wdsctl.loader.order.blend import Blend
from wdsctl.loader.order.geometry import Lane
from wdsctl.loader.order.mixing import History, Mixing
from wdsctl.loader.references import Run
from wdsctl.loader.source import Ref, Source

BLOCK = 1024  # picks whose arms are worked out at once


@dataclass(frozen=True, slots=True)
class RefStage:
    """`blends`: one for each segment of the schedule, over the same arms. `lanes`: how many the job began with.

    `is_finite`: a lane ends with the first epoch of the one arm that there is.
    """

    arms: Sequence[Arm]
    blends: Sequence[Blend]
    key: int
    lanes: int
    is_finite: bool = False

    def open(self, lane: Lane, histories: Sequence[History] = ()) -> RefCursor:
        return RefCursor(self, lane, histories)

    @property
    def only_source(self) -> Source | None:
        """The one source of everything, where there is one: then references come in runs."""
        return self.arms[0].source if len(self.arms) == 1 else None


class RefCursor:
    """The references of one lane."""

    def __init__(self, stage: RefStage, lane: Lane, histories: Sequence[History]) -> None:
        self._stage = stage
        self._lane = lane
        self._mixing = Mixing(stage.blends, stage.key, lane, histories)
        self._arms: dict[int, ArmCursor] = {}  # those that were drawn from since the last seek
        self._which: list[int] = []  # the arms of the picks from `_known` on
        self._known = 0
        self.picks = 0
        self._limit = self._new(0).samples_of_a_pass() if stage.is_finite else None

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
                # A pick counts when its reference is there: an arm that is new finds its place by what came before.
                refs.append((arms.get(which) or self._arm(which)).one())
                self.picks += 1
        return refs

    def runs(self, count: int) -> list[Run]:
        """The next `count` references as runs of neighbours, where the stage has an `only_source`."""
        runs = self._arm(0).runs(count)
        self.picks += count
        return runs

    def at(self, pick: int) -> Ref:
        """The reference of any pick of this lane, earlier ones too; moves nothing."""
        which, nth = self._mixing.at(pick)
        return self._new(which).at(nth)

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

    def _new(self, which: int) -> ArmCursor:
        arms = self._stage.arms
        return ArmCursor(arms[which], self._lane, self._stage.lanes, self._mixing.taken(which), len(arms))
