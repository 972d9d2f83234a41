"""The samples of traced batches as raw files: every part of each, as the shards have it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import BinaryIO

from wdsctl.core.errors import PermissionDenied, StorageError, UsageError
from wdsctl.core.files import make_folder, write_whole
from wdsctl.core.folders import resolved
from wdsctl.core.storage import Range, Storage
from wdsctl.core.stores import storage_for
from wdsctl.core.trace import SourceFacts, TracedBatch
from wdsctl.core.trace.datasets import TracedDataset, TracedDatasets
from wdsctl.core.verbs.trace_samples import BatchLine, Lines, SampleLine

Sample = tuple["SourceFacts | None", SampleLine]  # None: it has no restore key

_PIECE = 64 << 20  # bytes read at once
_KEY_BYTES = 120  # of a key in a file's name: file systems allow 255 bytes, and the part's name follows


@dataclass(frozen=True, slots=True)
class _Target:
    """A part of sample `line`, and the file that it goes into."""

    line: SampleLine
    dataset: TracedDataset
    source: Range
    path: str


def samples_of(batch: TracedBatch, line: BatchLine) -> Iterator[Sample]:
    """The samples of a batch with the datasets they are from."""
    sources = {source.number: source for source in batch.run.sources}
    for number, sample in zip(batch.origins[:, 0].tolist(), line.samples, strict=True):
        yield sources.get(number), sample


def write_samples(out: str, samples: Sequence[Sample], lines: Lines, *, overwrite: bool) -> tuple[str, ...]:
    """Write these samples into the folder `out` as NUMBER-KEY.PART, numbered in their order.

    Each file is there whole or not at all. What cannot be read is a finding of `lines`. Returns the files' names.
    Raises UsageError, and writes nothing, where `out` is a file, or one is there already and not to be overwritten.
    """
    if os.path.lexists(out) and not os.path.isdir(out):
        raise UsageError("--out is a file", where=out, hint="give a folder, which may be new")
    targets = list(_targets(out, samples, lines.datasets))
    there = [target.path for target in targets if os.path.lexists(target.path)]
    if there and not overwrite:
        raise UsageError(
            f"{len(there):,} of the files are there already",
            where=there[0],
            hint="give another folder to --out, or say --yes to write over them",
        )
    make_folder(os.path.realpath(out))
    storages: dict[int, Storage] = {}
    try:
        for target in targets:
            if id(target.dataset) not in storages:
                storages[id(target.dataset)] = _storage(target.dataset, targets)
        return tuple(_written(targets, storages, lines))
    finally:
        for storage in storages.values():
            storage.close()


def _targets(out: str, samples: Sequence[Sample], datasets: TracedDatasets) -> Iterator[_Target]:
    digits = max(3, len(str(len(samples) - 1)))
    for number, (source, line) in enumerate(samples):
        dataset = None if source is None else datasets.open(source)
        if not isinstance(dataset, TracedDataset) or line.key is None or line.shard is None:
            continue
        path = os.path.join(dataset.place.root, line.shard)
        # Of a part that a sample has twice, the last counts.
        for part in {part.name: part for part in line.parts}.values():
            name = f"{number:0{digits}d}-{_as_name(line.key)}.{part.name.replace('/', '_')}"
            yield _Target(line, dataset, Range(path, part.offset, part.size_bytes), os.path.join(out, name))


def _storage(dataset: TracedDataset, targets: Sequence[_Target]) -> Storage:
    """The storage of a dataset, told of what will be read. It refuses shards of other sizes than they had."""
    storage = storage_for(dataset.place.root, dataset.sizes)
    storage.will_need(target.source for target in targets if target.dataset is dataset)
    return storage


def _written(targets: Sequence[_Target], storages: dict[int, Storage], lines: Lines) -> Iterator[str]:
    for target in targets:
        storage, (path, offset, size) = storages[id(target.dataset)], target.source
        try:
            first = storage.read(path, offset, min(size, _PIECE))
        except (StorageError, PermissionDenied) as error:
            lines.note(target.line.dataset, error.code, f"{error.message} ({target.line.shard})", target.line.key or "")
            continue
        rest = (Range(path, offset + at, min(_PIECE, size - at)) for at in range(_PIECE, size, _PIECE))
        pieces = chain((first,), (storage.read(*piece) for piece in rest))
        write_whole(resolved(target.path), partial(_fill, pieces), durable=False)
        yield os.path.basename(target.path)


def _fill(pieces: Iterable[bytes], file: BinaryIO) -> None:
    file.writelines(pieces)


def _as_name(key: str) -> str:
    """A key as part of a file's name: its folders by `_`, and not too long."""
    name = key.replace("/", "_").replace("\0", "_").encode("utf-8", "surrogateescape")
    return name[:_KEY_BYTES].decode("utf-8", "ignore" if len(name) > _KEY_BYTES else "surrogateescape")
