"""Write a raw folder as shards, the first half of `prepare`: list, plan, save the plan, write the missing shards."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace

from wdsctl.core.catalog.ledger import Ledger, ShardRecord, unpack_record_keys
from wdsctl.core.convert.report import write_left_out_table
from wdsctl.core.dataset.destination import check_written_file
from wdsctl.core.dataset.location import shell_command
from wdsctl.core.dataset.raw_folder import RawListing, drop_unreadable, list_raw_folder
from wdsctl.core.directories import join_beneath
from wdsctl.core.errors import Finding, UsageError, translate_os_errors
from wdsctl.core.files import fsync_path, remove_file
from wdsctl.core.jobs import UnitSize, make_executor, run_units
from wdsctl.core.prepare.copied_folder import adopt_copied_folder
from wdsctl.core.prepare.replan import WritePlan, can_be_source, replan
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.splits import check_fills_requested_splits, split_by_of_written
from wdsctl.core.processes import warm_up_workers
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.key_rules import KeyRuleChoice
from wdsctl.core.samples.naming import KNOWN_EXTENSION, KeyRuleName, check_shard_template, dotless_key
from wdsctl.core.shards.write import ShardUpload, WrittenShard, check_limits
from wdsctl.core.shards.write_job import ShardJob, run_shard_job
from wdsctl.core.storage.open import workers_for
from wdsctl.core.storage.remote_errors import DRIVER_PACKAGES
from wdsctl.core.storage.source_files import absolute
from wdsctl.core.text import path_for_message, pluralize
from wdsctl.core.urls import is_url, protocol, redact_secrets, url_identity

#: The temporary name of a shard.
_PARTIAL = re.compile(r"\..+\.tar\.\d+\.partial")

_MAX_EXAMPLES = 3


def check_dest_shards(dest: str, planned_names: set[str]) -> list[str]:
    """Return the temporary files of killed runs. Raises UsageError if `dest` has tars that the plan does not name.

    If another machine writes to a store now, they may be its shards: the lock then says so.
    """
    if not is_url(dest) and not os.path.lexists(dest):
        return []
    if not is_url(dest) and not os.path.isdir(dest):
        raise UsageError("the destination is a file, not a folder", where=dest, hint="choose another destination")
    names = list(walk_files(dest))
    unknown = sorted(name for name in names if name.endswith(".tar") and name not in planned_names)
    if unknown and not (is_url(dest) and _is_written_by_another(dest)):
        missing = sorted(planned_names.difference(names))
        renamed = f"if shards were renamed, restore their names ({_format_names(missing)}), or continue with"
        raise UsageError(
            f"the destination already contains other shards: {_format_names(unknown)}",
            where=redact_secrets(dest),
            hint=f"{renamed} {shell_command('index', redact_secrets(dest))}"
            if missing
            else "choose an empty folder, or the folder that wdsctl wrote from this raw folder",
        )
    return _filter_partials(names)


def _is_written_by_another(dest: str) -> bool:
    from wdsctl.core.dataset.writer_marker import is_written_by_another

    return is_written_by_another(dest)


def list_half_written(dest: str) -> list[str]:
    """The temporary files of killed runs, relative to `dest`."""
    return _filter_partials(walk_files(dest))


def _format_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_EXAMPLES:,} more" if len(names) > _MAX_EXAMPLES else ""
    return f"{', '.join(map(path_for_message, names[:_MAX_EXAMPLES]))}{more}"


def _filter_partials(names: Iterable[str]) -> list[str]:
    return [name for name in names if _PARTIAL.fullmatch(os.path.basename(name))]


def walk_files(dest: str) -> Iterator[str]:
    """The paths, relative to `dest`, of all files outside hidden folders."""
    if is_url(dest):
        yield from _list_objects(dest)
        return

    def fail(error: OSError) -> None:
        raise error

    with translate_os_errors(dest, "list"):
        for folder, folders, names in os.walk(dest, onerror=fail):
            folders[:] = [name for name in folders if not name.startswith(".")]
            below = os.path.relpath(folder, dest)
            yield from (name if below == "." else f"{below}/{name}" for name in names)


def stat_sizes(dest: str, names: Iterable[str]) -> dict[str, int]:
    """Name -> bytes of the shards that exist."""
    if is_url(dest):
        found = _list_objects(dest)
        return {name: found[name] for name in names if name in found}
    sizes = {}
    for name in names:
        with suppress(FileNotFoundError):
            sizes[name] = os.stat(os.path.join(dest, name)).st_size
    return sizes


def remove_from_dest(dest: str, names: Iterable[str]) -> None:
    """Remove files of `dest`, a URL or a path without links, if they exist."""
    if is_url(dest):
        from wdsctl.core.storage.objects import ObjectStore

        ObjectStore(dest).delete([join_beneath(dest, name) for name in names])
        return
    for name in names:
        path = join_beneath(dest, name)
        # A worker of a killed run may have renamed or removed its file since the listing.
        remove_file(path)
        with translate_os_errors(path, "remove"), suppress(FileNotFoundError):
            fsync_path(os.path.dirname(path))


@dataclass(frozen=True, slots=True)
class UploadFolders:
    """Local folders of a run that writes to a store. `journal`: its unfinished uploads. `scans`: scans of its shards.

    `scans` is empty if the index needs more than a scan, and reads the shards again.
    """

    journal: str
    scans: str = ""


_PRELOAD = ("wdsctl.core.shards.write_job",)


def _preload(dest: str) -> tuple[str, ...]:
    """Return the modules that workers import before their first shard: for a store, also its driver."""
    if not is_url(dest):
        return _PRELOAD
    driver = DRIVER_PACKAGES.get(protocol(dest))
    return (*_PRELOAD, "wdsctl.core.shards.upload", *([driver] if driver else []))


@dataclass(slots=True)
class _WriteResult:
    """What a run has written. `unreadable`: (key, part) of a file that cannot be read -> the reason."""

    shards: int = 0
    size_bytes: int = 0
    unreadable: dict[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderReport:
    """What a run found and wrote; for a dry run, what it would write.

    `shards`, `samples` and `size_bytes` describe all shards; `written` and `kept` count shards. `added`: the number of
    samples that no shard had before. `vanished`: the number of samples in kept shards whose files are missing. A
    renamed sample counts as vanished or dropped, and as added. `stale`: the number of kept shards whose files have
    changed. `dropped`: keys of samples that were removed from the shards. `keys`: the key rule and its reason; None if
    all rules agree. `is_source_moved`: the shards were written from another folder, which `--source-moved` allows. The
    other fields are as in `RawListing`.
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
    added: int
    vanished: int
    stale: int
    dropped: tuple[str, ...]
    dry_run: bool
    is_source_moved: bool = False
    keys: KeyRuleChoice | None = None
    findings: tuple[Finding, ...] = ()
    left_out_list: str = ""  # the path of a table of all samples and files that are left out; empty if there are none


