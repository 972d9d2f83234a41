"""Write one unit of a conversion, in a worker: read its samples, change their parts, pass them to the exporter.

The result depends only on the plan and the request.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import accumulate, groupby, islice, pairwise
from operator import itemgetter
from typing import NamedTuple, cast

from wdsctl.core import importers
from wdsctl.core.convert import exporters
from wdsctl.core.convert.exporters import ColumnExporter, Exporter
from wdsctl.core.convert.labels import (
    LabelsCannotFollow,
    SeenNumbers,
    check_labels_apart,
    check_many_numbers,
    check_seen_numbers,
    follow_pictures,
)
from wdsctl.core.convert.parts import (
    PartRules,
    is_selected_part,
    is_separated_part,
    renamed_part_name,
    transcoded_name,
)
from wdsctl.core.convert.plan_file import LeftOutSample, PlanFile, PlannedSample, PlannedUnit, SharedPart, UnitResult
from wdsctl.core.convert.request import ConvertRequest, ResolvedRequest, SourceSpec
from wdsctl.core.convert.unchanged import merge_paths
from wdsctl.core.dataset.polylithic import REFERENCES_PART
from wdsctl.core.dataset.shard_names import TAR_SUFFIX
from wdsctl.core.directories import join_beneath
from wdsctl.core.errors import DatasetError, StorageDown, WdsctlError
from wdsctl.core.files import open_file_draft
from wdsctl.core.importers.protocol import DetailedSource, FilePart, Part, Source
from wdsctl.core.importers.references import encode_line, make_references_part
from wdsctl.core.safe_open import open_named
from wdsctl.core.samples.drawn_numbers import MANY_SAMPLES
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.scan_unit import ScanUnit, scan_results
from wdsctl.core.shards.tar_scan import scan_tar
from wdsctl.core.text import escape_unprintable
from wdsctl.core.urls import is_url

AnyPart = Part | FilePart

_PREFETCH_SAMPLES = 64
_CHECKED_PLACES, _CHECKED_SAMPLES = 8, 32  # of which labels are checked before anything is written


class UnitUpload(NamedTuple):
    """Local folders of a unit that goes to a store. `spool`: files before their upload.

    `journal`: unfinished uploads. `scans`: the scans of tars, which spare the index reading them; empty for none.
    """

    spool: str
    journal: str
    scans: str


class UnitJob(NamedTuple):
    """A unit to write. `root`: the destination. `plan`: the path of the plan. `upload`: if `root` is a URL.

    `left_out`, `as_is`: for a primary, positions of samples whose media failed, and are left out or kept unchanged.
    """

    plan: str
    unit: PlannedUnit
    root: str
    resolved: ResolvedRequest
    left_out: tuple[int, ...] = ()
    as_is: tuple[int, ...] = ()
    upload: UnitUpload | None = None

    @property
    def label(self) -> str:
        """The name of the file, for messages."""
        return self.unit.name


class SampleFailure(NamedTuple):
    """A sample that failed. `is_kept`: the unit contains it unchanged."""

    position: int
    key: str
    code: str
    message: str
    is_kept: bool
    hint: str = ""


def write_unit(job: UnitJob) -> UnitResult:
    """Write a unit to its final path, completely or not at all. The result counts the samples that failed.

    Raises StorageError, PermissionDenied; if `on_error` is `error`, also the error of the first sample that fails.
    """
    unit, request = job.unit, job.resolved.request
    failures: list[SampleFailure] = []
    options = dict(job.resolved.target_options)
    with open_file_draft(unit_path(job.root if job.upload is None else job.upload.spool, unit)) as draft:
        with PlanFile(job.plan) as plan:
            exporter = _exporter_for(request, unit)
            if isinstance(exporter, ColumnExporter):
                exporter = exporter.with_parts(plan.parts(unit.folder), options)
            seen = SeenNumbers(job.resolved.judged_numbers) if _labels_follow(request) else None
            samples = _convert_samples(plan, job, failures, seen)
            written = exporter.write(draft.path, cast("Iterator[tuple[str, Iterator[Part]]]", samples), options)
        if seen is not None:
            check_seen_numbers(request, seen)
        unchanged = seen.unchanged.encoded() if seen is not None else "[]"
        if written.samples and job.upload is None:
            draft.publish()
        elif written.samples and job.upload is not None:
            _upload_draft(draft.path, job, job.upload)
    left_out = tuple(failure.position for failure in failures if not failure.is_kept)
    as_is = tuple(failure.position for failure in failures if failure.is_kept)
    counts = json.dumps(_count_failures(failures))
    listed = tuple(
        LeftOutSample(failure.position, failure.key, failure.code, escape_unprintable(failure.message))
        for failure in failures
        if not failure.is_kept
    )
    return UnitResult(
        *(unit.id, written.samples, written.size_bytes, written.facts, left_out, as_is, counts, unchanged, listed)
    )


def _upload_draft(draft: str, job: UnitJob, target: UnitUpload) -> None:
    """Send a finished file to the store, and keep its scan for the index; or send all files of a folder."""
    from wdsctl.core.storage.objects import ObjectStore
    from wdsctl.core.storage.upload_journal import put_file_journaled, put_folder_journaled

    if os.path.isdir(draft):
        folder = join_beneath(job.root, job.unit.folder).rstrip("/")
        put_folder_journaled(ObjectStore(job.root), draft, folder, target.journal)
        return
    stored = put_file_journaled(ObjectStore(job.root), draft, unit_path(job.root, job.unit), target.journal)
    if target.scans and stored.number and job.unit.name.endswith(TAR_SUFFIX):
        shard = ShardFile(job.unit.name, stored.size, stored.number)
        with open_named(draft) as file:
            scan = scan_tar(shard.path, lambda offset, size: os.pread(file.fileno(), size, offset), shard.size)
        unit = ScanUnit(join_beneath(job.root, job.unit.dataset).rstrip("/"), shard)
        scan_results(target.scans).save([unit], [replace(scan, known_layout_hash=scan.layout_hash())])


def unit_path(root: str, unit: PlannedUnit) -> str:
    """The path of a unit: ROOT/FOLDER/NAME, or ROOT/FOLDER/primary/NAME and ROOT/FOLDER/media/NAME.

    Raises InputError WDS415 if the plan, which may be foreign, leads out of `root`.
    """
    return join_beneath(root, unit.folder, unit.stream, unit.name)


def check_some_labels(plan: PlanFile, resolved: ResolvedRequest) -> ResolvedRequest:
    """Raises LabelsCannotFollow if labels cannot follow their pictures in samples from all over the plan, before any is
    written. The workers check all samples. Returns the request with the numbers that were judged: those that are in
    many of these samples, or all if there are no other samples.
    """
    if not _labels_follow(resolved.request):
        return resolved
    units = [unit for unit in plan.units() if unit.stream != "media"]
    ends = list(accumulate(unit.last - unit.first + 1 for unit in units))
    seen = SeenNumbers()
    read: set[int] = set()
    try:
        for begin in sorted({at * ends[-1] // _CHECKED_PLACES for at in range(_CHECKED_PLACES)} if ends else ()):
            number = bisect_right(ends, begin)
            unit = units[number]
            first = unit.last + 1 - (ends[number] - begin)
            last = min(unit.last, first + _CHECKED_SAMPLES // _CHECKED_PLACES - 1)
            job = UnitJob(plan.path, unit._replace(first=first, last=last), "", resolved)
            deque(_convert_samples(plan, job, [], seen), maxlen=0)
            read.update(range(first, last + 1))
    finally:
        close_sources()
    has_more = bool(ends) and ends[-1] > _CHECKED_SAMPLES
    check_seen_numbers(resolved.request, seen, least_samples=MANY_SAMPLES if has_more else 0)
    judged = tuple(sorted(seen.judged.items()))
    paths = merge_paths([seen.unchanged.paths])
    return replace(resolved, judged_numbers=judged, unchanged_numbers=paths, samples_read=len(read))


def _labels_follow(request: ConvertRequest) -> bool:
    return request.image is not None and request.image.labels != "keep"


def _convert_samples(
    plan: PlanFile, job: UnitJob, failures: list[SampleFailure], seen: SeenNumbers | None = None
) -> Iterator[tuple[str, Iterator[AnyPart]]]:
    sources, request = job.resolved.sources, job.resolved.request
    left_out, as_is = frozenset(job.left_out), frozenset(job.as_is)
    is_plain_copy = request.keeps_parts and not job.unit.stream
    samples = plan.samples(job.unit.first, job.unit.last)
    has_shared_parts = bool(job.unit.stream) and plan.has_shared_parts()
    while block := list(islice(samples, _PREFETCH_SAMPLES)):
        _prefetch(sources, block)
        shared_parts = plan.shared_parts(block[0].position, block[-1].position) if has_shared_parts else {}
        for sample in block:
            if sample.position in left_out:
                continue
            spec = sources[sample.source_index]
            source = _open_source(spec)
            is_kept = sample.position in as_is
            shared = shared_parts.get(sample.position, {})
            count = len(failures)
            parts = _convert_sample(
                *(source, spec, request, job.unit, sample, shared, failures),
                is_kept=is_kept,
                is_plain_copy=is_plain_copy,
                seen=seen,
            )
            if parts is None and has_shared_parts and job.unit.stream == "media":
                users = plan.users_of(sample.position)
                parts = _convert_used_parts(source, spec, request, job.unit, sample, users, failures[count:], failures)
            if parts:
                yield sample.key, iter(parts)
        if seen is not None:
            check_many_numbers(request, seen)


def _count_failures(failures: list[SampleFailure]) -> list[tuple[str, str, str, bool, str, int]]:
    """The first failure of each kind, with its count: (key, code, message, is_kept, hint, count)."""
    counts = Counter((failure.code, failure.is_kept) for failure in failures)
    first = {(failure.code, failure.is_kept): failure for failure in reversed(failures)}
    return [(*failure[1:], counts[kind]) for kind, failure in sorted(first.items())]


def _prefetch(sources: tuple[SourceSpec, ...], samples: list[PlannedSample]) -> None:
    for number in {sample.source_index for sample in samples}:
        detailed = _open_source(sources[number]).detailed
        indexes = [sample.sample_index for sample in samples if sample.source_index == number]
        # For consecutive samples on a disk, the read-ahead of the system is enough.
        is_read_ahead = indexes[-1] - indexes[0] == len(indexes) - 1 and not is_url(sources[number].path)
        if detailed is not None and not is_read_ahead:
            detailed.prefetch(indexes)


def _convert_sample(
    source: _OpenSource,
    spec: SourceSpec,
    request: ConvertRequest,
    unit: PlannedUnit,
    sample: PlannedSample,
    shared: Mapping[str, SharedPart],
    failures: list[SampleFailure],
    *,
    is_kept: bool,
    is_plain_copy: bool,
    only: str = "",
    seen: SeenNumbers | None = None,
) -> list[AnyPart] | None:
    """The parts of a sample in this unit, sorted by name; None if the sample fails and is left out.

    `shared`: the parts whose files the media dataset has under another entry. `is_kept`: do not transcode parts.
    `is_plain_copy`: write all parts unchanged. `only`: read no part but this. `seen`: as for `follow_pictures`.
    """
    try:
        if is_plain_copy and source.detailed is not None:
            copied = list(source.detailed.read_selected(sample.sample_index, lambda _name: True))
            _check_has_parts(copied)
            _check_unique_names(copied)
            return copied
        parts, media = _read_parts(source, request, unit, sample, shared, is_kept=is_kept, only=only)
        if not unit.stream:
            _check_has_parts(parts)
        if unit.stream == "primary" and request.image is not None:
            _check_labels_of_primary(source, request, spec, sample, parts, seen)
    except (StorageDown, LabelsCannotFollow):
        raise
    except WdsctlError as error:
        _note_failure(error, request, sample, failures, is_kept=False)
        return None
    try:
        converted = parts if is_kept else _transcode_parts(request, spec, parts, sample, seen)
        return _arrange_parts(request, unit, sample, converted, media)
    except LabelsCannotFollow as error:
        error.where = error.where or f"sample {sample.key}"
        raise
    except WdsctlError as error:
        keeps = request.on_error == "keep" and error.code == "WDS341"
        _note_failure(error, request, sample, failures, is_kept=keeps)
        return _arrange_parts(request, unit, sample, parts, media) if keeps else None


def _convert_used_parts(
    source: _OpenSource,
    spec: SourceSpec,
    request: ConvertRequest,
    unit: PlannedUnit,
    sample: PlannedSample,
    users: Sequence[tuple[str, int, str]],
    own_failures: Sequence[SampleFailure],
    failures: list[SampleFailure],
) -> list[AnyPart]:
    """The parts of a failed sample that other samples use, sorted by name, each by itself.

    A part that fails is a failure of all its users. `users`: (part, position of the user, its key).
    """
    written: dict[str, AnyPart] = {}
    failed = {sample.position}
    for name, using in groupby(sorted(users), key=itemgetter(0)):
        attempt: list[SampleFailure] = []
        parts = _convert_sample(
            source, spec, request, unit, sample, {}, attempt, is_kept=False, is_plain_copy=False, only=name
        )
        if parts and parts[0].name not in written:
            written[parts[0].name] = parts[0]
            continue
        for _, position, key in using:
            if position not in failed:
                failed.add(position)
                failures.append((attempt or own_failures)[0]._replace(position=position, key=key))
    return [written[name] for name in sorted(written)]


def _note_failure(
    error: WdsctlError,
    request: ConvertRequest,
    sample: PlannedSample,
    failures: list[SampleFailure],
    *,
    is_kept: bool,
) -> None:
    """Add a failure to the list. If `on_error` is `error`, raises the error instead, with the key of the sample."""
    if request.on_error == "error":
        error.where = f"sample {sample.key}" + (f", {error.where}" if error.where else "")
        raise error
    message = f"{error.where}: {error.message}" if error.where else error.message  # `where` may name the row of a table
    failures.append(SampleFailure(sample.position, sample.key, error.code, message, is_kept=is_kept, hint=error.hint))


def _read_parts(
    source: _OpenSource,
    request: ConvertRequest,
    unit: PlannedUnit,
    sample: PlannedSample,
    shared: Mapping[str, SharedPart],
    *,
    is_kept: bool,
    only: str = "",
) -> tuple[list[AnyPart], dict[str, str]]:
    """(the parts of this unit under their new names, part of the sample -> its entry in the media dataset)."""
    media: dict[str, str] = {}

    def written_name(name: str) -> str:
        new_name = renamed_part_name(request.parts, name) or name
        return new_name if is_kept else transcoded_name(new_name, request.image, request.audio)

    def is_selected(name: str) -> bool:
        new_name = renamed_part_name(request.parts, name)
        if new_name is None or (only and name != only):
            return False
        if not unit.stream:
            return True
        if not is_separated_part(new_name, request.media):
            return unit.stream == "primary"
        stored = shared.get(name)
        key, part = (sample.key, name) if stored is None else (stored.key, stored.part)
        media[written_name(name)] = f"{key}.{written_name(part)}"
        return unit.stream == "media" and stored is None

    found: tuple[AnyPart, ...]
    if source.detailed is not None:
        found = source.detailed.read_selected(sample.sample_index, is_selected)
    else:
        found = tuple(part for part in source.source.read(sample.sample_index) if is_selected(part.name))
    return [_rename_part(part, request.parts) for part in found], media


def _check_has_parts(parts: list[AnyPart]) -> None:
    """Raises DatasetError WDS232 for a sample without parts, so that the report counts it."""
    if not parts:
        raise DatasetError(
            "the sample has no part to write",
            hint="check the sample in the source: all its fields are empty",
            code="WDS232",
        )


def _check_unique_names(parts: list[AnyPart]) -> None:
    """Raises DatasetError WDS342 if two parts have the same name. `parts` must be sorted by name."""
    for one, other in pairwise(parts):
        if one.name == other.name:
            raise _duplicate_part_error(one.name)


def _rename_part(part: AnyPart, rules: PartRules) -> AnyPart:
    new_name = renamed_part_name(rules, part.name)
    if new_name is None or new_name == part.name:
        return part
    return Part(new_name, part.data) if isinstance(part, Part) else replace(part, name=new_name)


def _transcode_parts(
    request: ConvertRequest, spec: SourceSpec, parts: list[AnyPart], sample: PlannedSample, seen: SeenNumbers | None
) -> list[AnyPart]:
    """Re-encode the selected parts; what is drawn on pictures changes with them. Raises LabelsCannotFollow."""
    converted = [_transcode(request, part) for part in parts]
    if request.image is None or not _labels_follow(request):
        return converted
    from wdsctl.core.convert.transcode import picture_form

    forms = {
        new.name: (picture_form(old.data), picture_form(new.data))
        for old, new in zip(parts, converted, strict=True)
        if new is not old and is_selected_part(old.name, request.image) and new.data is not old.data
    }
    if not len(converted) > len(forms) > 0:
        return converted
    return follow_pictures(request, spec, forms, converted, sample=sample, seen=seen)


def _check_labels_of_primary(
    source: _OpenSource,
    request: ConvertRequest,
    spec: SourceSpec,
    sample: PlannedSample,
    parts: list[AnyPart],
    seen: SeenNumbers | None,
) -> None:
    """Raises LabelsCannotFollow if a sample has labels or maps of pictures that change in the media dataset."""
    image = request.image
    if image is None or not _labels_follow(request):
        return

    def is_picture(name: str) -> bool:
        new_name = renamed_part_name(request.parts, name)
        return new_name is not None and is_selected_part(new_name, image)

    @cache
    def changed_sizes() -> frozenset[tuple[int, int]]:
        from wdsctl.core.convert.transcode import changed_picture_sizes

        if source.detailed is not None:
            pictures = source.detailed.read_selected(sample.sample_index, is_picture)
        else:
            pictures = tuple(part for part in source.source.read(sample.sample_index) if is_picture(part.name))
        return frozenset(size for part in pictures for size in changed_picture_sizes(part.data, image))

    check_labels_apart(request, spec, parts, changed_sizes, sample=sample, seen=seen)


def _transcode(request: ConvertRequest, part: AnyPart) -> AnyPart:
    if not any(
        options is not None and is_selected_part(part.name, options) for options in (request.image, request.audio)
    ):
        return part  # its bytes are not read
    from wdsctl.core.convert.transcode import transcode_part

    return Part(*transcode_part(part.name, part.data, request.image, request.audio))


def _arrange_parts(
    request: ConvertRequest, unit: PlannedUnit, sample: PlannedSample, parts: list[AnyPart], media: Mapping[str, str]
) -> list[AnyPart]:
    """Sort the parts by name; for a primary, add the references to the media, or encode all as one line.

    Raises DatasetError WDS342 if two parts have the same name.
    """
    arranged = sorted(parts, key=lambda part: part.name)
    _check_unique_names(arranged)
    if unit.stream != "primary":
        return arranged
    if any(part.name == REFERENCES_PART for part in arranged):
        raise _duplicate_part_error(REFERENCES_PART)
    if request.primary == "jsonl":
        return [Part("json", encode_line(sample.key, arranged, media))]
    return sorted([*arranged, make_references_part(media)], key=lambda part: part.name)


def _duplicate_part_error(name: str) -> DatasetError:
    return DatasetError(
        f"two parts of the sample would get the name {name}",
        hint="rename one of the parts: `--rename-part OLD=NEW`",
        code="WDS342",
    )


class _OpenSource(NamedTuple):
    """An open source. `detailed`: the same source if it lists parts; checking this for every sample would be slow."""

    source: Source
    detailed: DetailedSource | None


@lru_cache(maxsize=64)
def _open_source(spec: SourceSpec) -> _OpenSource:
    """Open a source once per process: all units share its file descriptors and mapped files."""
    source = importers.open_source(spec.importer, spec.path, dict(spec.options))
    return _OpenSource(source, source if isinstance(source, DetailedSource) else None)


def close_sources() -> None:
    """Close the sources of this process, which continues to run if the units had no workers."""
    _open_source.cache_clear()


def _exporter_for(request: ConvertRequest, unit: PlannedUnit) -> Exporter:
    if unit.stream == "primary" and request.primary == "jsonl":
        from wdsctl.core.convert.exporters.jsonl_dataset import EXPORTER

        return EXPORTER
    return exporters.get_exporter(request.target if unit.stream != "primary" else "shards")
