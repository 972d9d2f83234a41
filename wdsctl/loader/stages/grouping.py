"""Items come together as batches: so many in a row, or so many of a group."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from wdsctl.core.errors import UsageError
from wdsctl.loader.failures import Failures, place_of, value_of
from wdsctl.loader.stages.cursor import Cursor
from wdsctl.loader.stages.item import Item, key_of, read, written
from wdsctl.loader.stats import Stats

Criterion = Callable[[Any], tuple[Hashable, int | None]]


class Loaded(Protocol):
    """Where samples come from that no hook sees one by one."""

    def take(self, count: int) -> list[Any]: ...

    def state(self) -> Any: ...

    def load(self, state: Any) -> None: ...


class Rows:
    """`size` items in a row; the last of a finite lane may be fewer, unless `drop_last`. It holds nothing between two
    batches."""

    def __init__(self, upstream: Cursor, size: int, *, drop_last: bool = False) -> None:
        self._upstream = upstream
        self._size = size
        self._least = size if drop_last else 1

    def next(self) -> list[Item]:
        items: list[Item] = []
        while len(items) < self._size and (item := self._upstream.next()) is not None:
            items.append(item)
        return items if len(items) >= self._least else []

    def state(self) -> Any:
        return self._upstream.state()

    def load(self, state: Any) -> None:
        self._upstream.load(state)


class Straight:
    """`size` samples in a row, straight from where they are loaded, for batches that no hook sees the samples of."""

    def __init__(self, samples: Loaded, size: int, *, with_keys: bool, drop_last: bool = False) -> None:
        self._samples = samples
        self._size = size
        self._with_keys = with_keys
        self._least = size if drop_last else 1

    def next(self) -> list[Item]:
        samples = self._samples.take(self._size)
        if len(samples) < self._least:
            return []
        if not self._with_keys:
            return [Item(sample, None, 0) for sample in samples]
        return [Item(sample, None, key_of(value_of(sample, "__restore_key__"))) for sample in samples]

    def state(self) -> Any:
        return self._samples.state()

    def load(self, state: Any) -> None:
        self._samples.load(state)


@dataclass(frozen=True, slots=True)
class GroupStage:
    """`criterion(value)` gives a group and its batch size (None: `size`).

    Where more than `most` items wait, the group that has waited longest goes as a smaller batch. `drop_last`: what
    waits at the end of a finite lane is left out.
    """

    criterion: Criterion
    size: int | None
    most: int
    drop_last: bool = False

    def open(self, upstream: Cursor, failures: Failures, stats: Stats) -> Groups:
        return Groups(self, upstream, failures, stats)


class Groups:
    """Items wait in their group until it is full. State: where the next item comes from, and who waits."""

    def __init__(self, stage: GroupStage, upstream: Cursor, failures: Failures, stats: Stats) -> None:
        self._stage = stage
        self._upstream = upstream
        self._failures = failures
        self._stats = stats
        # The group that has waited longest comes first. Items have a number, by which they leave `_waiting`.
        self._groups: dict[Hashable, list[tuple[int, Item]]] = {}
        self._waiting: dict[int, Any] = {}  # their addresses, as states have them
        self._arrived = 0
        self._unmade: list[Any] = []  # of a state: made again when the next batch is asked for

    def next(self) -> list[Item]:
        """The next full group; at the end of a finite lane what waits, group by group; then nothing."""
        self._recall()
        while (item := self._upstream.next()) is not None:
            placed = self._place(item)
            if placed is None:
                continue
            group, size = placed
            if len(self._groups[group]) >= size:
                return self._taken(group)
            if len(self._waiting) > self._stage.most:
                self._stats.flushed += 1
                return self._taken(next(iter(self._groups)))
        return self._taken(next(iter(self._groups))) if self._groups and not self._stage.drop_last else []

    def state(self) -> dict[str, Any]:
        return {"of": self._upstream.state(), "waiting": self._unmade or list(self._waiting.values())}

    def load(self, state: dict[str, Any]) -> None:
        self._upstream.load(state["of"])
        self._groups, self._waiting, self._unmade = {}, {}, list(state["waiting"])

    def _recall(self) -> None:
        """Make again what waits, where that has not been done since a state was loaded."""
        items = [self._upstream.rebuild(read(address)) for address in self._unmade]
        self._unmade = []
        for item in items:
            self._place(item)

    def _place(self, item: Item) -> tuple[Hashable, int] | None:
        """Put an item into its group: the group and the size it has to reach."""
        try:
            group, size = self._stage.criterion(item.value)
            wanted = self._stage.size if size is None else size
            if wanted is None or wanted < 1:
                raise UsageError(
                    f"batch_group_criterion gives the group {group!r} the size {size}, and there is no batch_size",
                    hint="return a size of at least 1, or give a batch_size",
                )
            self._groups.setdefault(group, []).append((self._arrived, item))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a hook may raise anything: all of it is told
            self._failures.failed("batch_group_criterion", error, item.value, place_of(item.value))
            return None
        self._failures.succeeded("batch_group_criterion")
        self._waiting[self._arrived] = written(item.address)
        self._arrived += 1
        return group, wanted

    def _taken(self, group: Hashable) -> list[Item]:
        rows = self._groups.pop(group)
        for number, _ in rows:
            del self._waiting[number]
        return [item for _, item in rows]