def list_source(
    source: str,
    dest: str,
    request: PrepareRequest,
    records: Sequence[ShardRecord],
    *,
    kept_rule: KeyRuleName | None = None,
    progress: Progress = SILENT_PROGRESS,
) -> RawListing:
    """List the samples of `source`, after all checks. Writes nothing.

    `records`: the plan of an earlier run. `kept_rule`: the key rule of the dataset, if it has one.
    Raises UsageError, InputError, DatasetError, PermissionDenied.
    """
    check_shard_template(request.template)
    check_limits(request.shard_samples, request.shard_size)
    _check_disjoint(source, dest)
    check_dest_shards(dest, {record.name for record in records})
    if request.index.workers > 1 and not request.index.dry_run and not _is_all_done(records):
        warm_up_workers(_preload(dest))
    return list_raw_folder(
        source,
        parts=request.parts,
        on_missing=request.on_missing,
        key_until=request.index.key_until,
        previous_rule=kept_rule or _key_rule_of_plan(records),
        progress=progress,
    )


def _key_rule_of_plan(records: Sequence[ShardRecord]) -> KeyRuleName | None:
    """The key rule of a plan whose run was killed before it saved the rule, known from dots in keys."""
    are_dotted = any(dotless_key(key) != key for record in records for key in unpack_record_keys(record))
    return KNOWN_EXTENSION if are_dotted else None


