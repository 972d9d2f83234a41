"""What is left to write, given what earlier runs planned and finished. Pure: folder and ledger come as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wdsctl.core.errors import DatasetError
from wdsctl.core.raw_sample import RawSample
from wdsctl.core.shard_record import ShardRecord, keys_of, record_of
from wdsctl.core.write_plan import MARK_BYTES, digest, mark, marks_of, plan_shards, tar_bytes

_EXAMPLES = 5


class ShardTask(NamedTuple):
    """One shard to write."""

    name: str
    size_bytes: int
    samples: Sequence[RawSample]


@dataclass(slots=True)
class WritePlan:
    """`records` is the whole plan, to be stored before the first of `tasks` is written; the rest is `kept` as it is.

    `vanished` counts samples that are in kept shards and no longer in the folder. `leftovers` are shards that a killed
    run finished and could not record, and whose samples are now planned elsewhere: they are to be removed first.
    """

    records: list[ShardRecord] = field(default_factory=list)
    tasks: list[ShardTask] = field(default_factory=list)
    kept: int = 0
    vanished: int = 0
    leftovers: list[str] = field(default_factory=list)


def replan(
    samples: Sequence[RawSample],
    records: Sequence[ShardRecord],
    on_disk: Mapping[str, int],
    *,
    shard_samples: int,
    shard_size: int,
    template: str,
) -> WritePlan:
    """The next plan. `records` are of the last run, `on_disk` the sizes in bytes of the tars that are there, by name.

    Membership is never changed: a finished shard whose files changed is written again with the samples it had, one
    that was planned is written as planned; samples that no shard has get new shards after the last. Only what was never
    written and has changed since is planned anew. Raises DatasetError WDS203 where writing a shard again would lose
    samples that have vanished.
    """
    plan = WritePlan()
    unclaimed = {sample.key: sample for sample in samples} if records else {}
    lost = [record.name for record in records if not _settle(record, unclaimed, on_disk, plan)]
    if lost:
        raise _would_lose(lost)
    fresh = [sample for sample in samples if sample.key in unclaimed] if records else samples
    shards = plan_shards(
        fresh,
        shard_samples,
        shard_size,
        template,
        first_index=max((record.ordinal for record in plan.records), default=-1) + 1,
        taken={record.name for record in plan.records},
    )
    for shard in shards:
        plan.records.append(record_of(shard, fresh))
        plan.tasks.append(ShardTask(shard.name, shard.size_bytes, fresh[shard.start : shard.stop]))
    names = {record.name for record in plan.records}
    plan.leftovers = [name for name in plan.leftovers if name not in names]
    return plan


def may_be_source(samples: Sequence[RawSample], records: Sequence[ShardRecord]) -> bool:
    """Whether finished shards may be made of these samples: at least one of theirs is here as it was, none otherwise.

    It tells a folder that was moved from another one. Cost: as `replan`.
    """
    made = {
        key: record.marks[i * MARK_BYTES : (i + 1) * MARK_BYTES]
        for record in records
        if record.state != "planned"
        for i, key in enumerate(keys_of(record))
    }
    are_unchanged = [mark(sample) == made[sample.key] for sample in samples if sample.key in made]
    return not made or (bool(are_unchanged) and all(are_unchanged))


def _settle(record: ShardRecord, unclaimed: dict[str, RawSample], on_disk: Mapping[str, int], plan: WritePlan) -> bool:
    """Decide what becomes of one shard of the last plan. False if its samples cannot be written again."""
    keys = keys_of(record)
    there = [(i, unclaimed[key]) for i, key in enumerate(keys) if key in unclaimed]
    is_complete = len(there) == len(keys)
    is_unchanged = all(mark(sample) == record.marks[i * MARK_BYTES : (i + 1) * MARK_BYTES] for i, sample in there)
    if record.state == "planned" and not (is_complete and is_unchanged):
        if record.name in on_disk:
            plan.leftovers.append(record.name)
        return True
    for _, sample in there:
        del unclaimed[sample.key]
    if record.state == "done" and is_unchanged and on_disk.get(record.name) == record.size_bytes:
        plan.records.append(record)
        plan.kept += 1
        plan.vanished += len(keys) - len(there)
        return True
    if is_complete:
        _write_again(record, [sample for _, sample in there], plan)
    return is_complete


def _write_again(record: ShardRecord, samples: list[RawSample], plan: WritePlan) -> None:
    if record.state == "done":
        record = record._replace(state="outdated")
    marks = marks_of(samples)
    record = record._replace(size_bytes=tar_bytes(samples), marks=marks, digest=digest(marks))
    plan.records.append(record)
    plan.tasks.append(ShardTask(record.name, record.size_bytes, samples))


def _would_lose(names: list[str]) -> DatasetError:
    more = f" and {len(names) - _EXAMPLES:,} more" if len(names) > _EXAMPLES else ""
    return DatasetError(
        f"{len(names):,} shard{'s' if len(names) > 1 else ''} must be written again, and some of their samples "
        f"are no longer in the folder: {', '.join(names[:_EXAMPLES])}{more}",
        hint="restore the files, or prepare into a new folder",
        code="WDS203",
    )
