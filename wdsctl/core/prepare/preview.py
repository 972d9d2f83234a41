"""Detect the sample type before `prepare` writes anything, by indexing a few samples in a temporary folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from tempfile import TemporaryDirectory
from typing import NamedTuple

from wdsctl.core import importers
from wdsctl.core.convert.exporters.shards import EXPORTER
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.dataset.root_spec import ALL_SHARDS, ShardSelection
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.errors import WdsctlError, translate_os_errors
from wdsctl.core.importers.protocol import DescribedSource, DetailedSource, Part, Source, SourceDescription
from wdsctl.core.index.index import IndexRequest, index_locked
from wdsctl.core.index.write_dataset_yaml import detect_dataset_type
from wdsctl.core.prepare.checks import conversion_request, survey_source
from wdsctl.core.prepare.plan import sample_size_bytes
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.source import SourceForm
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.safe_open import open_below
from wdsctl.core.samples.detect import Detection
from wdsctl.core.samples.naming import RawSample
from wdsctl.core.shards.list import list_shards
from wdsctl.core.shards.write import write_shard
from wdsctl.core.urls import is_url

MAX_PREVIEW_SAMPLES = 64  # from a raw folder
MAX_PREVIEW_BYTES = 256 << 20  # all samples together, unless the smallest one is larger
JSONL_HEAD_BYTES = 4 << 20


class FormatPreview(NamedTuple):
    """What the first samples of a source show. `detection`: None if its format defines the sample type."""

    description: SourceDescription
    split_names: tuple[str, ...]
    detection: Detection | None


def preview_format(source: str, form: SourceForm, request: PrepareRequest) -> FormatPreview:
    """Describe a source that an importer reads, and detect the sample type from its first samples.

    Cost: opens the source, and copies at most 64 samples to the temporary folder. Raises what the importer raises.
    """
    options = dict(conversion_request(form, request).format_options)
    with importers.open_source(form.name, source, options) as opened:
        about = opened.describe() if isinstance(opened, DescribedSource) else SourceDescription()
        split_names = opened.split_names if isinstance(opened, DetailedSource) else ()
        if about.config is not None or request.sample_type:
            return FormatPreview(about, split_names, None)
        with TemporaryDirectory(prefix="wdsctl-") as temporary:
            root = os.path.join(os.path.realpath(temporary), "shards")
            os.makedirs(root)
            EXPORTER.write(os.path.join(root, "some.tar"), _read_first_samples(opened), {})
            return FormatPreview(about, split_names, _detect(locate(root, writing=True), IndexRequest()))


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
    """Index and look. The names of one shard are not enough to judge the keys: `prepare` checks those of all shards."""
    with hold_lock(location.lock):
        report = index_locked(location, replace(request, skip_key_checks=True), SILENT_PROGRESS)
    return detect_dataset_type(location, report.generation) if report.samples else None


def preview_sample_type(
    source: str, dest: str | None, request: PrepareRequest, *, progress: Progress = SILENT_PROGRESS
) -> Detection | None:
    """Detect the sample type from a few samples, as `prepare` would; None if there are no samples.

    Raises what `prepare` raises for a source that it cannot read. Cost: a listing of the source, and the headers of one
    tar, the first 4 MiB of one JSONL file, or a copy of at most 64 raw samples in the temporary folder.
    """
    with TemporaryDirectory(prefix="wdsctl-") as temporary:
        folder = os.path.realpath(temporary)
        if dest is not None and request.index.selection is None:
            some: tuple[DatasetLocation, IndexRequest] | None = _pack_raw_samples(
                source, dest, folder, request, progress
            )
        else:
            some = _choose_shard(source, folder, request)
        if some is None:
            return None
        return _detect(*some)


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
