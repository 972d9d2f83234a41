"""Check the destination of a conversion: whether the conversion may write to it, continue it, or replace its content.

`convert` accepts an empty destination, and one that it began or finished with the same options and sources. For a
finished one, the sources may also be copies, or have new times, if they give the same files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any

from wdsctl.core.convert import exporters
from wdsctl.core.convert.finish import SIDE_FILES
from wdsctl.core.convert.labels import LabelsCannotFollow
from wdsctl.core.convert.plan_file import PlanFile, PlannedUnit
from wdsctl.core.convert.request import ConvertRequest, ResolvedRequest
from wdsctl.core.convert.sources import OpenSources
from wdsctl.core.convert.unit import UnitJob, close_sources, unit_path, write_unit
from wdsctl.core.convert.write import UNFOLDING_MARKER_FILE, UNIT_RESULTS_FILE, workers_of
from wdsctl.core.dataset.destination import check_destination_empty, remove_partials, remove_path
from wdsctl.core.dataset.location import FINISHED_FILE, PLAN_FILE, DatasetLocation, locate, shell_command
from wdsctl.core.dataset.lock import check_lock_held
from wdsctl.core.directories import join_beneath
from wdsctl.core.errors import UsageError, WdsctlError, translate_os_errors
from wdsctl.core.files import check_folder, remove_empty_folder, set_aside
from wdsctl.core.jobs import UnitSize, make_executor, run_units
from wdsctl.core.progress import Progress
from wdsctl.core.safe_open import open_below
from wdsctl.core.text import path_for_message, pluralize
from wdsctl.core.urls import is_url

#: Options that do not change the output's bytes.
OPTIONS_WITHOUT_EFFECT = frozenset(["workers", "wait", "restart", "dry_run", "overwrite", "carries_splits", "finish"])

#: `describe_inputs` does not list the files of a source that has more.
MAX_LISTED_FILES = 100_000

#: Formats that read nothing outside of the source.
_SELF_CONTAINED_FORMATS = frozenset(["shards", "packed", "folder", "imagefolder"])

#: Field of the request -> its flags, if their names differ.
_FLAG_OF_OPTION = {
    "from_format": "--from",
    "to_format": "--to",
    "format_options": "-O",
    "order": "--sort or --shuffle",
    "parts": "--parts, --drop-parts or --rename-part",
}


def check_destination_free(location: DatasetLocation, dest: str, work: str) -> None:
    """Raises UsageError if DEST has files, unless a conversion has begun or finished there."""
    if any(os.path.exists(os.path.join(work, name)) for name in (PLAN_FILE, FINISHED_FILE)):
        return  # the fingerprint decides
    check_destination_empty(dest)
    if os.path.exists(location.catalog_path):
        raise UsageError(
            "the destination is a dataset already",
            where=location.catalog_path,
            hint="choose a folder that is empty or does not exist",
        )


@contextmanager
def clean_up_on_error(location: DatasetLocation, work: str, *, had_meta: bool) -> Iterator[None]:
    """Remove the new `.wdsctl` folder if the conversion fails before it has a plan. The caller holds the lock.

    Keeps the folder if it has catalogs of sources, which make the next run fast.
    """
    try:
        yield
    except WdsctlError:
        names = os.listdir(work) if os.path.isdir(work) else []
        if not had_meta and not any(name in (PLAN_FILE, FINISHED_FILE) or name.startswith("source-") for name in names):
            remove_path(location.meta)
        raise


def check_same_inputs(before: Mapping[str, Any], now: Mapping[str, Any], dest: str) -> None:
    """Raises UsageError WDS345 if the finished conversion had other options, or files with other names or sizes."""
    if changes := describe_input_changes(before, now):
        raise _other_conversion_error(dest, changes)


def check_same_content(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    plan: str,
    resolved: ResolvedRequest,
    dest: str,
    location: DatasetLocation,
    progress: Progress,
) -> None:
    """Raises UsageError WDS345 if the sources do not give the destination's files, or comparing is not possible.

    Cost: none if all files have the same times as before; otherwise the cost of `has_same_output`.
    """
    if before["plan"] != now["plan"]:
        raise _other_conversion_error(dest, ["other samples, or other splits"])
    if not has_same_times(before, now):
        if is_url(dest) or not can_compare_output(resolved.request):
            change = (
                "the files of the source have been written or copied again, so only a new conversion shows whether "
                "they changed"
            )
            raise _other_conversion_error(dest, [change])
        progress.note(
            "the files of the source have been written or copied again: comparing their content with the destination"
        )
        if not has_same_output(plan, resolved, dest, location, progress):
            raise _other_conversion_error(dest, ["files with the same names and sizes, and other content"])
    progress.note("the source is a copy of the one that was converted: nothing to do")


def _other_conversion_error(dest: str, differing: Sequence[str]) -> UsageError:
    diff = shell_command("diff", dest, "OTHER")
    hint = f"choose another DEST and compare the two with {diff}; or pass `--overwrite` to replace this one"
    if differing and all(each.startswith("another -") for each in differing):
        hint = f"use the options of that conversion ({shell_command('log', dest)} shows them), or choose another DEST"
    return _mismatch_error("another conversion wrote the destination", differing, dest, hint)


def discard_other_plan(
    work: str,
    fingerprint: str,
    inputs: Mapping[str, Any],
    dest: str,
    request: ConvertRequest,
    location: DatasetLocation | None,
) -> None:
    """Remove an unfinished conversion of other sources or options, if `restart` is set or it has no output yet.

    Raises UsageError WDS345 otherwise, and if that conversion is moving its files into the destination.
    """
    plan = os.path.join(work, PLAN_FILE)
    if not os.path.exists(plan):
        return
    with PlanFile(plan) as other:
        if other.facts().get("fingerprint") == fingerprint:
            return
        units, former_inputs = other.units(), other.value("made_from", dict)
    if os.path.exists(os.path.join(work, UNFOLDING_MARKER_FILE)):
        message = "another conversion has not finished moving its files into the destination"
        raise _mismatch_error(message, [], dest, "run the other command again to finish it, or choose another DEST")
    is_folder = _is_remote_folder(dest, units)
    if (is_folder or not request.restart) and _has_outputs(dest, units):
        changes = describe_input_changes(former_inputs, inputs)
        hint = "choose another DEST; or pass `--yes` to remove what the other conversion wrote and start again"
        hint = "choose another DEST, or remove the objects of the other conversion" if is_folder else hint
        raise _mismatch_error("the destination has an unfinished conversion of another kind", changes, dest, hint)
    if location is not None:
        _remove_outputs(location.root_to_write, units)
    remove_path(plan)  # last: after a kill, the next run continues the removal


@contextmanager
def discard_if_refused(plan: PlanFile, work: str, location: DatasetLocation) -> Iterator[None]:
    """Remove what the conversion has written if it finds labels that cannot follow: only other options can finish."""
    try:
        yield
    except LabelsCannotFollow:
        units = plan.units()
        if not _is_remote_folder(location.root_to_write, units):
            _remove_outputs(location.root_to_write, units)
            remove_path(os.path.join(work, UNIT_RESULTS_FILE))
            remove_path(os.path.join(work, PLAN_FILE))
        raise


def _is_remote_folder(dest: str, units: Sequence[PlannedUnit]) -> bool:
    """Whether units are folders of objects. These are not in the plan: others may have put theirs beside them."""
    return is_url(dest) and not all(os.path.splitext(unit.name)[1] for unit in units)


def _has_outputs(dest: str, units: Sequence[PlannedUnit]) -> bool:
    if is_url(dest):
        from wdsctl.core.dataset.remote_destination import list_objects

        present = list_objects(dest).keys()
        is_folder = not all(os.path.splitext(unit.name)[1] for unit in units)
        return bool(present) if is_folder else not present.isdisjoint(unit_path("", unit) for unit in units)
    return any(os.path.lexists(unit_path(dest, unit)) for unit in units)


def _remove_outputs(dest: str, units: Sequence[PlannedUnit]) -> None:
    """Remove the files of all units, and their catalogs, whose splits would apply to other samples."""
    if is_url(dest):
        from wdsctl.core.storage.objects import ObjectStore

        ObjectStore(dest).delete([unit_path(dest, unit) for unit in units])
        for dataset in {unit.dataset for unit in units}:
            _remove_catalog(locate(join_beneath(dest, dataset).rstrip("/")), with_meta=bool(dataset))
        return
    remove_partials(dest, {os.path.dirname(unit_path("", unit)) for unit in units} | {unit.folder for unit in units})
    for unit in units:
        remove_path(unit_path(dest, unit))
    for dataset, folder in {unit.dataset: unit.folder for unit in units}.items():
        root = join_beneath(dest, dataset)
        if os.path.isdir(root):
            check_folder(root)
            _remove_catalog(locate(root, writing=True, real_root=root), with_meta=bool(dataset))
        for name in SIDE_FILES:
            remove_path(join_beneath(dest, folder, name))
        if dataset:
            with suppress(OSError):  # the folder is not empty, or does not exist
                remove_empty_folder(root)


def _remove_catalog(location: DatasetLocation, *, with_meta: bool) -> None:
    """Remove a catalog; with `with_meta`, the whole `.wdsctl` folder. DEST keeps its folder: the lock is in it."""
    if with_meta and location.has_catalog_inside:
        remove_path(location.meta)
        return
    with translate_os_errors(location.meta, "list"), suppress(FileNotFoundError):
        for name in os.listdir(location.meta):
            if name in ("columns", "media") or name.startswith(("catalog.sqlite", "offsets-", "names-", "keyframes-")):
                remove_path(os.path.join(location.meta, name))
    if os.path.exists(location.config_path):
        set_aside(location.config_path, "before")  # the user may have edited it


def _mismatch_error(message: str, differing: Sequence[str], dest: str, hint: str) -> UsageError:
    changes = "; ".join(differing) or "other sources or options"
    return UsageError(f"{message}: {changes}", where=dest, hint=hint, code="WDS345")


def describe_inputs(request: ConvertRequest, opened: OpenSources) -> dict[str, Any]:
    """The options and files that decide the output, as JSON. Cost: a walk through the sources."""
    options = {name: value for name, value in asdict(request).items() if name not in OPTIONS_WITHOUT_EFFECT}
    sources = [
        {
            "form": spec.importer,
            "options": [list(pair) for pair in spec.options if pair[0] not in ("catalog", "generation")],
            "files": _list_files(spec.path),
        }
        for spec in opened.specs
    ]
    inputs: dict[str, Any] = json.loads(json.dumps({"options": options, "sources": sources}, default=str))
    return inputs


def describe_input_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Descriptions of the differences: options, and the names and sizes of files, not their times."""
    old_options, options = before["options"], now["options"]
    other = [name for name in options if options[name] != old_options.get(name)]
    changes = [f"another {_FLAG_OF_OPTION.get(name) or '--' + name.replace('_', '-')}" for name in other]
    if len(before["sources"]) != len(now["sources"]):
        return [*changes, f"{pluralize(len(now['sources']), 'source')} instead of {len(before['sources'])}"]
    for old, new in zip(before["sources"], now["sources"], strict=True):
        if old["form"] != new["form"]:
            changes.append(f"a source of format {new['form']} instead of {old['form']}")
        elif old["options"] != new["options"] and not other:
            changes.append("another view, or other options of a source")
        if old["files"] is not None and new["files"] is not None:
            changes += _describe_file_changes(old["files"], new["files"])
    return changes


