"""Collects the items of a batch: consecutive ones, or those of one group."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol

from wdsctl.core.checkpoint.addresses import decode_addresses, encode_address
from wdsctl.core.errors import UsageError
from wdsctl.core.hashing import hash_one_value
from wdsctl.core.text import short_repr
from wdsctl.loader.runtime.failures import FailureTracker
from wdsctl.loader.runtime.position import begin_hook, end_hook
from wdsctl.loader.runtime.randomness import seed_all
from wdsctl.loader.runtime.sample_fields import describe_sample_location, get_field
from wdsctl.loader.runtime.stage import Address, Cursor, PipelineItem, hash_restore_key
from wdsctl.loader.runtime.stats import Stats

GroupCriterion = Callable[[Any], tuple[Hashable, int | None]]


class PlainSampleCursor(Protocol):
    """Gives samples that no hook sees one by one."""

    def take(self, count: int) -> list[Any]: ...

    def state(self) -> Any: ...

    def load(self, state: Any) -> None: ...


class ItemBatches:
    """`size` consecutive items; the last batch of a finite lane may be smaller, unless `drop_last`. Holds nothing
    between two batches."""

    def __init__(self, upstream: Cursor, size: int, stats: Stats, *, drop_last: bool = False) -> None:
        self._upstream = upstream
        self._batch_size = size
        self._stats = stats
        self._min_size = size if drop_last else 1

    def next(self) -> list[PipelineItem]:
        items: list[PipelineItem] = []
        while len(items) < self._batch_size and (item := self._upstream.next()) is not None:
            if item.banned_by:
                self._stats.banned += len(item.restore_keys)
            else:
                items.append(item)
        return items if len(items) >= self._min_size else []

    def state(self) -> Any:
        return self._upstream.state()

    def load(self, state: Any) -> None:
        self._upstream.load(state)


class PlainSampleBatches:
    """`size` consecutive samples, straight from their cursor, for batches whose samples no hook sees."""

    def __init__(self, samples: PlainSampleCursor, size: int, *, with_keys: bool, drop_last: bool = False) -> None:
        self._samples = samples
        self._batch_size = size
        self._with_keys = with_keys
        self._min_size = size if drop_last else 1

    def next(self) -> list[PipelineItem]:
        samples = self._samples.take(self._batch_size)
        if len(samples) < self._min_size:
            return []
        if not self._with_keys:
            return [PipelineItem(sample, None, 0) for sample in samples]
        return [
            PipelineItem(sample, None, hash_restore_key(get_field(sample, "__restore_key__"))) for sample in samples
        ]

    def state(self) -> Any:
        return self._samples.state()

    def load(self, state: Any) -> None:
        self._samples.load(state)


@dataclass(frozen=True, slots=True)
class GroupStage:
    """`criterion(value)` returns a group and its batch size (None: `default_size`).

    If more than `max_waiting` items wait, the oldest group is emitted as a smaller batch. `drop_last`: items that wait
    at the end of a finite lane are dropped. `seed`: of the random numbers that the criterion draws for an item; None if
    it draws none. `tolerance`: consecutive failures that end the run, None for the default.
    """

    criterion: GroupCriterion
    default_size: int | None
    max_waiting: int
    drop_last: bool = False
    seed: int | None = None
    tolerance: int | None = None

    def open(self, upstream: Cursor, failures: FailureTracker, stats: Stats) -> GroupCursor:
        return GroupCursor(self, upstream, failures, stats)

    def group_of(self, value: Any) -> tuple[Hashable, int]:
        """The group of a value, and its batch size. Raises UsageError (WDS512) for an invalid criterion result."""
        answer: Any = self.criterion(value)
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            raise _criterion_error(f"batch_group_criterion returned {short_repr(answer)}, expected (group, size)")
        group, size = answer
        try:
            hash(group)  # the type is not enough: a tuple that contains a list has no hash
        except TypeError:
            message = f"batch_group_criterion returned the group {short_repr(group)}, which is not hashable"
            raise _criterion_error(message) from None
        batch_size = self.default_size if size is None else size
        if batch_size is None:
            raise _criterion_error(
                f"batch_group_criterion returned no size for the group {short_repr(group)}, and the dataset has no "
                "batch_size"
            )
        if isinstance(batch_size, bool) or not hasattr(batch_size, "__index__") or index(batch_size) < 1:
            raise _criterion_error(
                f"batch_group_criterion returned the size {short_repr(batch_size)} for the group "
                f"{short_repr(group)}, expected 1 or more"
            )
        return group, index(batch_size)


@dataclass(slots=True)
class WaitingGroup:
    """Items of one group that wait for more, with their numbers in order of arrival."""

    size: int
    numbered_items: list[tuple[int, PipelineItem]]


class GroupCursor:
    """Items wait in their group until it is full. State: where the next item comes from, and the waiting items as text.

    An address is encoded once, when its item comes, and not again with every batch for which it waits.
    """

    def __init__(self, stage: GroupStage, upstream: Cursor, failures: FailureTracker, stats: Stats) -> None:
        self._stage = stage
        self._upstream = upstream
        self._failures = failures
        self._stats = stats
        # The oldest group is first. Items have numbers, which are their keys in `_waiting_addresses`.
        self._groups: dict[Hashable, WaitingGroup] = {}
        self._waiting_addresses: dict[int, str] = {}  # their addresses
        self._next_number = 0
        self._unbuilt_addresses: list[Address] = []  # of a state: rebuilt for the next batch
        self._unbuilt_text = ""  # the same, as in the state
        self._may_have_full_groups = False  # of a state that was saved with other sizes

    def next(self) -> list[PipelineItem]:
        """The next full group; at the end of a finite lane the waiting items, group by group; then nothing."""
        self._rebuild_waiting()
        if self._may_have_full_groups:
            full = next((key for key, group in self._groups.items() if len(group.numbered_items) >= group.size), None)
            if full is not None:
                return self._take_batch(full)
            self._may_have_full_groups = False
        while (item := self._upstream.next()) is not None:
            if item.banned_by:
                self._stats.banned += len(item.restore_keys)
                continue
            joined = self._add_to_group(item)
            if joined is None:
                continue
            key, group = joined
            if len(group.numbered_items) >= group.size:
                return self._take_batch(key)
            if len(self._waiting_addresses) > self._stage.max_waiting:
                self._stats.flushed += 1
                return self._take_batch(next(iter(self._groups)))
        return self._take_batch(next(iter(self._groups))) if self._groups and not self._stage.drop_last else []

    def state(self) -> dict[str, Any]:
        return {
            "upstream": self._upstream.state(),
            "waiting": self._unbuilt_text or "".join(self._waiting_addresses.values()),
        }

    def load(self, state: dict[str, Any]) -> None:
        self._upstream.load(state["upstream"])
        self._groups, self._waiting_addresses = {}, {}
        self._unbuilt_text, self._unbuilt_addresses = state["waiting"], decode_addresses(state["waiting"])

    def _rebuild_waiting(self) -> None:
        """Rebuild the waiting items of a loaded state, once."""
        if not self._unbuilt_addresses:
            return
        with self._failures.repeating():
            items = [self._upstream.rebuild(address) for address in self._unbuilt_addresses]
        self._unbuilt_text, self._unbuilt_addresses, self._may_have_full_groups = "", [], True
        for item in items:
            if item.banned_by:
                self._stats.banned += len(item.restore_keys)
            else:
                self._add_to_group(item)

    def _add_to_group(self, item: PipelineItem) -> tuple[Hashable, WaitingGroup] | None:
        """Add an item to its group. None if the criterion fails on it."""
        if self._stage.seed is not None:
            seed_all(hash_one_value(self._stage.seed, item.origin_hash))
        before = begin_hook(item.origin_hash)
        try:
            key, size = self._stage.group_of(item.value)
            group = self._groups.get(key) or WaitingGroup(size, [])
            if group.size != size:
                raise UsageError(
                    f"batch_group_criterion returned two sizes for the group {short_repr(key)}: {group.size} and "
                    f"{size}",
                    hint="return the same size for all samples of a group",
                    code="WDS513",
                )
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a hook may raise anything: all of it is reported
            where = describe_sample_location(item.value)
            self._failures.record_failure("batch_group_criterion", error, item.value, where, self._stage.tolerance)
            return None
        finally:
            end_hook(before)
        self._failures.record_success("batch_group_criterion")
        self._groups[key] = group
        group.numbered_items.append((self._next_number, item))
        self._waiting_addresses[self._next_number] = encode_address(item.address)
        self._next_number += 1
        return key, group

    def _take_batch(self, group_name: Hashable) -> list[PipelineItem]:
        """A batch of a group. Further items of the group keep waiting, in the order in which they came."""
        group = self._groups.pop(group_name)
        rows, rest = group.numbered_items[: group.size], group.numbered_items[group.size :]
        if rest:
            self._groups[group_name] = WaitingGroup(group.size, rest)
            self._groups = dict(sorted(self._groups.items(), key=lambda each: each[1].numbered_items[0][0]))
        for number, _ in rows:
            del self._waiting_addresses[number]
        return [item for _, item in rows]


def _criterion_error(message: str) -> UsageError:
    return UsageError(
        message,
        hint="return (group, size): a hashable group, and a batch size of 1 or more, or None for the dataset's "
        "batch_size",
        code="WDS512",
    )
