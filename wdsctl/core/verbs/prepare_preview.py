"""What samples look like before anything is made of them: a few are indexed in a temporary folder, for `prepare`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from tempfile import TemporaryDirectory

from wdsctl.core.detect import Detection
from wdsctl.core.line_files import is_lines
from wdsctl.core.lock import locked
from wdsctl.core.os_errors import translated
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.raw_sample import RawSample
from wdsctl.core.selected_shards import EVERYTHING, Selection
from wdsctl.core.shard_list import list_shards
from wdsctl.core.shard_writer import write_shard
from wdsctl.core.urls import is_url
from wdsctl.core.verbs.describe import detected
from wdsctl.core.verbs.index import IndexRequest, index_at
from wdsctl.core.verbs.prepare import PrepareOptions, surveyed
from wdsctl.core.write_plan import sample_bytes

SAMPLES = 64  # of a raw folder that are looked at
SAMPLE_BYTES = 256 << 20  # of them, at most so much unless the first has more
HEAD_BYTES = 4 << 20  # of a file of lines


def preview(source: str, dest: str | None, options: PrepareOptions, *, progress: Progress = SILENT) -> Detection | None:
    """The sample type that `prepare` would find, by some samples. Writes nothing that stays; None without samples.

    Raises what `prepare` raises of a source that it cannot read. Cost: a listing, and one shard's headers, the first
    lines of a file, or a copy of a few raw samples in the temporary folder.
    """
    with TemporaryDirectory(prefix="wdsctl-") as made:
        folder = os.path.realpath(made)
        if dest is not None and options.selection is None:
            some: tuple[Place, IndexRequest] | None = _of_files(source, dest, folder, options, progress)
        else:
            some = _of_shards(source, folder, options)
        if some is None:
            return None
        place, request = some
        with locked(place.lock):
            report = index_at(place, request, SILENT)
        return detected(place, report.generation) if report.samples else None


def _of_files(
    source: str, dest: str, folder: str, options: PrepareOptions, progress: Progress
) -> tuple[Place, IndexRequest]:
    listing = surveyed(source, dest, options, progress)
    root = os.path.join(folder, "shards")
    write_shard(os.path.join(root, "some.tar"), source, _some(listing.samples))
    return locate(root, writing=True), IndexRequest(is_ours=True)


def _of_shards(source: str, folder: str, options: PrepareOptions) -> tuple[Place, IndexRequest] | None:
    there = locate(source, options.catalog)
    selection = options.selection or EVERYTHING
    listing = list_shards(there.root, options.exclude, only=there.only, selection=selection)
    shard = max(listing.shards[:SAMPLES], key=lambda each: each.size > 0, default=None)
    if shard is None:
        return None
    # Whether the keys look right, all names tell, and not those of one shard.
    request = IndexRequest(key=options.key, exclude=options.exclude, is_ours=True)
    if is_lines(shard.path) and not is_url(there.root):
        root = os.path.join(folder, "lines")
        _copy_head(os.path.join(there.root, shard.path), os.path.join(root, os.path.basename(shard.path)))
        return locate(root, writing=True), replace(request, exclude=())
    if there.only:
        return locate(source, os.path.join(folder, "catalog"), writing=True), request
    return (
        locate(source, os.path.join(folder, "catalog"), writing=True),
        replace(request, selection=Selection(names=(shard.path,))),
    )


def _some(samples: Sequence[RawSample]) -> list[RawSample]:
    """Some from all over the folder, the smallest first as long as there is room."""
    step = max(1, len(samples) // SAMPLES)
    ordered = sorted(samples[::step][:SAMPLES], key=sample_bytes)
    some, size = ordered[:1], sum(map(sample_bytes, ordered[:1]))
    for sample in ordered[1:]:
        size += sample_bytes(sample)
        if size > SAMPLE_BYTES:
            break
        some.append(sample)
    return sorted(some)


def _copy_head(path: str, copy: str) -> None:
    """The first lines of a file; all of it where it is small."""
    with translated(path, "read"), open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
        is_whole = not file.read(1)
    if not is_whole:
        head = head[: head.rfind(b"\n") + 1] or head
    os.makedirs(os.path.dirname(copy))
    with translated(copy), open(copy, "wb") as file:
        file.write(head)
