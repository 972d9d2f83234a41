"""From a raw folder to shards: list, plan, store the plan, write what is not there yet. The first half of `prepare`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.errors import UsageError
from wdsctl.core.folders import inside
from wdsctl.core.formats.folder import Listing, OnMissing, list_folder, without
from wdsctl.core.key_rules import KeyRule
from wdsctl.core.naming import KNOWN_EXTENSION, KeyUntil, shard_key
from wdsctl.core.parallel import map_units, warm_up
from wdsctl.core.printable import named
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.raw_renames import copied_records, renamed_samples
from wdsctl.core.replan import Missing, WritePlan, may_be_source, replan
from wdsctl.core.shard_names import check_template
from wdsctl.core.shard_record import NO_FORMER, FormerKeys, ShardRecord, keys_of
from wdsctl.core.shard_writer import ShardJob, WrittenShard, write_job
from wdsctl.core.verbs.write_folder_dest import check_dest, half_written, remove, sizes_of
from wdsctl.core.write_plan import check_limits

_PRELOAD = ("wdsctl.core.shard_writer",)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderOptions:
    """`parts`: what a complete sample has; empty for what most of them have. The limits: whichever comes first."""

    shard_samples: int = 10_000
    shard_size: int = 1 << 30  # bytes of the tar
    template: str = "shard-{index:06d}.tar"
    parts: tuple[str, ...] = ()
    on_missing: OnMissing = "error"
    key_until: KeyUntil | None = None  # None: as before, or else as the names call for
    missing: Missing = "error"  # what becomes of samples, and of shards, that have vanished
    workers: int = 1
    moved: bool = False  # another path is the same folder, moved
    dry_run: bool = False


@dataclass(slots=True)
class _Written:
    """What a run has written, and which files it could not read: (key, part) -> the reason."""

    shards: int = 0
    size_bytes: int = 0
    unreadable: dict[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """A sample that has another key now, and the same bytes."""

    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderReport:
    """What was found, and what became of it. In a dry run, what would have.

    `shards`, `samples` and `size_bytes` are of the whole dataset, kept shards included; `written` and `kept` count
    shards, `vanished` samples in kept shards whose files are gone, `stale` kept shards whose files have changed.
    `dropped`: the keys of samples that are gone from the shards, too. `renamed`: samples that have another key in the
    shards than before; `pending`: those that have another in the folder, and keep the one before in a shard that cannot
    be written again without losing samples. `keys`: where keys end, and why; None where no
    name tells. The rest is as in `Listing`.
    """

    source: str
    dest: str
    parts: tuple[str, ...]
    incomplete: int
    strays: int
    unreadable: int
    ignored: int
    examples: tuple[str, ...]
    shards: int
    samples: int
    size_bytes: int
    written: int
    written_bytes: int
    kept: int
    vanished: int
    stale: int
    dropped: tuple[str, ...]
    renamed: tuple[Renamed, ...]
    pending: tuple[Renamed, ...]
    dry_run: bool
    keys: KeyRule | None = None


def survey(
    source: str,
    dest: str,
    options: FolderOptions,
    *,
    ledger: Ledger,
    kept: KeyUntil | None = None,
    progress: Progress = SILENT,
) -> Listing:
    """List the samples of `source`, when everything that can be refused has been looked at. Writes nothing.

    `kept`: the rule that the keys of the dataset end by, where one was decided. `ledger` may be `Ledger.peek`. Raises
    UsageError, InputError, DatasetError, PermissionDenied.
    """
    check_template(options.template)
    check_limits(options.shard_samples, options.shard_size)
    _check_apart(source, dest)
    records = ledger.planned_shards()
    check_dest(dest, {record.name for record in records})
    if options.workers > 1 and not options.dry_run and not _all_done(records):
        warm_up(_PRELOAD)
    return list_folder(
        source,
        parts=options.parts,
        on_missing=options.on_missing,
        key_until=options.key_until,
        kept=kept or _rule_of(records),
        progress=progress,
    )


def _rule_of(records: Sequence[ShardRecord]) -> KeyUntil | None:
    """The rule of a plan whose run was killed before anything else could note it: told by dots in its keys."""
    are_dotted = any(shard_key(key) != key for record in records for key in keys_of(record))
    return KNOWN_EXTENSION if are_dotted else None


def write_folder(
    source: str,
    dest: str,
    options: FolderOptions | None = None,
    *,
    ledger: Ledger,
    listing: Listing | None = None,
    into: str = "",
    check: Callable[[], None] = lambda: None,
    layouts: Callable[[], Mapping[str, str]] = dict,
    progress: Progress = SILENT,
) -> FolderReport:
    """Write the samples of the folder `source` as shards below `dest`, or go on where an earlier run stopped.

    The same files give the same bytes, whatever the number of workers and however often the run was interrupted. The
    caller holds the lock of the dataset; for a dry run it may give `Ledger.peek`. `listing` is of `survey`, if that was
    asked before. `into`: `dest` without links, where the caller has resolved it before. `layouts` tells the layout
    hashes of the shards in the catalog, by path. `check` is asked before anything is changed and after every shard, and
    raises if the lock is lost: nothing more is written then. Raises UsageError, InputError, DatasetError,
    PermissionDenied, StorageError; finished shards stay, and nothing half-written has a shard's name.

    A file that turns out to be unreadable is treated as one that was listed as such: unless `on_missing` is `error`,
    the samples of its shard are planned anew without it. No other shard is touched.
    """
    options = options or FolderOptions()
    into = into or os.path.realpath(dest)
    listing = listing or survey(source, dest, options, ledger=ledger, progress=progress)
    partials = check_dest(dest, {record.name for record in ledger.planned_shards()})
    records = _checked_source(source, dest, listing, ledger, options, progress)
    written = _Written()
    changes: WritePlan | None = None
    while True:
        plan, former = _plan(source, dest, listing, records, ledger, options, layouts)
        changes = changes or plan  # what is dropped and renamed is known of the first alone
        if options.dry_run:
            written = _Written(len(plan.tasks), sum(task.size_bytes for task in plan.tasks))
            break
        check()
        # Removed before the new plan is stored: killed in between, the old plan still knows them.
        remove(into, [*partials, *plan.leftovers])
        partials = []
        _keep_plan(source, plan, former, ledger)
        _write(source, into, plan, options, written, ledger, check, progress)
        if not written.unreadable:
            # A worker of a run that was killed lives on for a moment, and may have begun a file meanwhile.
            remove(into, half_written(into) if plan.tasks else [])
            break
        listing = without(source, listing, written.unreadable, options.on_missing)
        records = ledger.planned_shards()
        written.unreadable = {}
    return _report(source, dest, listing, plan, changes, written, options)


def _plan(
    source: str,
    dest: str,
    listing: Listing,
    records: Sequence[ShardRecord],
    ledger: Ledger,
    options: FolderOptions,
    layouts: Callable[[], Mapping[str, str]],
) -> tuple[WritePlan, dict[str, FormerKeys]]:
    """The plan, and what is to be kept of the keys before it."""
    known = ledger.former_keys()
    renames = renamed_samples(source, dest, listing.samples, records, known)
    indexed = layouts() if known or renames.keys else {}
    # The catalog may have been made anew since, and then has other keys; a shard of state `renamed` still has its own.
    valid = {
        record.name: keys
        for record in records
        for layout, keys in (known.get(record.name, NO_FORMER),)
        if record.state == "renamed" or layout == indexed.get(record.name)
    }
    plan = replan(
        listing.samples,
        records,
        sizes_of(dest, [record.name for record in records]),
        shard_samples=options.shard_samples,
        shard_size=options.shard_size,
        template=options.template,
        missing=options.missing,
        renames=renames,
        former=valid,
    )
    return plan, {name: FormerKeys(indexed.get(name, ""), keys) for name, keys in plan.former.items()}


def _keep_plan(source: str, plan: WritePlan, former: Mapping[str, FormerKeys], ledger: Ledger) -> None:
    """Store the plan, and what it was made from, unless all that is what is stored."""
    made_from = os.path.realpath(source)
    kept = (ledger.planned_shards(), ledger.plan_source(), ledger.former_keys())
    if (plan.records, made_from, former) != kept:
        ledger.replace_plan(plan.records, made_from, former)


def _write(
    source: str,
    dest: str,
    plan: WritePlan,
    options: FolderOptions,
    written: _Written,
    ledger: Ledger,
    check: Callable[[], None],
    progress: Progress,
) -> None:
    """Write the shards that the plan has left, and add what came of it to `written`."""
    if not plan.tasks:
        return
    samples = sum(len(task.samples) for task in plan.tasks)
    progress.phase("write", items=samples, size_bytes=sum(task.size_bytes for task in plan.tasks))
    lenient = options.on_missing != "error"
    jobs = (ShardJob(inside(dest, task.name), source, task.samples, lenient) for task in plan.tasks)
    with closing(map_units(write_job, jobs, options.workers, preload=_PRELOAD)) as results:
        for i, result in results:
            check()
            if isinstance(result, WrittenShard):
                ledger.mark_done(plan.tasks[i].name)
                written.shards += 1
                written.size_bytes += result.size_bytes
                progress.advance(items=result.samples, size_bytes=result.size_bytes)
            else:
                written.unreadable |= {(file.key, file.part): file.reason for file in result}


def _all_done(records: Sequence[ShardRecord]) -> bool:
    """Whether this is most likely a run that finds nothing to do."""
    return bool(records) and all(record.state == "done" for record in records)


def _checked_source(
    source: str, dest: str, listing: Listing, ledger: Ledger, options: FolderOptions, progress: Progress
) -> list[ShardRecord]:
    """The records to go on from: with the times of a copy where the folder is one, so that nothing is written again.

    Refuses another folder than the one that the shards were made from, unless it was only moved, or copied.
    """
    before, records = ledger.plan_source(), ledger.planned_shards()
    if options.moved or before is None or before == os.path.realpath(source):
        return records
    if may_be_source(listing.samples, records):
        return records
    adopted = copied_records(source, dest, listing.samples, records, ledger.former_keys(), progress)
    if adopted is None:
        raise UsageError(
            f"the destination was made from another folder, {named(before)}, and its samples are not those of "
            f"{named(source)}",
            where=dest,
            hint="choose another DEST; or say `--yes` if it is that folder, moved and changed since",
        )
    progress.note(f"this folder is a copy of {named(before)}, byte for byte: the destination goes on from it")
    return adopted


def _check_apart(source: str, dest: str) -> None:
    raw, made = os.path.realpath(source), os.path.realpath(dest)
    if os.path.commonpath([raw, made]) in {raw, made}:
        raise UsageError(
            "the raw folder and the destination must not lie in one another",
            where=f"{source} and {dest}",
            hint="give a destination beside the raw folder",
        )


def _report(
    source: str,
    dest: str,
    listing: Listing,
    plan: WritePlan,
    changes: WritePlan,
    written: _Written,
    options: FolderOptions,
) -> FolderReport:
    return FolderReport(
        source=source,
        dest=dest,
        parts=listing.expected,
        incomplete=listing.incomplete,
        strays=listing.strays,
        unreadable=listing.unreadable,
        ignored=listing.ignored,
        examples=listing.examples,
        shards=len(plan.records),
        samples=sum(record.samples for record in plan.records),
        size_bytes=sum(record.size_bytes for record in plan.records),
        written=written.shards,
        written_bytes=written.size_bytes,
        kept=len(plan.records) - written.shards,
        vanished=len(plan.vanished),
        stale=plan.stale,
        dropped=tuple(sorted(changes.dropped)),
        renamed=_renamed(changes.renamed),
        pending=_renamed(plan.pending),
        dry_run=options.dry_run,
        keys=None if listing.keys.is_open else listing.keys,
    )


def _renamed(pairs: Sequence[tuple[str, str]]) -> tuple[Renamed, ...]:
    return tuple(Renamed(before=old, after=new) for old, new in sorted(pairs))
