"""Samples become packs by their lengths, window by window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import length_hint
from typing import Any

import numpy as np

from wdsctl.core.addresses import read_together, written_together
from wdsctl.core.errors import LoaderError
from wdsctl.loader.failures import Failures
from wdsctl.loader.packing.candidates import ByColumns, ByFunctions, Candidates, Entry, Ints, References, Samples
from wdsctl.loader.packing.making import Maker
from wdsctl.loader.packing.merging import merge
from wdsctl.loader.packing.options import Packing
from wdsctl.loader.packing.too_long import fitted, recalled
from wdsctl.loader.packing.windows import plan_window
from wdsctl.loader.plan import digest
from wdsctl.loader.stages.hook import Hook
from wdsctl.loader.stages.item import Address, Item
from wdsctl.loader.stats import Stats

MERGE = Hook("pack_selected_samples", merge, 0)  # for those who override nothing


@dataclass(frozen=True, slots=True)
class PlannedPackStage:
    """`pack` makes one sample or several of each pack, `post` runs on samples just before.

    `patience`: candidates in a row of which none can be packed, after which a lane gives up.
    """

    packing: Packing
    pack: Hook
    post: Hook | None
    patience: int

    @property
    def options(self) -> str:
        """What a position in a window depends on: 8 hex digits of the method, lengths, capacities and the window."""
        return digest(self.packing.config())[:8]

    def open(self, upstream: Samples, refs: References, failures: Failures, stats: Stats) -> PlannedPackCursor:
        return PlannedPackCursor(self, upstream, refs, failures, stats)


class PlannedPackCursor:
    """State: where the window under way began (`of`) and what was read `until` its end, what had been carried into it,
    how many packs of it, and outputs of the next one, have left, and how many bans were in force when that was begun.
    After a restore the window is planned again when the next pack is asked for.

    `bans`: how many are in force now.
    """

    def __init__(
        self, stage: PlannedPackStage, upstream: Samples, refs: References, failures: Failures, stats: Stats
    ) -> None:
        columns = stage.packing.columns
        self._stage = stage
        self._upstream = upstream
        self._stats = stats
        self._candidates: Candidates = (
            ByFunctions(list(stage.packing.lengths.values()), upstream, refs, failures)
            if columns is None
            else ByColumns(columns, upstream, refs, failures)
        )
        self._maker = Maker(stage.pack, stage.post, self._candidates, failures)
        self._from: Any = None  # where the window under way began
        self._before = ""  # the addresses of what had been carried into it
        self._entries: list[Entry | None] = []  # of the window; None for what has left
        self._packs: list[Ints] = []
        self._carry: list[Entry] = []  # for the window after it
        self._begun = 0  # packs that were begun
        self._left = 0  # outputs of the last one of them that have left
        self._begun_with = 0  # bans
        self.bans = 0
        self._outputs: Iterator[Item] | None = None
        self._length = 0  # of the pack under way
        self._barren = 0
        self._unmade: dict[str, Any] | None = None  # of a state: the window that is not planned again yet

    def next(self) -> Item | None:
        """The next pack, or the next output of one; None where a finite lane ends."""
        if self._unmade is not None:
            self._resume(self._unmade)
        while True:
            if self._outputs is not None:
                item = next(self._outputs, None)
                if item is not None:
                    self._count(self._left)
                    self._left += 1
                    # A pack that is over need not be made again after a restore.
                    if not length_hint(self._outputs, 1):
                        self._outputs = None
                    return item
                self._outputs = None
            if self._begun < len(self._packs):
                self._outputs = self._begin_pack(self.bans)
            elif not self._fill(again=False):
                return None

    def rebuild(self, address: Address) -> Item:
        """A pack once more, from the samples it was made of."""
        return self._maker.rebuild(address)

    def state(self) -> dict[str, Any]:
        if self._unmade is not None:
            return dict(self._unmade)
        until = self._upstream.state()
        if self._outputs is None and self._begun >= len(self._packs):
            return {"of": until, "until": until, "carried": self._carried(), "packs": 0, "left": 0, "bans": 0}
        begun, left, bans = self._begun, 0, 0
        if self._outputs is not None:
            begun, left, bans = begun - 1, self._left, self._begun_with
        return {"of": self._from, "until": until, "carried": self._before, "packs": begun, "left": left, "bans": bans}

    def load(self, state: dict[str, Any]) -> None:
        self._upstream.load(state["until"])
        self._carry = [Entry(address, (), None) for address in read_together(state["carried"])]
        self._packs, self._begun, self._left, self._outputs, self._barren = [], 0, 0, None, 0
        self._unmade = dict(state) if state["packs"] or state["left"] else None

    def _carried(self) -> str:
        """The addresses of what waits for the next window."""
        return written_together([entry.address for entry in self._carry])

    def _resume(self, state: dict[str, Any]) -> None:
        """Plan the window of a state again, and go to where it was left."""
        self._unmade = None
        self._upstream.load(state["of"])
        self._fill(again=True)
        for pack in self._packs[: state["packs"]]:
            self._release(pack)
        self._begun = state["packs"]
        if state["left"] and self._begun < len(self._packs):
            self._outputs = outputs = self._begin_pack(state.get("bans", self.bans))
            while self._left < state["left"] and next(outputs, None) is not None:
                self._left += 1

    def _begin_pack(self, bans: int) -> Iterator[Item]:
        places = self._packs[self._begun]
        entries = [entry for place in places if (entry := self._entries[place]) is not None]
        content = self._maker.content(entries, bans)
        self._release(places)
        self._length = content.length
        self._begun_with = bans
        self._begun += 1
        self._left = 0
        return self._maker.outputs(content)

    def _release(self, places: Ints) -> None:
        for place in places:
            self._entries[place] = None

    def _count(self, left: int) -> None:
        """A pack counts when its first output leaves."""
        if not left:
            self._stats.packed += self._length
            self._stats.pack_capacity += self._stage.packing.capacities[0]

    def _fill(self, *, again: bool) -> bool:
        """Plan the next window; False where there is nothing any more."""
        packing = self._stage.packing
        self._from, self._before = self._upstream.state(), self._carried()
        carried = [recalled(each.address, self._candidates) if each.held is None else each for each in self._carry]
        taken, looked_at = self._candidates.take(packing.window, again=again)
        new, too_long = fitted(taken, packing, self._candidates)
        self._stats.too_long += 0 if again else too_long
        self._count_barren(0 if new else looked_at)
        window = plan_window(
            _lengths(carried, packing),
            _lengths(new, packing),
            packing.capacities,
            packing.method,
            is_last=looked_at < packing.window,
        )
        entries = [*carried, *new]
        self._entries, self._packs, self._begun = [*entries], window.packs, 0
        self._carry = [entries[place] for place in window.carry]
        return bool(entries or looked_at)

    def _count_barren(self, candidates: int) -> None:
        self._barren = self._barren + candidates if candidates else 0
        if self._barren > self._stage.patience:
            raise LoaderError(
                f"{self._barren:,} samples in a row could not be packed, as many as there are or more",
                hint="look at the lengths and the capacity, and at the failures in the log",
                code="WDS505",
            )


def _lengths(entries: Sequence[Entry], packing: Packing) -> Ints:
    return np.array([entry.lengths for entry in entries], np.int64).reshape(-1, len(packing.capacities))
