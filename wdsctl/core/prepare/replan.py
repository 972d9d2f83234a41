"""Decide which shards to write, given what earlier runs planned and finished. Pure: reads no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wdsctl.core.catalog.ledger import ShardRecord, pack_keys, unpack_record_keys
from wdsctl.core.errors import DatasetError
from wdsctl.core.index.request import MissingPolicy
from wdsctl.core.prepare.plan import (
    SAMPLE_DIGEST_BYTES,
    plan_shards,
    planned_record,
    sample_digest,
    sample_digests,
    shard_digest,
    tar_size_bytes,
)
from wdsctl.core.samples.naming import RawSample, dotless_key
from wdsctl.core.text import path_for_message, pluralize

_MAX_EXAMPLES = 5


class ShardTask(NamedTuple):
    """One shard to write."""

    name: str
    size_bytes: int
    samples: Sequence[RawSample]


@dataclass(slots=True)
class WritePlan:
    """What a run has to write. Store `records`, the whole plan, before writing the first of `tasks`.

    - `kept_shards`: the number of shards that stay as they are.
    - `vanished_keys`: keys of samples in kept shards that are no longer in the folder.
    - `leftover_shards`: shards to remove first. A killed run finished them without recording it, and their samples are
      now planned for other shards; or none of their samples is left.
    - `dropped_keys`: keys of vanished samples that the new shards leave out.
    - `added_samples`: the number of samples that no shard had, and that get new shards.
    - `stale_shards`: the number of shards whose files have changed, and that are kept because samples have vanished.
    """

    records: list[ShardRecord] = field(default_factory=list)
    tasks: list[ShardTask] = field(default_factory=list)
    kept_shards: int = 0
    vanished_keys: list[str] = field(default_factory=list)
    leftover_shards: list[str] = field(default_factory=list)
    dropped_keys: list[str] = field(default_factory=list)
    added_samples: int = 0
    stale_shards: int = 0


def replan(
    samples: Sequence[RawSample],
    records: Sequence[ShardRecord],
    tar_sizes: Mapping[str, int],
    *,
    shard_samples: int,
    shard_size: int,
    template: str,
    missing: MissingPolicy = "error",
) -> WritePlan:
    """Make the next plan from the samples of the folder and the records of the last run.

    `tar_sizes`: name -> bytes of the existing tars.

    - A finished shard whose files have changed is written again, with the samples it had.
    - A planned shard is written as planned. If its samples have changed since, they are planned again.
    - Samples that no shard has get new shards, after the last one. A renamed sample is a vanished and a new one.
    - Vanished samples stay in their shard. If changed files require writing the shard again, which would lose them,
      `missing` decides: `error` raises DatasetError WDS203, `keep` leaves the shard as it is. `drop` writes every shard
      with vanished samples again, without them.

    Raises DatasetError WDS249 if a sample would have the key of another sample in a kept shard.
    """
    plan = WritePlan()
    unclaimed = {sample.key: sample for sample in samples} if records else {}
    lost = [record for record in records if not _replan_shard(record, unclaimed, tar_sizes, plan, missing)]
    if lost:
        may_keep = all(_is_as_recorded(record, tar_sizes) for record in lost)
        raise _would_lose_samples_error([record.name for record in lost], may_keep=may_keep)
    _check_key_conflicts(samples, plan)
    fresh = [sample for sample in samples if sample.key in unclaimed] if records else samples
    plan.added_samples = len(fresh)
    shards = plan_shards(
        fresh,
        shard_samples,
        shard_size,
        template,
        first_index=max((record.ordinal for record in plan.records), default=-1) + 1,
        taken_names={record.name for record in plan.records},
    )
    for shard in shards:
        plan.records.append(planned_record(shard, fresh))
        plan.tasks.append(ShardTask(shard.name, shard.size_bytes, fresh[shard.start : shard.stop]))
    names = {record.name for record in plan.records}
    plan.leftover_shards = [name for name in plan.leftover_shards if name not in names]
    return plan


def can_be_source(samples: Sequence[RawSample], records: Sequence[ShardRecord]) -> bool:
    """Whether the finished shards may have been made from these samples, as in a folder that was moved.

    True if the folder has at least one sample of the shards, and all that it has are unchanged; also if no shard is
    finished. Cost: as `replan`.
    """
    digests = {
        key: _digest_at(record, i)
        for record in records
        if record.state != "planned"
        for i, key in enumerate(unpack_record_keys(record))
    }
    are_unchanged = [sample_digest(sample) == digests[sample.key] for sample in samples if sample.key in digests]
    return not digests or (bool(are_unchanged) and all(are_unchanged))


def _replan_shard(
    record: ShardRecord,
    unclaimed: dict[str, RawSample],
    tar_sizes: Mapping[str, int],
    plan: WritePlan,
    missing: MissingPolicy,
) -> bool:
    """Decide what becomes of one shard of the last plan. False if its samples cannot be written again."""
    keys = unpack_record_keys(record)
    there = {i: unclaimed[key] for i, key in enumerate(keys) if key in unclaimed}
    gone = [key for i, key in enumerate(keys) if i not in there]
    is_unchanged = all(sample_digest(sample) == _digest_at(record, i) for i, sample in there.items())
    if record.state == "planned" and (gone or not is_unchanged):
        if record.name in tar_sizes:
            plan.leftover_shards.append(record.name)
        return True
    for sample in there.values():
        del unclaimed[sample.key]
    may_stay = is_unchanged if not gone else missing == "keep" or (is_unchanged and missing != "drop")
    if may_stay and _is_as_recorded(record, tar_sizes):
        plan.records.append(record)
        plan.kept_shards += 1
        plan.stale_shards += not is_unchanged
        plan.vanished_keys += gone
        return True
    if gone and missing != "drop":
        return False
    plan.dropped_keys += gone
    _plan_rewrite(record, list(there.values()), tar_sizes, plan)
    return True


def _is_as_recorded(record: ShardRecord, tar_sizes: Mapping[str, int]) -> bool:
    """Whether the shard is on disk as its record says.

    A ledger of an older version may have the state `renamed`: the shard then has other keys than its record.
    """
    return record.state == "done" and tar_sizes.get(record.name) == record.size_bytes


def _digest_at(record: ShardRecord, index: int) -> bytes:
    return record.marks[index * SAMPLE_DIGEST_BYTES : (index + 1) * SAMPLE_DIGEST_BYTES]


def _check_key_conflicts(samples: Sequence[RawSample], plan: WritePlan) -> None:
    """Raise DatasetError WDS249 for samples with the key of another sample, which a kept shard has under that key."""
    if not plan.vanished_keys:
        return
    stays = {dotless_key(key): key for key in plan.vanished_keys}
    found = [(sample.key, stays[dotless_key(sample.key)]) for sample in samples if dotless_key(sample.key) in stays]
    if found:
        more = f" and {len(found) - _MAX_EXAMPLES:,} more" if len(found) > _MAX_EXAMPLES else ""
        names = ", ".join(
            f"{path_for_message(new)} (that of {path_for_message(old)} in the shards)"
            for new, old in found[:_MAX_EXAMPLES]
        )
        raise DatasetError(
            f"{pluralize(len(found), 'sample')} of the folder would get the key of another sample, which is in a "
            f"shard but no longer in the folder: {names}{more}",
            hint="rename the new files, or restore the missing files; `--missing drop` removes samples without "
            "files from the shards (preview: `--dry-run`)",
            code="WDS249",
        )


def _plan_rewrite(record: ShardRecord, samples: list[RawSample], tar_sizes: Mapping[str, int], plan: WritePlan) -> None:
    """Plan to write a shard again with these samples. Without samples, plan to remove it."""
    if not samples:
        plan.leftover_shards += [record.name] if record.name in tar_sizes else []
        return
    if record.state != "planned":
        record = record._replace(state="outdated")
    marks = sample_digests(samples)
    keys = pack_keys(sample.key for sample in samples)
    record = record._replace(
        samples=len(samples), size_bytes=tar_size_bytes(samples), keys=keys, marks=marks, digest=shard_digest(marks)
    )
    plan.records.append(record)
    plan.tasks.append(ShardTask(record.name, record.size_bytes, samples))


def _would_lose_samples_error(names: list[str], *, may_keep: bool) -> DatasetError:
    more = f" and {len(names) - _MAX_EXAMPLES:,} more" if len(names) > _MAX_EXAMPLES else ""
    keep = ", or pass `--missing keep` to keep these shards unchanged" if may_keep else ""
    return DatasetError(
        f"{pluralize(len(names), 'shard')} must be rewritten, but the raw folder lacks files of their samples: "
        f"{', '.join(names[:_MAX_EXAMPLES])}{more}",
        hint=f"restore the files{keep}; `--missing drop` removes samples without files (preview: `--dry-run`)",
        code="WDS203",
    )
