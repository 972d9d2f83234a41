"""Decide which shards to write, given what earlier runs planned and finished. Pure: reads no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
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
from wdsctl.core.prepare.renames import Renames
from wdsctl.core.samples.naming import RawSample, dotless_key
from wdsctl.core.text import path_for_message, pluralize

_MAX_EXAMPLES = 5

NO_RENAMES = Renames()


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
    - `renamed_keys`: (old key, new key) of samples in shards that are written again.
    - `pending_renames`: the same for samples in kept shards, which keep the old keys.
    - `former_keys`: shard -> (new key -> old key), until the catalog has the new keys.
    - `stale_shards`: the number of shards whose files have changed, and that are kept because samples have vanished.
    """

    records: list[ShardRecord] = field(default_factory=list)
    tasks: list[ShardTask] = field(default_factory=list)
    kept_shards: int = 0
    vanished_keys: list[str] = field(default_factory=list)
    leftover_shards: list[str] = field(default_factory=list)
    dropped_keys: list[str] = field(default_factory=list)
    renamed_keys: list[tuple[str, str]] = field(default_factory=list)
    pending_renames: list[tuple[str, str]] = field(default_factory=list)
    former_keys: dict[str, Mapping[str, str]] = field(default_factory=dict)
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
    renames: Renames = NO_RENAMES,
    former_keys: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> WritePlan:
    """Make the next plan from the samples of the folder and the records of the last run.

    `tar_sizes`: name -> bytes of the existing tars. `former_keys`: those of the last plan, as in `WritePlan`.

    - A finished shard whose files have changed is written again, with the samples it had.
    - A planned shard is written as planned. If its samples have changed since, they are planned again.
    - Renamed samples (`renames`) stay in their shard, which is written again with the new keys.
    - Samples that no shard has get new shards, after the last one.
    - Vanished samples stay in their shard. If changed files require writing the shard again, which would lose them,
      `missing` decides: `error` raises DatasetError WDS203, `keep` leaves the shard as it is. `drop` writes every shard
      with vanished samples again, without them. New keys alone never cause a rewrite that loses samples.

    Raises DatasetError WDS249 if a sample would have the key of another sample in a kept shard.
    """
    plan = WritePlan()
    unclaimed = {sample.key: sample for sample in samples} if records else {}
    lost = [
        record.name
        for record in records
        if not _replan_shard(record, unclaimed, tar_sizes, plan, missing, renames, former_keys.get(record.name, {}))
    ]
    if lost:
        raise _would_lose_samples_error(lost)
    _check_key_conflicts(samples, plan)
    fresh = [sample for sample in samples if sample.key in unclaimed] if records else samples
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
        key: record.marks[i * SAMPLE_DIGEST_BYTES : (i + 1) * SAMPLE_DIGEST_BYTES]
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
    renames: Renames,
    former_keys: Mapping[str, str],
) -> bool:
    """Decide what becomes of one shard of the last plan. False if its samples cannot be written again."""
    had = unpack_record_keys(record)
    keys = [renames.current_key(key) for key in had]
    there = {i: unclaimed[key] for i, key in enumerate(keys) if key is not None and key in unclaimed}
    is_complete = len(there) == len(keys)
    new_keys = {i: sample for i, sample in there.items() if sample.key != had[i]}
    are_as_before = all(
        _is_digest_at(record, i, renames.digest_of(sample)) for i, sample in there.items() if i not in new_keys
    )
    is_unchanged = are_as_before and not any(sample.key in renames.keys_with_new_parts for sample in new_keys.values())
    if record.state == "planned" and not (is_complete and is_unchanged):
        if record.name in tar_sizes:
            plan.leftover_shards.append(record.name)
        return True
    for sample in there.values():
        del unclaimed[sample.key]
    # New key -> the key that the catalog, and a shard that cannot be written again, still has.
    before = {sample.key: former_keys.get(had[i], had[i]) for i, sample in there.items()}
    before = {key: old for key, old in before.items() if key != old}
    is_there = record.state in {"done", "renamed"} and tar_sizes.get(record.name) == record.size_bytes
    is_renamed = bool(new_keys) or record.state == "renamed"
    if is_complete:
        may_stay = is_unchanged and not is_renamed
    else:
        may_stay = missing == "keep" or (is_unchanged and missing != "drop")
    gone = [key for i, key in enumerate(had) if i not in there]
    if is_there and may_stay:
        plan.records.append(_kept_record(record, had, new_keys, renames) if new_keys else record)
        plan.kept_shards += 1
        plan.stale_shards += not is_unchanged
        plan.vanished_keys += gone
        plan.pending_renames += [(old, new) for new, old in before.items()] if is_renamed else []
        plan.former_keys |= {record.name: before} if before else {}
        return True
    if gone and missing != "drop":
        return False
    plan.renamed_keys += [(old, new) for new, old in before.items()] if is_renamed else []
    plan.dropped_keys += gone
    plan.former_keys |= {record.name: before} if before else {}
    _plan_rewrite(record, list(there.values()), tar_sizes, plan)
    return True


def _is_digest_at(record: ShardRecord, index: int, expected: bytes) -> bool:
    return expected == record.marks[index * SAMPLE_DIGEST_BYTES : (index + 1) * SAMPLE_DIGEST_BYTES]


def _kept_record(
    record: ShardRecord, recorded_keys: Sequence[str], new_keys: Mapping[int, RawSample], renames: Renames
) -> ShardRecord:
    """The record of a kept shard, with the new keys of its renamed samples.

    A sample with additional parts keeps its old digest, so that it still counts as changed.
    """
    marks = bytearray(record.marks)
    for i, sample in new_keys.items():
        if sample.key not in renames.keys_with_new_parts:
            marks[i * SAMPLE_DIGEST_BYTES : (i + 1) * SAMPLE_DIGEST_BYTES] = sample_digest(sample)
    keys = pack_keys(new_keys[i].key if i in new_keys else key for i, key in enumerate(recorded_keys))
    return record._replace(keys=keys, marks=bytes(marks), digest=shard_digest(bytes(marks)), state="renamed")


def _check_key_conflicts(samples: Sequence[RawSample], plan: WritePlan) -> None:
    """Raise DatasetError WDS249 for samples with the key of another sample, which a kept shard has under that key."""
    if not plan.vanished_keys and not plan.pending_renames:
        return
    is_pending = {new for _, new in plan.pending_renames}
    stays = {dotless_key(key): key for key in (*plan.vanished_keys, *(old for old, _ in plan.pending_renames))}
    found = [
        (sample.key, stays[dotless_key(sample.key)])
        for sample in samples
        if dotless_key(sample.key) in stays and sample.key not in is_pending
    ]
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


def _would_lose_samples_error(names: list[str]) -> DatasetError:
    more = f" and {len(names) - _MAX_EXAMPLES:,} more" if len(names) > _MAX_EXAMPLES else ""
    return DatasetError(
        f"{pluralize(len(names), 'shard')} must be rewritten, but the raw folder lacks files of their samples: "
        f"{', '.join(names[:_MAX_EXAMPLES])}{more}",
        hint="restore the files, or pass `--missing keep` to keep these shards unchanged; `--missing drop` removes "
        "samples without files (preview: `--dry-run`)",
        code="WDS203",
    )
