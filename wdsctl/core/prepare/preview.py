"""Detect the sample type before `prepare` writes anything, by indexing a few samples in a temporary folder."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from tempfile import TemporaryDirectory
from typing import NamedTuple

from wdsctl.core import importers
from wdsctl.core.convert.exporters.shards import EXPORTER
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.dataset.raw_folder import RawListing
from wdsctl.core.dataset.root_spec import ALL_SHARDS, ShardSelection
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.errors import WdsctlError, translate_os_errors
from wdsctl.core.importers.protocol import DescribedSource, DetailedSource, Part, Source, SourceDescription
from wdsctl.core.index.index import IndexRequest, index_locked
from wdsctl.core.index.write_dataset_yaml import SampleTypeRequest, detect_dataset_type, resolve_sample_type
from wdsctl.core.media.kinds import MEDIA_KINDS, part_kind
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.prepare.checks import conversion_request, survey_source
from wdsctl.core.prepare.examples import ExampleSample, read_examples
from wdsctl.core.prepare.plan import sample_size_bytes
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.source import SourceFormat
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.safe_open import open_below
from wdsctl.core.samples.detect import Detection
from wdsctl.core.samples.field_map import parse_field_map
from wdsctl.core.samples.naming import RawSample
from wdsctl.core.shards.list import list_shards
from wdsctl.core.shards.write import write_shard
from wdsctl.core.urls import is_url

MAX_PREVIEW_SAMPLES = 64  # from a raw folder
MAX_PREVIEW_BYTES = 256 << 20  # all samples together, unless the smallest one is larger
JSONL_HEAD_BYTES = 4 << 20


class SamplesPreview(NamedTuple):
    """What the first samples show: their type and fields, and some of them. `detection`: None if their format defines
    the type.
    """

    sample_type: str
    field_map: dict[str, str]
    detection: Detection | None
    examples: tuple[ExampleSample, ...]


class FormatPreview(NamedTuple):
    """What a source shows that an importer reads. `samples`: None if it has none that can be read."""

    description: SourceDescription
    split_names: tuple[str, ...]
    samples: SamplesPreview | None


def preview_format(source: str, form: SourceFormat, request: PrepareRequest) -> FormatPreview:
    """Describe a source that an importer reads, and detect the sample type from its first samples.

    Cost: opens the source, and copies at most 64 samples to the temporary folder. Raises what the importer raises.
    """
    options = dict(conversion_request(form, request).format_options)
    with importers.open_source(form.name, source, options) as opened:
        about = opened.describe() if isinstance(opened, DescribedSource) else SourceDescription()
        split_names = opened.split_names if isinstance(opened, DetailedSource) else ()
        with TemporaryDirectory(prefix="wdsctl-") as temporary:
            root = os.path.join(os.path.realpath(temporary), "shards")
            os.makedirs(root)
            EXPORTER.write(os.path.join(root, "some.tar"), _read_first_samples(opened), {})
            there = locate(root, writing=True)
            return FormatPreview(about, split_names, _preview(there, IndexRequest(), request, about.config))


def check_fields_of_format(source: str, form: SourceFormat, request: PrepareRequest) -> None:
    """Raise UsageError WDS220 or WDS221 if the sample type or field map of the request cannot fit the source.

    The conversion comes after this. Parts that only later samples may have count as there. Cost: opens the source, and
    copies at most 64 samples to the temporary folder; a listing, if a mapped part is not in these.
    """
    if not (request.sample_type or request.field_map):
        return
    options = dict(conversion_request(form, request).format_options)
    with (
        importers.get_importer(form.name).open(source, options) as opened,
        TemporaryDirectory(prefix="wdsctl-") as temporary,
    ):
        root = os.path.join(os.path.realpath(temporary), "shards")
        os.makedirs(root)
        EXPORTER.write(os.path.join(root, "some.tar"), _read_first_samples(opened), {})
        found = _detect(locate(root, writing=True), IndexRequest())
        if found is not None:
            about = opened.describe() if isinstance(opened, DescribedSource) else SourceDescription()
            names = found.kinds.keys() | _later_parts(opened, about, found, request)
            check_fields(replace(found, json_keys=_all_json_keys(about, found)), request, names)


def check_fields(found: Detection, request: PrepareRequest, names: Collection[str]) -> None:
    """Raise UsageError if the sample type or field map of the request does not fit; `names`: all parts there may be.

    A detection from a few samples decides nothing that the request leaves open, unless it is sure.
    """
    if (request.sample_type and request.field_map) or found.is_sure:
        resolve_sample_type(found, SampleTypeRequest(request.sample_type, request.field_map), sorted(names))


def _later_parts(opened: Source, about: SourceDescription, found: Detection, request: PrepareRequest) -> set[str]:
    """The parts that samples after the first ones have, or may have: of media, rows name files of any extension."""
    paths = parse_field_map(request.field_map, where="--field-map").values()
    mapped = {access.part for path in paths for access in path.alternatives}
    if mapped <= found.kinds.keys():
        return set()
    if isinstance(opened, DetailedSource):
        return {name for listing in opened.list_samples() for name, _ in listing.parts}
    described = {name.partition("[")[0] for name in _holders(about)}
    known = described | found.kinds.keys()
    if any("*" in name or "..." in name for name in described):
        return mapped
    kinds = {part_kind(name) for name in known} & MEDIA_KINDS
    return known | {name for name in mapped if part_kind(name) in kinds}


def _all_json_keys(about: SourceDescription, found: Detection) -> dict[str, tuple[str, ...]]:
    """The keys of the part `json`, if the description has those of all samples; otherwise nothing."""
    steps = [name[len("json[") : -1] for name in _holders(about) if name.startswith("json[") and name.endswith("]")]
    if not steps or "..." in steps:
        return {}
    return {"json": tuple(dict.fromkeys((*found.json_keys.get("json", ()), *steps)))}


def _holders(about: SourceDescription) -> list[str]:
    """What holds the fields of a source in its samples, such as `jpg` and `json[caption]`."""
    return [name for use in about.field_uses for name in use.becomes.split(", ")]


def check_fields_of_folder(source: str, listing: RawListing, request: PrepareRequest) -> None:
    """As `check_fields_of_format`, for a raw folder. Cost: copies at most 64 samples to the temporary folder."""
    if not (request.sample_type or request.field_map) or not listing.samples:
        return
    with TemporaryDirectory(prefix="wdsctl-") as temporary:
        root = os.path.join(os.path.realpath(temporary), "shards")
        write_shard(os.path.join(root, "some.tar"), source, _choose_raw_samples(listing.samples))
        found = _detect(locate(root, writing=True), IndexRequest())
    if found is not None:
        names = {part.name for sample in listing.samples for part in sample.parts}
        check_fields(replace(found, json_keys={}), request, names)


def _read_first_samples(opened: Source) -> Iterator[tuple[str, Iterator[Part]]]:
    """Yield the first samples that can be read, up to the limits."""
    size = 0
    for number, entry in enumerate(islice(opened.entries(), MAX_PREVIEW_SAMPLES)):
        size += entry.size_bytes
        if number and size > MAX_PREVIEW_BYTES:
            return
        with suppress(WdsctlError):  # `prepare` reports samples that cannot be read
            yield entry.key, iter(opened.read(number))


def _detect(location: DatasetLocation, request: IndexRequest) -> Detection | None:
    with OpenDataset(location) as dataset:
        generation = _index_some(dataset, request)
        return detect_dataset_type(dataset, generation) if generation else None


def _index_some(dataset: OpenDataset, request: IndexRequest) -> int:
    """Index, and return the generation; 0 without samples. The names of one shard are not enough to judge the keys:
    `prepare` checks those of all shards.
    """
    with hold_lock(dataset.location.lock):
        report = index_locked(dataset, replace(request, skip_key_checks=True), SILENT_PROGRESS)
    return report.generation if report.samples else 0


def _preview(
    location: DatasetLocation, index_request: IndexRequest, request: PrepareRequest, config: DatasetConfig | None = None
) -> SamplesPreview | None:
    """`config`: of a format that defines the type, which only the request overrides."""
    with OpenDataset(location) as dataset:
        generation = _index_some(dataset, index_request)
        if not generation:
            return None
        is_defined = config is not None and not (request.sample_type or request.field_map)
        found = None if is_defined else detect_dataset_type(dataset, generation)
        likely = found or config or DatasetConfig()
        sample_type = request.sample_type or likely.sample_type
        field_map = dict(request.field_map or (likely.field_map if sample_type == likely.sample_type else {}))
        return SamplesPreview(
            sample_type, field_map, found, read_examples(location, generation, sample_type, field_map)
        )


def preview_samples(
    source: str,
    dest: str | None,
    request: PrepareRequest,
    *,
    config: DatasetConfig | None = None,
    progress: Progress = SILENT_PROGRESS,
) -> SamplesPreview | None:
    """The sample type of a few samples as `prepare` would detect it, and some of them; None if there are no samples.
    `config`: of the dataset, if it has one.

    Raises what `prepare` raises for a source that it cannot read. Cost: a listing of the source, and the headers of one
    tar, the first 4 MiB of one JSONL file, or a copy of at most 64 raw samples in the temporary folder.
    """
    with TemporaryDirectory(prefix="wdsctl-") as temporary:
        folder = os.path.realpath(temporary)
        if dest is not None and request.index.selection is None:
            return _preview(*_pack_raw_samples(source, dest, folder, request, progress), request)
        some = _choose_shard(source, folder, request)
        return None if some is None else _preview(*some, request, config)


def _pack_raw_samples(
    source: str, dest: str, folder: str, request: PrepareRequest, progress: Progress
) -> tuple[DatasetLocation, IndexRequest]:
    listing = survey_source(source, dest, request, progress)
    root = os.path.join(folder, "shards")
    write_shard(os.path.join(root, "some.tar"), source, _choose_raw_samples(listing.samples))
    return locate(root, writing=True), IndexRequest()


def _choose_shard(source: str, folder: str, request: PrepareRequest) -> tuple[DatasetLocation, IndexRequest] | None:
    there = locate(source, request.catalog)
    selection = request.index.selection or ALL_SHARDS
    listing = list_shards(there.root, request.index.exclude or (), only=there.single_file, selection=selection)
    shard = max(listing.shards[:MAX_PREVIEW_SAMPLES], key=lambda each: each.size > 0, default=None)
    if shard is None:
        return None
    index_request = IndexRequest(key=request.index.key, exclude=request.index.exclude)
    if is_jsonl_name(shard.path) and not is_url(there.root):
        root = os.path.join(folder, "lines")
        _copy_head(there.root, shard.path, os.path.join(root, os.path.basename(shard.path)))
        return locate(root, writing=True), replace(index_request, exclude=())
    if there.single_file:
        return locate(source, os.path.join(folder, "catalog"), writing=True), index_request
    return (
        locate(source, os.path.join(folder, "catalog"), writing=True),
        replace(index_request, selection=ShardSelection(names=(shard.path,))),
    )


def _choose_raw_samples(samples: Sequence[RawSample]) -> list[RawSample]:
    """Choose samples spread over the folder, taking small ones first, up to the limits."""
    step = max(1, len(samples) // MAX_PREVIEW_SAMPLES)
    ordered = sorted(samples[::step][:MAX_PREVIEW_SAMPLES], key=sample_size_bytes)
    some, size = ordered[:1], sum(map(sample_size_bytes, ordered[:1]))
    for sample in ordered[1:]:
        size += sample_size_bytes(sample)
        if size > MAX_PREVIEW_BYTES:
            break
        some.append(sample)
    return sorted(some)


def _copy_head(root: str, shard: str, copy: str) -> None:
    """Copy the whole lines within the first JSONL_HEAD_BYTES of a shard."""
    path = os.path.join(root, shard)
    with translate_os_errors(path, "read"), open_below(path, root) as file:
        head = file.read(JSONL_HEAD_BYTES)
        is_truncated = bool(file.read(1))
    if is_truncated:
        head = head[: head.rfind(b"\n") + 1] or head
    os.makedirs(os.path.dirname(copy))
    with translate_os_errors(copy), open(copy, "xb") as file:
        file.write(head)