def write_folder(
    source: str,
    dest: str,
    request: PrepareRequest | None = None,
    *,
    ledger: Ledger,
    listing: RawListing | None = None,
    real_dest: str = "",
    uploads: UploadFolders | None = None,
    check_lock: Callable[[], None] = lambda: None,
    left_out_list: str = "",
    progress: Progress = SILENT_PROGRESS,
) -> FolderReport:
    """Write the samples of the folder `source` as shards below `dest`, or continue an earlier run.

    The same files give the same bytes, for any number of workers and interruptions. The caller holds the lock of the
    dataset; for a dry run, `ledger` may be open for reading. `listing`: the result of `list_source`. `real_dest`:
    `dest` without links. `uploads`: needed if `dest` is a URL. `left_out_list`: where to write a table of all that is
    left out, if anything is. `check_lock` is called before any change and after every shard; it raises if the lock is
    lost.
    Raises UsageError, InputError, DatasetError, PermissionDenied, StorageError; finished shards stay, and no
    incomplete file has the name of a shard.

    If a file turns out to be unreadable and `on_missing` is not `error`, the samples of its shard are planned again
    without it. No other shard changes.
    """
    request = request or PrepareRequest()
    real_dest = real_dest or (dest if is_url(dest) else os.path.realpath(dest))
    listing = listing or list_source(source, dest, request, ledger.planned_shards(), progress=progress)
    partials = check_dest_shards(dest, {record.name for record in ledger.planned_shards()})
    records, is_source_moved = _check_source(source, dest, listing, ledger, request, progress)
    written = _WriteResult()
    changes: WritePlan | None = None
    gone: dict[tuple[str, str], str] = {}
    while True:
        plan = _plan(dest, listing, records, request)
        if changes is None and not records:
            by, samples = split_by_of_written(request), sum(record.samples for record in plan.records)
            check_fills_requested_splits(request, by, shards=len(plan.records), samples=samples)
        changes = changes or plan  # later plans no longer list the dropped and new samples
        if request.index.dry_run:
            written = _WriteResult(len(plan.tasks), sum(task.size_bytes for task in plan.tasks))
            break
        check_lock()
        if uploads is not None:
            _abort_left_uploads(dest, uploads, {record.name for record in (*records, *plan.records)})
        # Remove files before storing the new plan: after a kill in between, the old plan still names them.
        remove_from_dest(real_dest, [*partials, *plan.leftover_shards])
        partials = []
        _store_plan(source, plan, ledger)
        _write_tasks(source, real_dest, plan, request, written, ledger, check_lock, progress, uploads=uploads)
        if not written.unreadable:
            # A worker of a killed run may live on for a moment, and may have begun another file.
            remove_from_dest(real_dest, list_half_written(real_dest) if plan.tasks else [])
            break
        listing = drop_unreadable(source, listing, written.unreadable, request.on_missing)
        gone |= written.unreadable if is_url(source) else {}
        records = ledger.planned_shards()
        written.unreadable = {}
    report = _report(source, dest, listing, plan, changes, written, request, _gone_findings(gone))
    report = replace(report, is_source_moved=is_source_moved)
    if request.index.dry_run or not left_out_list:
        return report
    rows = (("WDS201", path_for_message(name), reason) for name, reason in listing.left_out)
    return replace(report, left_out_list=write_left_out_table(left_out_list, rows))


def _gone_findings(gone: Mapping[tuple[str, str], str]) -> tuple[Finding, ...]:
    """A finding about objects that the store listed, and that could not be read."""
    if not gone:
        return ()
    (key, part), reason = min(gone.items())
    name = path_for_message(f"{key}.{part}")
    message = f"{pluralize(len(gone), 'object')} of the source left out, such as {name}: {reason}"
    return (Finding(code="WDS202", severity="error", message=message, count=len(gone)),)


def _plan(dest: str, listing: RawListing, records: Sequence[ShardRecord], request: PrepareRequest) -> WritePlan:
    return replan(
        listing.samples,
        records,
        stat_sizes(dest, [record.name for record in records]),
        shard_samples=request.shard_samples,
        shard_size=request.shard_size,
        template=request.template,
        missing=request.index.missing,
    )


def _list_objects(dest: str) -> dict[str, int]:
    from wdsctl.core.dataset.remote_destination import list_objects

    return list_objects(dest)


def _abort_left_uploads(dest: str, uploads: UploadFolders, names: set[str]) -> None:
    """Abort the uploads of shards with these names that killed runs left. The caller is the only writer."""
    from wdsctl.core.storage.objects import ObjectStore
    from wdsctl.core.storage.upload_journal import abort_left_uploads

    abort_left_uploads(ObjectStore(dest), uploads.journal, names.__contains__)


