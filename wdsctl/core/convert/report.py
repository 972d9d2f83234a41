"""Make the report of a conversion: a run, a dry run, or one that an earlier run has finished."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import blake2b
from itertools import chain, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.convert.carry import DroppedItem, dropped_findings, plan_carry
from wdsctl.core.convert.conversion_report import ConvertedDataset, ConvertReport, ConvertSource
from wdsctl.core.convert.finish import common_config, without_splits
from wdsctl.core.convert.plan import repeated_files, unread_samples
from wdsctl.core.convert.plan_file import LeftOutSample, PlanFile, PlannedUnit, UnitResult
from wdsctl.core.convert.request import ConvertRequest, ResolvedRequest
from wdsctl.core.convert.sources import OpenSources
from wdsctl.core.convert.unchanged import decode_paths, describe_paths, merge_paths
from wdsctl.core.dataset.destination import remove_path
from wdsctl.core.dataset.location import FINISHED_FILE, META_FOLDER
from wdsctl.core.errors import (
    CatalogError,
    DatasetError,
    Finding,
    Severity,
    UsageError,
    join_indented,
    translate_os_errors,
)
from wdsctl.core.file_limits import MAX_INDEX_BYTES, MAX_TABLE_BYTES, read_whole
from wdsctl.core.files import MALFORMED_ERRORS, open_own, write_pieces, write_text
from wdsctl.core.json_text import read_json
from wdsctl.core.text import escape_unprintable, pluralize
from wdsctl.core.urls import is_url, redact_secrets

#: The file of `record_export`, in the folder of the conversion.
EXPORTED_FILES_FILE = "files.bin"

#: The table of `write_left_out`, in the folder of the conversion.
LEFT_OUT_FILE = "left-out.tsv"

LEFT_OUT_SUFFIX = ": the sample is skipped"
KEPT_SUFFIX = ": the sample is unchanged"

_SAVED_FIELDS = ("form", "samples", "files", "size_bytes", "failed", "kept", "repeated", "bare", "apart", "layout")


def preview_conversion(
    plan_path: str, opened: OpenSources, dest: str, resolved: ResolvedRequest, started: float
) -> ConvertReport:
    """The report of a dry run."""
    request = resolved.request
    dropped: list[DroppedItem] = []
    with PlanFile(plan_path) as plan:
        units = plan.units()
        carry_plan = plan_carry(opened, request, [unit.stream for unit in units] if request.makes_datasets else ())
        unchanged = json.dumps(resolved.unchanged_numbers)
        done = {
            unit.id: UnitResult(unit.id, unit.samples, unit.size_bytes, "{}", (), (), "[]", unchanged) for unit in units
        }
        datasets = []
        for folder, grouped in groupby(units, key=lambda unit: unit.dataset):
            some, path = list(grouped), redact_secrets(os.path.join(dest, folder).rstrip("/"))
            datasets.append(
                ConvertedDataset(
                    path=path,
                    files=len(some),
                    samples=sum(unit.samples for unit in some),
                    size_bytes=sum(unit.size_bytes for unit in some),
                    columns=carry_plan.column_names(some[0].stream),
                )
            )
            dropped += carry_plan.dropped_items(path, some[0].stream)
        report = build_report(plan, units, done, opened, dest, resolved, tuple(datasets), started, is_dry_run=True)
    return replace(report, findings=(*problems(opened), *report.findings, *dropped_findings(dropped)))


def problems(opened: OpenSources) -> tuple[Finding, ...]:
    """The findings about the sources, also those that came up while their samples were listed."""
    listed = [found for source in opened.sources for found in getattr(source, "problems", ())]
    return (*opened.findings, *listed)


def build_report(
    plan: PlanFile,
    units: Sequence[PlannedUnit],
    done: Mapping[int, UnitResult],
    opened: OpenSources,
    dest: str,
    resolved: ResolvedRequest,
    datasets: tuple[ConvertedDataset, ...],
    started: float,
    *,
    is_dry_run: bool = False,
) -> ConvertReport:
    request = resolved.request
    failed = {position for each in done.values() for position in each.left_out}
    unread = plan.value("unread", int)
    unmatched: list[str] = plan.value("unmet", list)
    notes = [f"no part matches {', '.join(unmatched)}"] if unmatched else []
    notes += _number_notes(plan, done, resolved.samples_read if is_dry_run else 0)
    return ConvertReport(
        sources=_redacted_sources(opened),
        dest=redact_secrets(dest),
        form=request.target,
        samples=plan.value("samples", int) + unread,
        files=len(units),
        size_bytes=sum(done[unit.id].size_bytes for unit in units),
        written_files=0,
        kept_files=0,
        failed=len(failed) + unread,
        kept=len({position for each in done.values() for position in each.as_is}),
        repeated=plan.value("repeated", int),
        bare=plan.value("bare", int),
        apart=plan.value("apart", int),
        datasets=datasets,
        findings=(*_unread_findings(plan), *_failure_findings(plan.units(), done)),
        notes=(*notes, *_config_notes(opened, request), *_split_notes(plan, opened, request)),
        up_to_date=False,
        dry_run=is_dry_run,
        seconds=time.monotonic() - started,
        layout=_layout_note(plan) if request.media else "",
    )


def _number_notes(plan: PlanFile, done: Mapping[int, UnitResult], samples_read: int) -> list[str]:
    """A note on numbers that stay beside pictures that change, of which only the user knows the meaning.

    `samples_read`: of a dry run.
    """
    paths = merge_paths(decode_paths(text) for text in {each.unchanged for each in done.values()})
    if not paths:
        return []
    is_some = 0 < samples_read < plan.value("samples", int)
    which = f" in the {samples_read} samples that a dry run reads" if is_some else ""
    doubt = "wrong if they are positions on pictures, or sizes in pixels"
    return [f"numbers{which} that stay as they are while pictures change, {doubt}: {describe_paths(paths)}"]


def _layout_note(plan: PlanFile) -> str:
    found = repeated_files(plan)
    if found is None or not found.references:
        return ""
    repeated, total = found.size_bytes / 1e6, found.total_bytes / 1e6
    parts, files = pluralize(found.references, "part"), pluralize(found.files, "file")
    return (
        f"polylithic layout: storing {parts} as {files}, each once, saves {repeated:,.1f} of {total:,.1f} MB "
        "(--layout monolithic stores every copy)"
    )


def _config_notes(opened: OpenSources, request: ConvertRequest) -> Iterator[str]:
    """Notes on settings of dataset.yaml that are not copied."""
    configs = [config for config in opened.configs if config is not None]
    if not request.makes_datasets or not request.finish or not configs:
        return
    has_subflavors = any(config.subflavors for config in configs)
    common = common_config(opened, request)
    if common is not None:
        if any(config.sample_loader for config in configs):
            yield "sample_loader of dataset.yaml is not copied: the destination has crude samples"
        if has_subflavors and not common.subflavors:
            yield "subflavors of dataset.yaml are not copied: the sources have different ones"
    elif has_subflavors or any(without_splits(config) != without_splits(configs[0]) for config in configs):
        lost = (
            "their sample types, field maps and subflavors" if has_subflavors else "their sample types and field maps"
        )
        yield f"the sources have different settings in dataset.yaml: {lost} are not copied, and the type is detected"


def _split_notes(plan: PlanFile, opened: OpenSources, request: ConvertRequest) -> Iterator[str]:
    """Notes on splits that are not copied, and on samples without a split if other samples have one."""
    names: list[str] = plan.value("splits", list)
    counts = plan.split_counts()
    total = sum(counts.values())
    known = len({name for source in opened.split_names for name in source})
    if known > len(names):
        yield f"only {len(names)} of {known} splits are copied"
    sizes = {name: sum(n for bits, n in counts.items() if bits >> b & 1) for b, name in enumerate(names)}
    sizes_text = ", ".join(f"{name} {n:,}" for name, n in sizes.items() if n)
    if not sizes_text or request.apart == "split" or counts.get(0, 0) == total:
        return
    if not request.makes_datasets:
        if set(sizes.values()) - {0} != {total}:
            yield f"the destination has no splits ({sizes_text}): pass `--apart split` to write one folder per split"
    elif counts.get(0):
        as_before = ", as in their source" if known <= len(names) else ""
        yield f"{counts[0]:,} of {pluralize(total, 'sample')} are in no split{as_before}; the others: {sizes_text}"


def _unread_findings(plan: PlanFile) -> Iterator[Finding]:
    """Yield a finding per code of the samples that have no place in the plan, because their group is not readable."""
    for code, message, shard, key, count in unread_samples(plan):
        text = f"{message}{LEFT_OUT_SUFFIX}"
        yield Finding(code=code, severity="error", message=text, shard=shard, key=key, count=count)


def _failure_findings(units: Sequence[PlannedUnit], done: Mapping[int, UnitResult]) -> Iterator[Finding]:
    """Yield a finding per code and outcome: the first failure, with the number of failures."""
    first: dict[tuple[str, bool], Finding] = {}
    for unit in units:
        for key, code, message, is_kept, _, count in read_json(done[unit.id].failures):
            text = f"{message}{KEPT_SUFFIX if is_kept else LEFT_OUT_SUFFIX}"
            severity: Severity = "warning" if is_kept else "error"
            before = first.get((code, is_kept))
            first[code, is_kept] = (
                Finding(code=code, severity=severity, message=text, shard=unit.name, key=key, count=count)
                if before is None
                else replace(before, count=before.count + count)
            )
    yield from first.values()


def all_failed_error(units: Sequence[PlannedUnit], done: Mapping[int, UnitResult]) -> DatasetError:
    """The error for a run in which every sample failed: an empty dataset would look like success."""
    found = list(_failure_findings(units, done))
    first = found[0]
    reason = first.message.removesuffix(LEFT_OUT_SUFFIX)
    count = len({position for each in done.values() for position in each.left_out})
    hints = {hint for each in done.values() for _, code, *_, hint, _ in read_json(each.failures) if code == first.code}
    hint = f"repair the source and run the same command again; `wdsctl explain {first.code}` explains the code"
    return DatasetError(
        join_indented(f"no sample could be read or transcoded: {pluralize(count, 'sample')} failed", reason),
        hint=hints.pop() if len(hints) == 1 and any(hints) else hint,
        where=f"sample {escape_unprintable(first.key)}",
        code=first.code,
    )


def load_finished(work: str) -> dict[str, Any] | None:
    """The record of a finished conversion; None if the conversion has not finished. Raises CatalogError WDS335."""
    path = os.path.join(work, FINISHED_FILE)
    if not os.path.exists(path):
        return None
    try:
        with translate_os_errors(path, "read"), open_own(path) as file:
            content: dict[str, Any] = read_json(read_whole(file, path, MAX_INDEX_BYTES))
        _check_finished(content)
    except MALFORMED_ERRORS as error:
        raise CatalogError(
            "the record of the finished conversion is damaged",
            where=path,
            hint="restore the file from a copy, or choose another DEST",
            code="WDS335",
        ) from error
    return content


def _check_finished(content: Mapping[str, Any]) -> None:
    """Raise one of MALFORMED_ERRORS if a record of `save_finished` lacks a value."""
    _check_names(content, "fingerprint", "files", "report", "made_from")
    _check_names(content["report"], *_SAVED_FIELDS, "notes")
    _saved_datasets(content["report"])
    _saved_findings(content["report"])
    _check_names(content["made_from"], "plan", "options", "sources")
    for source in content["made_from"]["sources"]:
        _check_names(source, "form", "options", "files")


def _check_names(values: Mapping[str, Any], *names: str) -> None:
    missing = set(names) - values.keys()
    if missing:
        raise KeyError(*sorted(missing))


def _saved_datasets(saved: Mapping[str, Any]) -> tuple[ConvertedDataset, ...]:
    return tuple(ConvertedDataset(**each | {"columns": tuple(each["columns"])}) for each in saved["datasets"])


def _saved_findings(saved: Mapping[str, Any]) -> tuple[Finding, ...]:
    return tuple(Finding(**found) for found in saved["findings"])


def save_finished(
    work: str, fingerprint: str, inputs: Mapping[str, Any], report: ConvertReport, files: Mapping[str, int]
) -> None:
    """Save the report for later runs of the same command, which marks the conversion as finished.

    `inputs`: the result of `describe_inputs`, by which a later run recognises a copy of the source. `files`: path below
    the destination -> bytes.
    """
    saved = {name: getattr(report, name) for name in _SAVED_FIELDS}
    saved |= {"datasets": [asdict(each) for each in report.datasets]}
    saved |= {"findings": [asdict(found) for found in report.findings], "notes": report.notes}
    write_finished(work, {"fingerprint": fingerprint, "files": files, "report": saved, "made_from": inputs})


def record_export(work: str, dest: str) -> None:
    """Record the files of a finished conversion to a format without a suffix, for later runs: 8 bytes for each.

    They are too many to list by name. The destination was empty before.
    """
    write_pieces(os.path.join(work, EXPORTED_FILES_FILE), [_file_digests(dest).tobytes()])


def _count_lost_files(work: str, dest: str) -> int:
    """The number of files in the record of `record_export` that are gone or have another size. Lists DEST."""
    try:
        path = os.path.join(work, EXPORTED_FILES_FILE)
        with open_own(path) as file:
            data = read_whole(file, path, MAX_TABLE_BYTES)
    except FileNotFoundError:
        return 0  # units are files, whose names and sizes are in the report
    recorded = np.frombuffer(data[: len(data) // 8 * 8], "<u8")
    return int(np.count_nonzero(~np.isin(recorded, _file_digests(dest))))


def _file_digests(dest: str) -> NDArray[np.uint64]:
    """(files,) Sorted digests of path and size of the files in the destination, except those in `.wdsctl`."""
    if is_url(dest):
        from wdsctl.core.dataset.remote_destination import list_objects

        found: Iterable[tuple[str, int]] = list_objects(dest).items()
    else:
        found = _list_files(dest)
    digests = (blake2b(f"{name}\0{size}".encode("utf-8", "surrogateescape"), digest_size=8) for name, size in found)
    return np.sort(np.fromiter((int.from_bytes(each.digest(), "little") for each in digests), "<u8"))


def _list_files(dest: str) -> Iterator[tuple[str, int]]:
    for folder, folders, names in os.walk(dest):
        if folder == dest:
            folders[:] = [name for name in folders if name != META_FOLDER]
        for name in names:
            path = os.path.join(folder, name)
            with suppress(FileNotFoundError):
                yield os.path.relpath(path, dest), os.lstat(path).st_size


def write_left_out(work: str, opened: OpenSources, samples: Iterable[LeftOutSample]) -> str:
    """Write a table of all samples and files of the sources that are not in the destination.

    Returns its path; empty if there are none. Memory does not grow with the samples.
    """
    files = (
        os.path.join(redact_secrets(source.path), path)
        for source, unused in zip(opened.reports, opened.unused, strict=True)
        for path in unused
    )
    rows = chain(
        ((sample.code, sample.key, sample.message) for sample in samples),
        (("WDS239", path, "no sample has this file") for path in files),
    )
    return write_left_out_table(os.path.join(work, LEFT_OUT_FILE), rows)


def write_left_out_table(path: str, rows: Iterator[tuple[str, str, str]]) -> str:
    """Write a table of (code, name, reason). Returns its path; without rows, removes the file and returns ""."""
    first = next(rows, None)
    if first is None:
        remove_path(path)
        return ""
    lines = chain([("code", "name", "reason"), first], rows)
    write_pieces(path, ("\t".join(map(escape_unprintable, row)).encode() + b"\n" for row in lines))
    return path


def write_finished(work: str, content: Mapping[str, Any]) -> None:
    write_text(os.path.join(work, FINISHED_FILE), json.dumps(content, indent=1))


def report_finished(
    finished: Mapping[str, Any], work: str, opened: OpenSources, dest: str, request: ConvertRequest, started: float
) -> ConvertReport:
    """The saved report of a finished conversion. Raises UsageError if its files are missing or have other sizes."""
    saved = finished["report"]
    datasets = _saved_datasets(saved)
    files: dict[str, int] = finished["files"]
    if is_url(dest):
        from wdsctl.core.dataset.remote_destination import list_objects

        present = list_objects(dest)
        changed = [f"{redact_secrets(dest)}/{name}" for name, size in files.items() if present.get(name) != size]
    else:
        changed = [each.path for each in datasets if not os.path.isdir(each.path)]
        changed += [path for name, size in files.items() if not _has_size(path := os.path.join(dest, name), size)]
    lost = len(changed) or _count_lost_files(work, dest)
    if lost:
        raise UsageError(
            f"{pluralize(lost, 'file')} of the finished conversion {'is' if lost == 1 else 'are'} missing, or "
            f"{'has' if lost == 1 else 'have'} changed",
            where=changed[0] if changed else redact_secrets(dest),
            hint="restore the files, or choose another DEST",
        )
    left_out = os.path.join(work, LEFT_OUT_FILE)
    return ConvertReport(
        **{name: saved[name] for name in _SAVED_FIELDS},
        notes=tuple(saved["notes"]),
        sources=_redacted_sources(opened),
        dest=redact_secrets(dest),
        written_files=0,
        kept_files=saved["files"],
        datasets=datasets,
        findings=_saved_findings(saved),
        up_to_date=True,
        dry_run=request.dry_run,
        seconds=time.monotonic() - started,
        left_out_list=left_out if os.path.exists(left_out) else "",
    )


def _redacted_sources(opened: OpenSources) -> tuple[ConvertSource, ...]:
    return tuple(replace(source, path=redact_secrets(source.path)) for source in opened.reports)


def _has_size(path: str, size: int) -> bool:
    try:
        return os.path.getsize(path) == size
    except OSError:
        return False
