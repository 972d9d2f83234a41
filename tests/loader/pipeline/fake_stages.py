"""Fake items, references and sources for tests of pipeline stages."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from wdsctl.core.hashing import derive_seed
from wdsctl.loader.runtime.failures import ErrorHandler, FailureTracker, log_exception
from wdsctl.loader.runtime.stage import Hook, PipelineItem
from wdsctl.loader.runtime.stats import Stats


def failures_of(handler: ErrorHandler = log_exception, **options: Any) -> FailureTracker:
    return FailureTracker(handler, Stats(), **options)


def hook_of(call: Callable[[Any], Any], name: str = "encode_sample", **options: Any) -> Hook:
    return Hook(name, call, derive_seed("hook", name), **options)


class Numbers:
    """Items 0, 1, 2, ..., endless or up to `most`. `rebuilt`: the addresses that were rebuilt."""

    def __init__(self, most: int | None = None) -> None:
        self.at = 0
        self.most = most
        self.rebuilt: list[Any] = []

    def next(self) -> PipelineItem | None:
        if self.at == self.most:
            return None
        self.at += 1
        return self._item(self.at - 1)

    def rebuild(self, address: Any) -> PipelineItem:
        self.rebuilt.append(address)
        return self._item(address)

    def state(self) -> Any:
        return self.at

    def load(self, state: Any) -> None:
        self.at = state

    def _item(self, number: int) -> PipelineItem:
        value = {"__key__": f"{number}", "__restore_key__": (0, 0, number), "n": number}
        return PipelineItem(value, number, number, ((0, 0, number),))


class Memory:
    """A source whose samples are numbers; those in `broken` cannot be loaded."""

    number = 0
    dataset_path = "memory"

    def __init__(self, broken: set[int] | None = None) -> None:
        self.broken = broken or set()
        self.loaded: list[int] = []

    def load(self, block: Any, i: int) -> Any:
        number = block.ids[i]
        self.loaded.append(number)
        if number in self.broken:
            raise ValueError(f"{number} is broken")
        return {"__key__": f"{number}", "__restore_key__": (0, 0, number), "n": number}

    def describe_reference(self, block: Any, i: int) -> str:
        return f"dataset memory, key {block.keys[i]}"


class References:
    """References to samples 0, 1, 2, ... of one source."""

    def __init__(self, source: Any = None, most: int | None = None) -> None:
        self.source = source or Memory()
        self.most = most
        self.draws = 0

    def take(self, count: int) -> list[Any]:
        if self.most is not None:
            count = min(count, self.most - self.draws)
        refs = [self.lookup(self.draws + i) for i in range(count)]
        self.draws += count
        return refs

    def lookup(self, pick: int) -> Any:
        block = SimpleNamespace(ids=[pick], passes=[0], keys=[f"{pick}"])
        return self.source, block, 0

    def seek(self, picks: int) -> None:
        self.draws = picks
