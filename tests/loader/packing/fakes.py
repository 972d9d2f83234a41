"""In-memory samples and references for tests of the packing stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from wdsctl.core.errors import WdsctlError
from wdsctl.loader.packing.options import Packing
from wdsctl.loader.packing.planned_stage import DEFAULT_PACK_HOOK, PlannedPackCursor, PlannedPackStage
from wdsctl.loader.runtime.failures import FailureTracker
from wdsctl.loader.runtime.stage import Address, Hook, PipelineItem, hash_restore_key
from wdsctl.loader.runtime.stats import Stats

Lengths = Callable[[int], tuple[int, ...]]  # lengths of a pick, one per budget


class FakeSource:
    """A source with the columns "tokens" and "images"."""

    number = 0
    dataset_path = "fake"

    def __init__(self, lengths: Lengths, rows: int) -> None:
        table = np.array([lengths(row) for row in range(rows)], np.int64)
        self._columns = dict(zip(("tokens", "images"), table.T, strict=False))
        self.opened: list[str] = []

    def column(self, name: str) -> Any:
        self.opened.append(name)
        return self._columns[name]

    def describe_reference(self, block: Any, i: int) -> str:
        return f"key {block.rows[i]}"


class FakeRefs:
    """Pick p is row p modulo the number of rows. `end`: the end of a finite lane."""

    def __init__(self, source: FakeSource, rows: int, end: int | None) -> None:
        self.draws = 0
        self._source = source
        self._rows = rows
        self._end = end
        self.furthest = 0

    def take(self, count: int) -> list[Any]:
        stop = self.draws + count if self._end is None else min(self.draws + count, self._end)
        refs = [self.lookup(pick) for pick in range(self.draws, stop)]
        self.draws = stop
        self.furthest = max(self.furthest, stop)
        return refs

    def lookup(self, pick: int) -> Any:
        return (self._source, SimpleNamespace(rows=[pick % self._rows]), 0)


class FakeSamples:
    """A sample has a tensor of its length; picks in `skipped` yield no sample, those in `doubled` two."""

    def __init__(
        self, refs: FakeRefs, lengths: Lengths, skipped: Sequence[int], doubled: Sequence[int], rows: int
    ) -> None:
        self.ref: Any = None
        self.ban_check: Any = None
        self.loaded: list[int] = []
        self._refs = refs
        self._lengths = lengths
        self._rows = rows
        self._skipped = frozenset(skipped)
        self._doubled = frozenset(doubled)
        self._waiting: list[PipelineItem] = []

    def next(self) -> PipelineItem | None:
        while not self._waiting:
            refs = self._refs.take(1)
            if not refs:
                return None
            self.ref = refs[0]
            self._waiting = self.make_items(refs[0], self._refs.draws - 1)
        return self._waiting.pop(0)

    def rebuild(self, address: Address) -> PipelineItem:
        pick = address[0] if isinstance(address, list) else address
        return next(item for item in self.make_items(None, pick) if item.address == address)

    def make_items(self, ref: Any, pick: int) -> list[PipelineItem]:
        self.loaded.append(pick)
        if pick in self._skipped:
            return []
        steps = 2 if pick in self._doubled else 1
        return [self._item(pick, step) for step in range(steps)]

    def state(self) -> list[int]:
        if not self._waiting:
            return [self._refs.draws, 0]
        address = self._waiting[0].address
        return address if isinstance(address, list) else [address, 0]

    def load(self, state: list[int]) -> None:
        pick, step = state
        self._refs.draws, self._waiting = pick, []
        if step:
            self._refs.take(1)
            self._waiting = self.make_items(None, pick)[step:]

    def _item(self, pick: int, step: int) -> PipelineItem:
        start = 1000 * pick
        tokens = torch.arange(start, start + self._lengths(pick % self._rows)[0])
        draws_pass, row = divmod(pick, self._rows)
        origin = (0, draws_pass, row, step) if step else (0, draws_pass, row)
        value = {"__key__": f"{pick}.{step}", "__restore_key__": origin, "tokens": tokens}
        return PipelineItem(value, [pick, step] if step else pick, hash_restore_key(origin), (origin,))


@dataclass
class Fake:
    """A lane of samples whose lengths are `lengths(pick)`, with its packing stage."""

    lengths: Lengths
    packing: Packing
    end: int | None = None
    skipped: Sequence[int] = ()
    doubled: Sequence[int] = ()
    pack: Hook = DEFAULT_PACK_HOOK
    post: Hook | None = None
    max_empty_draws: int = 10_000
    rows: int = 256
    errors: list[WdsctlError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stats = Stats()

    def open(self, state: Any = None) -> PlannedPackCursor:
        source = FakeSource(self.lengths, self.rows)
        self.refs = FakeRefs(source, self.rows, self.end)
        self.samples = FakeSamples(self.refs, self.lengths, self.skipped, self.doubled, self.rows)
        self.stats = Stats()
        failures = FailureTracker(lambda error, _sample, _sources: self.errors.append(error), self.stats, 0)  # type: ignore[arg-type]
        stage = PlannedPackStage(self.packing, self.pack, self.post, self.max_empty_draws)
        cursor = stage.open(self.samples, self.refs, failures, self.stats)
        if state is not None:
            cursor.load(state)
        return cursor


def comparable(item: PipelineItem | None) -> Any:
    """Converts an item to a value that can be compared."""
    if item is None:
        return None
    value = {name: field.tolist() if isinstance(field, torch.Tensor) else field for name, field in item.value.items()}
    return value, item.address, item.origin_hash, item.restore_keys


def draw_packs(cursor: PlannedPackCursor, packs: int = 1 << 30) -> list[PipelineItem]:
    """The next packs, until the lane ends."""
    items: list[PipelineItem] = []
    while len(items) < packs and (item := cursor.next()) is not None:
        items.append(item)
    return items