def _source_identity(source: str) -> str:
    return url_identity(source) if is_url(source) else os.path.realpath(source)


def _store_plan(source: str, plan: WritePlan, ledger: Ledger) -> None:
    """Save the plan and its source, if one of them has changed."""
    source_path = _source_identity(source)
    if (plan.records, source_path) != (ledger.planned_shards(), ledger.plan_source()):
        ledger.replace_plan(plan.records, source_path)


def _write_tasks(
    source: str,
    dest: str,
    plan: WritePlan,
    request: PrepareRequest,
    written: _WriteResult,
    ledger: Ledger,
    check_lock: Callable[[], None],
    progress: Progress,
    *,
    uploads: UploadFolders | None,
) -> None:
    """Write the shards of all tasks, and add the results to `written`."""
    lenient = request.on_missing != "error"
    executor = make_executor(min(workers_for(root, request.index.workers) for root in (source, dest)), _preload(dest))
    root = source if executor.shares_files else absolute(source)  # other machines have other working folders
    jobs = [
        ShardJob(
            join_beneath(dest, task.name),
            root,
            task.samples,
            lenient,
            None if uploads is None else ShardUpload(dest, task.name, uploads.journal, uploads.scans),
        )
        for task in plan.tasks
    ]
    size_by_path = {job.path: task.size_bytes for job, task in zip(jobs, plan.tasks, strict=True)}
    finished = run_units(
        run_shard_job,
        jobs,
        executor,
        phase="write",
        progress=progress,
        size=lambda job: UnitSize(len(job.samples), size_by_path[job.path]),
        reads=(source, dest),
    )
    with closing(finished):
        for each in finished:
            check_lock()
            result = each.result()
            if isinstance(result, WrittenShard):
                if uploads is None:
                    check_written_file(jobs[each.index].path, result.size_bytes)
                ledger.set_shard_state(plan.tasks[each.index].name)
                written.shards += 1
                written.size_bytes += result.size_bytes
            else:
                written.unreadable |= {(file.key, file.part): file.reason for file in result}


def _is_all_done(records: Sequence[ShardRecord]) -> bool:
    """Whether all planned shards are written, so that the run probably has nothing to do."""
    return bool(records) and all(record.state == "done" for record in records)


def _check_source(
    source: str, dest: str, listing: RawListing, ledger: Ledger, request: PrepareRequest, progress: Progress
) -> tuple[list[ShardRecord], bool]:
    """(the records of the plan to continue, whether `--source-moved` was necessary).

    For a copied folder, the records get its mtimes, so that no shard is rewritten. Raises UsageError if the shards were
    made from another folder, unless that folder was moved or copied here.
    """
    before, records = ledger.plan_source(), ledger.planned_shards()
    if before is None or before == _source_identity(source) or can_be_source(listing.samples, records):
        return records, False
    if request.allows("source_moved"):
        return records, True
    adopted = adopt_copied_folder(source, dest, listing.samples, records, progress)
    if adopted is None:
        raise UsageError(
            f"the destination was written from another folder, {path_for_message(before)}, whose samples differ "
            f"from those of {path_for_message(source)}",
            where=dest,
            hint="choose another DEST; or pass `--source-moved` if the raw folder was moved and changed since",
        )
    progress.note(f"this folder is a copy of {path_for_message(before)}, byte for byte: continuing from it")
    return adopted, False


def _check_disjoint(source: str, dest: str) -> None:
    if is_url(dest) or is_url(source):
        return
    real_source, real_dest = os.path.realpath(source), os.path.realpath(dest)
    if os.path.commonpath([real_source, real_dest]) in {real_source, real_dest}:
        raise UsageError(
            "the raw folder and the destination must not contain one another",
            where=f"{source} and {dest}",
            hint="choose a destination next to the raw folder",
        )


def _report(
    source: str,
    dest: str,
    listing: RawListing,
    plan: WritePlan,
    first_plan: WritePlan,
    written: _WriteResult,
    request: PrepareRequest,
    findings: tuple[Finding, ...],
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
        added=first_plan.added_samples,
        vanished=len(plan.vanished_keys),
        stale=plan.stale_shards,
        dropped=tuple(sorted(first_plan.dropped_keys)),
        dry_run=request.index.dry_run,
        keys=None if listing.keys.is_open else listing.keys,
        findings=findings,
    )
