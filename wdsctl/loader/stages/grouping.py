"""Items come together as batches: so many in a row, or so many of a group."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol

from wdsctl.core.addresses import read, written
from wdsctl.core.errors import UsageError
from wdsctl.core.printable import short
from wdsctl.loader.failures import Failures, place_of, value_of
from wdsctl.loader.stages.cursor import Cursor
from wdsctl.loader.stages.item import Address, Item, key_of
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

    def __init__(self, upstream: Cursor, size: int, stats: Stats, *, drop_last: bool = False) -> None:
        self._upstream = upstream
        self._size = size
        self._stats = stats
        self._least = size if drop_last else 1

    def next(self) -> list[Item]:
        items: list[Item] = []
        while len(items) < self._size and (item := self._upstream.next()) is not None:
            if item.banned:
                self._stats.banned += len(item.origins)
            else:
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

    def group_of(self, value: Any) -> tuple[Hashable, int]:
        """The group of a value, and how many make a batch. Raises UsageError (WDS512) for an answer that is none."""
        answer: Any = self.criterion(value)
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            raise _wrong(f"batch_group_criterion gives {short(answer)}, and not a group and a size")
        group, size = answer
        if not _has_hash(group):
            raise _wrong(f"batch_group_criterion gives the group {short(group)}, which has no hash")
        wanted = self.size if size is None else size
        if wanted is None:
            raise _wrong(f"batch_group_criterion gives the group {short(group)} no size, and there is no batch_size")
        if isinstance(wanted, bool) or not hasattr(wanted, "__index__") or index(wanted) < 1:
            raise _wrong(f"batch_group_criterion gives the group {short(group)} the size {short(wanted)}")
        return group, index(wanted)


@dataclass(slots=True)
class Group:
    """Items that wait for one another, with the numbers in which they came."""

    size: int
    rows: list[tuple[int, Item]]


class Groups:
    """Items wait in their group until it is full. State: where the next item comes from, and who waits, as text.

    An address is written once, when its item comes, and not again with every batch for which it waits.
    """

    def __init__(self, stage: GroupStage, upstream: Cursor, failures: Failures, stats: Stats) -> None:
        self._stage = stage
        self._upstream = upstream
        self._failures = failures
        self._stats = stats
        # The group that has waited longest comes first. Items have a number, by which they leave `_waiting`.
        self._groups: dict[Hashable, Group] = {}
        self._waiting: dict[int, str] = {}  # their addresses
        self._arrived = 0
        self._unmade: list[Address] = []  # of a state: made again when the next batch is asked for
        self._unread = ""  # the same, as the state has it
        self._is_recalled = False  # some may wait in groups that are full: another size was in force before

    def next(self) -> list[Item]:
        """The next full group; at the end of a finite lane what waits, group by group; then nothing."""
        self._recall()
        if self._is_recalled:
            full = next((key for key, group in self._groups.items() if len(group.rows) >= group.size), None)
            if full is not None:
                return self._taken(full)
            self._is_recalled = False
        while (item := self._upstream.next()) is not None:
            if item.banned:
                self._stats.banned += len(item.origins)
                continue
            placed = self._place(item)
            if placed is None:
                continue
            key, group = placed
            if len(group.rows) >= group.size:
                return self._taken(key)
            if len(self._waiting) > self._stage.most:
                self._stats.flushed += 1
                return self._taken(next(iter(self._groups)))
        return self._taken(next(iter(self._groups))) if self._groups and not self._stage.drop_last else []

    def state(self) -> dict[str, Any]:
        return {"of": self._upstream.state(), "waiting": self._unread or "".join(self._waiting.values())}

    def load(self, state: dict[str, Any]) -> None:
        self._upstream.load(state["of"])
        self._groups, self._waiting = {}, {}
        self._unread, self._unmade = state["waiting"], read(state["waiting"])

    def _recall(self) -> None:
        """Make again what waits, where that has not been done since a state was loaded."""
        if not self._unmade:
            return
        items = [self._upstream.rebuild(address) for address in self._unmade]
        self._unread, self._unmade, self._is_recalled = "", [], True
        for item in items:
            if item.banned:
                self._stats.banned += len(item.origins)
            else:
                self._place(item)

    def _place(self, item: Item) -> tuple[Hashable, Group] | None:
        """Put an item into its group. None where the criterion has no good answer for it."""
        try:
            key, size = self._stage.group_of(item.value)
            group = self._groups.get(key) or Group(size, [])
            if group.size != size:
                raise UsageError(
                    f"batch_group_criterion gives the group {short(key)} two sizes: {group.size} and {size}",
                    hint="return the same size for all samples of a group",
                    code="WDS513",
                )
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a hook may raise anything: all of it is told
            self._failures.failed("batch_group_criterion", error, item.value, place_of(item.value))
            return None
        self._failures.succeeded("batch_group_criterion")
        self._groups[key] = group
        group.rows.append((self._arrived, item))
        self._waiting[self._arrived] = written(item.address)
        self._arrived += 1
        return key, group

    def _taken(self, key: Hashable) -> list[Item]:
        """A batch's worth of a group. What is too many for one goes on waiting, by when it came."""
        group = self._groups.pop(key)
        rows, rest = group.rows[: group.size], group.rows[group.size :]
        if rest:
            self._groups[key] = Group(group.size, rest)
            self._groups = dict(sorted(self._groups.items(), key=lambda each: each[1].rows[0][0]))
        for number, _ in rows:
            del self._waiting[number]
        return [item for _, item in rows]


def _has_hash(group: Any) -> bool:
    """A tuple with a list in it, say, looks as if it had one."""
    try:
        hash(group)
    except TypeError:
        return False
    return True


def _wrong(words: str) -> UsageError:
    return UsageError(
        words,
        hint="return (group, size): a group that can be hashed, and 1 or more, or None for the dataset's batch_size",
        code="WDS512",
    )