def has_same_times(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether all files have the same sizes and times as before, as after a move, or a copy with `cp -a`.

    False for formats with references and for links to folders, since the listing does not cover their targets.
    """
    pairs = zip(before["sources"], now["sources"], strict=True)
    return all(
        new["form"] in _SELF_CONTAINED_FORMATS
        and new["files"] is not None
        and all(size >= 0 for _, size, _ in new["files"])
        and old == new
        for old, new in pairs
    )


def has_same_output(
    plan_path: str, resolved: ResolvedRequest, dest: str, location: DatasetLocation, progress: Progress
) -> bool:
    """Whether the plan gives the files of DEST: writes each unit again next to the plan, and compares the bytes.

    Cost: reads the sources and DEST once, up to the first difference; disk space for one file per worker.
    """
    folder = os.path.dirname(plan_path)
    try:
        with PlanFile(plan_path) as plan:
            units = plan.units()
        finished = run_units(
            partial(_is_same, dest),
            [UnitJob(plan_path, unit, folder, resolved) for unit in units],
            make_executor(workers_of(resolved)),
            phase="compare",
            progress=progress,
            size=lambda job: UnitSize(job.unit.samples, job.unit.size_bytes),
            reads=(plan_path, dest, *(spec.path for spec in resolved.sources)),
        )
        with closing(finished):
            for each in finished:
                check_lock_held(location.lock)
                if not each.result():
                    return False
        return True
    finally:
        close_sources()


def can_compare_output(request: ConvertRequest) -> bool:
    """Whether comparing is faster than converting: the request transcodes nothing, and each unit is one file."""
    is_plain = request.image is None and request.audio is None and not request.media
    return is_plain and bool(exporters.get_exporter(request.target).suffix)


def _is_same(dest: str, job: UnitJob) -> bool:
    result = write_unit(job)
    existing = unit_path(dest, job.unit)
    if not result.samples:
        return not os.path.lexists(existing)
    rewritten = unit_path(job.root, job.unit)
    try:
        return _are_equal(rewritten, job.root, existing, dest)
    finally:
        remove_path(rewritten)


def _are_equal(path: str, root: str, other: str, other_root: str) -> bool:
    try:
        with open_below(path, root) as a, open_below(other, other_root) as b:
            while (data := a.read(1 << 20)) == b.read(1 << 20):
                if not data:
                    return True
            return False
    except FileNotFoundError:
        return False


def _list_files(path: str) -> list[tuple[str, int, int]] | None:
    """(path below the source, size, time in ns) of all files except hidden ones; None for a URL or too many files."""
    if is_url(path):
        return None
    found = list(islice(_walk_files(path), MAX_LISTED_FILES + 1))
    return sorted(found) if len(found) <= MAX_LISTED_FILES else None


def _walk_files(root: str) -> Iterator[tuple[str, int, int]]:
    if not os.path.isdir(root):
        yield _file_entry("", root)
        return
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in (*names, *links):
            if not name.startswith("."):
                path = os.path.join(folder, name)
                yield _file_entry(os.path.relpath(path, root), path)


def _file_entry(name: str, path: str) -> tuple[str, int, int]:
    """(name, size, time in ns). The size is -1 for a folder and for an unreadable file."""
    shown = name.encode("utf-8", "backslashreplace").decode()
    try:
        status = os.stat(path)
    except OSError:
        return shown, -1, 0
    return shown, -1 if os.path.isdir(path) else status.st_size, status.st_mtime_ns


def _describe_file_changes(old: Sequence[Sequence[Any]], new: Sequence[Sequence[Any]]) -> Iterator[str]:
    old_sizes, new_sizes = ({name: size for name, size, _ in files} for files in (old, new))
    changes = {
        "{} new": sorted(new_sizes.keys() - old_sizes.keys()),
        "{} missing": sorted(old_sizes.keys() - new_sizes.keys()),
        "{} of another size": sorted(
            name for name in new_sizes.keys() & old_sizes.keys() if new_sizes[name] != old_sizes[name]
        ),
    }
    for text, names in changes.items():
        if names:
            example = f" ({'such as ' if len(names) > 1 else ''}{path_for_message(names[0])})" if names[0] else ""
            yield text.format(pluralize(len(names), "file")) + example
