"""What is left to write, given what earlier runs planned and finished. Pure: folder and ledger come as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from wdsctl.core.errors import DatasetError
from wdsctl.core.raw_sample import RawSample
from wdsctl.core.shard_record import ShardRecord, keys_of, pack_keys, record_of
from wdsctl.core.write_plan import MARK_BYTES, digest, mark, marks_of, plan_shards, tar_bytes

_EXAMPLES = 5

#: What becomes of samples that have vanished, and of shards.
Missing = Literal["error", "keep", "drop"]


class ShardTask(NamedTuple):
    """One shard to write."""

    name: str
    size_bytes: int
    samples: Sequence[RawSample]


@dataclass(slots=True)
class WritePlan:
    """`records` is the whole plan, to be stored before the first of `tasks` is written; the rest is `kept` as it is.

    `vanished` counts samples that are in kept shards and no longer in the folder. `leftovers` are shards that a killed
    run finished and could not record, and whose samples are now planned elsewhere, or of which no sample is left: they
    are to be removed first. `dropped`: keys of samples that have vanished and are no longer in the shards. `renamed`:
    old and new keys. `stale`: shards whose files changed, and that stay as they are since samples have vanished.
    """

    records: list[ShardRecord] = field(default_factory=list)
    tasks: list[ShardTask] = field(default_factory=list)
    kept: int = 0
    vanished: int = 0
    leftovers: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    stale: int = 0


def replan(
    samples: Sequence[RawSample],
    records: Sequence[ShardRecord],
    on_disk: Mapping[str, int],
    *,
    shard_samples: int,
    shard_size: int,
    template: str,
    missing: Missing = "error",
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> WritePlan:
    """The next plan. `records` are of the last run, `on_disk` the sizes in bytes of the tars that are there, by name.

    A finished shard whose files changed is written again with the samples it had, one that was planned is written as
    planned; samples that no shard has get new shards after the last. Only what was never written and has changed since
    is planned anew. Samples that have vanished stay in their shard; where it is to be written again, which would lose
    them, `missing` decides: `error` raises DatasetError WDS203, `keep` leaves the shard as it is. `drop` writes every
    shard again of which samples have vanished, without these, and with those that are `renamed` (new keys by old ones)
    in their old place.
    """
    plan = WritePlan()
    unclaimed = {sample.key: sample for sample in samples} if records else {}
    lost = [record.name for record in records if not _settle(record, unclaimed, on_disk, plan, missing, renamed)]
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


def _settle(
    record: ShardRecord,
    unclaimed: dict[str, RawSample],
    on_disk: Mapping[str, int],
    plan: WritePlan,
    missing: Missing,
    renamed: Mapping[str, str],
) -> bool:
    """Decide what becomes of one shard of the last plan. False if its samples cannot be written again."""
    had = keys_of(record)
    keys = [renamed.get(key, key) for key in had]
    there = [(i, unclaimed[key]) for i, key in enumerate(keys) if key in unclaimed]
    is_complete = len(there) == len(keys)
    is_unchanged = all(mark(sample) == record.marks[i * MARK_BYTES : (i + 1) * MARK_BYTES] for i, sample in there)
    if record.state == "planned" and not (is_complete and is_unchanged):
        if record.name in on_disk:
            plan.leftovers.append(record.name)
        return True
    for _, sample in there:
        del unclaimed[sample.key]
    is_there = record.state == "done" and on_disk.get(record.name) == record.size_bytes
    drops = missing == "drop" and not is_complete
    if is_there and not drops and (is_unchanged or (missing == "keep" and not is_complete)):
        plan.records.append(record)
        plan.kept += 1
        plan.stale += not is_unchanged
        plan.vanished += len(keys) - len(there)
        return True
    if is_complete or drops:
        plan.renamed += [(old, new) for old, new in zip(had, keys, strict=True) if old != new]
        plan.dropped += [key for key in keys if key not in {sample.key for _, sample in there}] if drops else []
        _write_again(record, [sample for _, sample in there], on_disk, plan)
    return is_complete or drops


def _write_again(record: ShardRecord, samples: list[RawSample], on_disk: Mapping[str, int], plan: WritePlan) -> None:
    """Plan a shard with these samples; without any, it goes."""
    if not samples:
        plan.leftovers += [record.name] if record.name in on_disk else []
        return
    if record.state == "done":
        record = record._replace(state="outdated")
    marks = marks_of(samples)
    keys = pack_keys(sample.key for sample in samples)
    record = record._replace(
        samples=len(samples), size_bytes=tar_bytes(samples), keys=keys, marks=marks, digest=digest(marks)
    )
    plan.records.append(record)
    plan.tasks.append(ShardTask(record.name, record.size_bytes, samples))


def _would_lose(names: list[str]) -> DatasetError:
    more = f" and {len(names) - _EXAMPLES:,} more" if len(names) > _EXAMPLES else ""
    return DatasetError(
        f"{len(names):,} shard{'s' if len(names) > 1 else ''} must be written again, and some of their samples "
        f"are no longer in the folder: {', '.join(names[:_EXAMPLES])}{more}",
        hint="restore the files; `--missing keep` leaves these shards as they are and goes on with the others, "
        "`--missing drop` writes them again without the samples that are gone (`--dry-run` names them)",
        code="WDS203",
    )
