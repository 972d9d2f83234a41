"""References become samples: read, decoded, built."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

from wdsctl.loader.source import Ref
from wdsctl.loader.stages.cursor import Cursor, State
from wdsctl.loader.stats import Stats


@dataclass(frozen=True, slots=True)
class LoadStage:
    stats: Stats

    def open(self, refs: Cursor[Ref]) -> LoadCursor:
        return LoadCursor(self, refs)


class LoadCursor:
    """One sample a reference; it has no state of its own."""

    def __init__(self, stage: LoadStage, refs: Cursor[Ref]) -> None:
        self._stats = stage.stats
        self._refs = refs

    def take(self, count: int) -> list[Any]:
        refs = self._refs.take(count)
        started = perf_counter()
        samples = [source.load(block, i) for source, block, i in refs]
        self._stats.load_seconds += perf_counter() - started
        return samples

    def state_dict(self) -> State:
        return self._refs.state_dict()

    def load_state_dict(self, state: State) -> None:
        self._refs.load_state_dict(state)
