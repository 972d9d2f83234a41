"""What is left to write, given what earlier runs planned and finished. Pure: folder and ledger come as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from wdsctl.core.counted import counted
from wdsctl.core.errors import DatasetError
from wdsctl.core.naming import shard_key
from wdsctl.core.printable import named
from wdsctl.core.raw_renames import Renames
from wdsctl.core.raw_sample import RawSample
from wdsctl.core.shard_record import ShardRecord, keys_of, pack_keys, record_of
from wdsctl.core.write_plan import MARK_BYTES, digest, mark, marks_of, plan_shards, tar_bytes

_EXAMPLES = 5

NOTHING_RENAMED = Renames()

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

    `vanished`: keys of samples in kept shards that are no longer in the folder. `leftovers` are shards that a killed
    run finished and could not record, and whose samples are now planned elsewhere, or of which no sample is left: they
    are to be removed first. `dropped`: keys of samples that have vanished and are no longer in the shards. `renamed`:
    old and new keys of samples in shards that are written again; `pending`: of those in kept shards, which go on having
    the old keys. `former`: by shard, new keys and old ones, until the catalog has the new ones. `stale`: shards whose
    files changed, and that stay as they are since samples have vanished.
    """

    records: list[ShardRecord] = field(default_factory=list)
    tasks: list[ShardTask] = field(default_factory=list)
    kept: int = 0
    vanished: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    pending: list[tuple[str, str]] = field(default_factory=list)
    former: dict[str, Mapping[str, str]] = field(default_factory=dict)
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
    renames: Renames = NOTHING_RENAMED,
    former: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> WritePlan:
    """The next plan. `records` are of the last run, `on_disk` the sizes in bytes of the tars that are there, by name.

    A finished shard whose files changed is written again with the samples it had, one that was planned is written as
    planned; samples that no shard has get new shards after the last. Only what was never written and has changed since
    is planned anew. Samples that were renamed (`renames`) stay in their place: the shard is written again with the new
    keys. Samples that have vanished stay in their shard; where one has to be written again since files changed, which
    would lose them, `missing` decides: `error` raises DatasetError WDS203, `keep` leaves the shard as it is. `drop`
    writes every shard again of which samples have vanished, without these. A shard that would lose samples is not
    written again for new keys alone. `former`: as in `WritePlan`, of the last plan. Raises DatasetError WDS249 where a
    sample would have a key that another one has in a kept shard.
    """
    plan = WritePlan()
    unclaimed = {sample.key: sample for sample in samples} if records else {}
    lost = [
        record.name
        for record in records
        if not _settle(record, unclaimed, on_disk, plan, missing, renames, former.get(record.name, {}))
    ]
    if lost:
        raise _would_lose(lost)
    _check_keys(samples, plan)
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
    renames: Renames,
    former: Mapping[str, str],
) -> bool:
    """Decide what becomes of one shard of the last plan. False if its samples cannot be written again."""
    had = keys_of(record)
    keys = [renames.now(key) for key in had]
    there = {i: unclaimed[key] for i, key in enumerate(keys) if key is not None and key in unclaimed}
    is_complete = len(there) == len(keys)
    new_keys = {i: sample for i, sample in there.items() if sample.key != had[i]}
    are_as_before = all(_is_marked(record, i, renames.mark(sample)) for i, sample in there.items() if i not in new_keys)
    is_unchanged = are_as_before and not any(sample.key in renames.grown for sample in new_keys.values())
    if record.state == "planned" and not (is_complete and is_unchanged):
        if record.name in on_disk:
            plan.leftovers.append(record.name)
        return True
    for sample in there.values():
        del unclaimed[sample.key]
    # In the catalog, and in a shard that cannot be written again, they go on having these.
    before = {sample.key: former.get(had[i], had[i]) for i, sample in there.items()}
    before = {key: old for key, old in before.items() if key != old}
    is_there = record.state in {"done", "renamed"} and on_disk.get(record.name) == record.size_bytes
    is_renamed = bool(new_keys) or record.state == "renamed"
    if is_complete:
        may_stay = is_unchanged and not is_renamed
    else:
        may_stay = missing == "keep" or (is_unchanged and missing != "drop")
    gone = [key for i, key in enumerate(had) if i not in there]
    if is_there and may_stay:
        plan.records.append(_kept(record, had, new_keys, renames) if new_keys else record)
        plan.kept += 1
        plan.stale += not is_unchanged
        plan.vanished += gone
        plan.pending += [(old, new) for new, old in before.items()] if is_renamed else []
        plan.former |= {record.name: before} if before else {}
        return True
    if gone and missing != "drop":
        return False
    plan.renamed += [(old, new) for new, old in before.items()] if is_renamed else []
    plan.dropped += gone
    plan.former |= {record.name: before} if before else {}
    _write_again(record, list(there.values()), on_disk, plan)
    return True


def _is_marked(record: ShardRecord, place: int, mark: bytes) -> bool:
    return mark == record.marks[place * MARK_BYTES : (place + 1) * MARK_BYTES]


def _kept(record: ShardRecord, had: Sequence[str], new_keys: Mapping[int, RawSample], renames: Renames) -> ShardRecord:
    """The record of a shard that stays as it is, with the keys that its samples have in the folder.

    A sample that has more parts there keeps its mark, so that it goes on being a changed one.
    """
    marks = bytearray(record.marks)
    for i, sample in new_keys.items():
        if sample.key not in renames.grown:
            marks[i * MARK_BYTES : (i + 1) * MARK_BYTES] = mark(sample)
    keys = pack_keys(new_keys[i].key if i in new_keys else key for i, key in enumerate(had))
    return record._replace(keys=keys, marks=bytes(marks), digest=digest(bytes(marks)), state="renamed")


def _check_keys(samples: Sequence[RawSample], plan: WritePlan) -> None:
    """Refuse samples with the key of another one that is not in the folder any more, or not by that key."""
    if not plan.vanished and not plan.pending:
        return
    is_pending = {new for _, new in plan.pending}
    stays = {shard_key(key): key for key in (*plan.vanished, *(old for old, _ in plan.pending))}
    found = [
        (sample.key, stays[shard_key(sample.key)])
        for sample in samples
        if shard_key(sample.key) in stays and sample.key not in is_pending
    ]
    if found:
        more = f" and {len(found) - _EXAMPLES:,} more" if len(found) > _EXAMPLES else ""
        names = ", ".join(f"{named(new)} (that of {named(old)} in the shards)" for new, old in found[:_EXAMPLES])
        raise DatasetError(
            f"{counted(len(found), 'sample')} of the folder would have the key of another sample, which is in a shard "
            f"and no longer in the folder: {names}{more}",
            hint="give the new files other names, or restore those that are gone; `--missing drop` takes samples whose "
            "files are gone out of their shards (`--dry-run` names them)",
            code="WDS249",
        )


def _write_again(record: ShardRecord, samples: list[RawSample], on_disk: Mapping[str, int], plan: WritePlan) -> None:
    """Plan a shard with these samples; without any, it goes."""
    if not samples:
        plan.leftovers += [record.name] if record.name in on_disk else []
        return
    if record.state != "planned":
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
        f"{counted(len(names), 'shard')} must be written again, and would lose samples whose files are gone from the "
        f"raw folder: {', '.join(names[:_EXAMPLES])}{more}",
        hint="restore the files; `--missing keep` leaves these shards as they are and goes on with the others, "
        "`--missing drop` writes them again without the samples that are gone (`--dry-run` names them)",
        code="WDS203",
    )
