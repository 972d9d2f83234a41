"""Resolve the samples of traced batches to keys and bytes, and write them as raw files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from wdsctl.core.directories import resolve_parent
from wdsctl.core.errors import Finding, PermissionDenied, Severity, StorageError, UsageError, WdsctlError
from wdsctl.core.files import make_folder, write_pieces
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import FileRange, Storage
from wdsctl.core.trace import SourceFacts, TracedBatch
from wdsctl.core.trace.datasets import LocatedSample, TracedDataset, TracedDatasets, TracedPart

NO_RESTORE_KEY = "(no restore key)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedSample:
    """A sample of a batch. `restore_key`: (source, pass, id), and the step if a generator made the sample.

    A ban list accepts `restore_key` unchanged. `offset` and `size_bytes` span the parts from the first byte to the
    last. If the dataset or the shard is gone, `key` and the fields after it are None or empty.
    """

    dataset: str
    restore_key: tuple[int, ...]
    key: str | None = None
    shard: str | None = None
    layout_hash: str | None = None
    offset: int | None = None
    size_bytes: int | None = None
    parts: tuple[TracedPart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedBatchSamples:
    step: int
    number: int  # within the whole job
    rank: int
    world: int
    pass_number: int
    started: int  # start of its run, in microseconds since 1970
    samples: tuple[TracedSample, ...]


class SampleResolver:
    """Resolves samples. `findings` has one finding per dataset and kind for samples that it cannot resolve."""

    def __init__(self, datasets: TracedDatasets) -> None:
        self.datasets = datasets
        self._findings: dict[tuple[str, str], Finding] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self._findings.values())

    def resolve_batch(self, batch: TracedBatch) -> TracedBatchSamples:
        sources = batch.sources
        return TracedBatchSamples(
            step=batch.step,
            number=batch.number,
            rank=batch.run.rank,
            world=batch.run.world,
            pass_number=batch.pass_number,
            started=batch.run.started,
            samples=tuple(
                self._resolve_sample(sources.get(key[0]), key)
                for key in map(batch.restore_key, range(len(batch.origins)))
            ),
        )

    def locate(self, source: SourceFacts, sample_id: int) -> LocatedSample | None:
        """Find the sample; None, and a finding, if it no longer exists."""
        dataset = self.open_dataset(source)
        located = None if dataset is None else dataset.locate(sample_id)
        if dataset is not None and located is None:
            self.add_finding(
                source.root, "WDS543", f"its shard {sample_id >> 28} was removed or has changed since the run"
            )
        return located

    def open_dataset(self, source: SourceFacts) -> TracedDataset | None:
        opened = self.datasets.open(source)
        if isinstance(opened, WdsctlError):
            self.add_finding(source.root, opened.code, f"{opened.message}; {opened.hint}")
            return None
        if opened.has_other_samples:
            self.add_finding(
                source.root,
                "WDS544",
                f"the split {source.split!r} has changed since the run: the result is right if only the split "
                "changed, and wrong if the catalog was rebuilt",
                is_error=False,
            )
        return opened

    def add_finding(self, where: str, code: str, message: str, key: str = "", *, is_error: bool = True) -> None:
        """Count one more sample with this problem."""
        before = self._findings.get((where, message))
        severity: Severity = "error" if is_error else "warning"
        self._findings[where, message] = (
            replace(before, count=before.count + 1)
            if before is not None
            else Finding(code=code, severity=severity, message=message, shard=where, key=key)
        )

    def _resolve_sample(self, source: SourceFacts | None, restore_key: tuple[int, ...]) -> TracedSample:
        if source is None:
            return TracedSample(dataset=NO_RESTORE_KEY, restore_key=())
        located = self.locate(source, restore_key[2])
        if located is None:
            return TracedSample(dataset=source.root, restore_key=restore_key)
        start = min((part.offset for part in located.parts), default=0)
        stop = max((part.offset + part.size_bytes for part in located.parts), default=0)
        return TracedSample(
            dataset=source.root,
            restore_key=restore_key,
            key=located.key,
            shard=located.shard.path,
            layout_hash=located.shard.layout_hash,
            offset=start,
            size_bytes=stop - start,
            parts=located.parts,
        )


SampleWithSource = tuple["SourceFacts | None", TracedSample]  # None without a restore key

_READ_BYTES = 64 << 20  # bytes per read
_MAX_NAME_KEY_BYTES = 120  # limit for the key in a file name: file systems allow 255 bytes, and the part's name follows


@dataclass(frozen=True, slots=True)
class _PartFile:
    """A part of sample `line`, and the file that it is written to."""

    sample: TracedSample
    dataset: TracedDataset
    byte_range: FileRange
    path: str


def pair_with_sources(batch: TracedBatch, batch_samples: TracedBatchSamples) -> Iterator[SampleWithSource]:
    """Pair the samples of a batch with their datasets."""
    numbers = batch.origins[:, 0].tolist()
    yield from zip(map(batch.sources.get, numbers), batch_samples.samples, strict=True)


def write_numbered_samples(
    out: str, samples: Sequence[SampleWithSource], resolver: SampleResolver, *, overwrite: bool
) -> tuple[str, ...]:
    """Write samples into the folder `out` as NUMBER-KEY.PART, numbered in order.

    Writes each file atomically, and returns the names of the files. Parts that cannot be read are findings of
    `resolver`. If `out` is a file, or a file exists and `overwrite` is not set, raises UsageError and writes nothing.
    """
    if os.path.lexists(out) and not os.path.isdir(out):
        raise UsageError("--out is a file", where=out, hint="pass a folder; wdsctl creates a missing one")
    targets = list(_plan_part_files(out, samples, resolver.datasets))
    there = [target.path for target in targets if os.path.lexists(target.path)]
    if there and not overwrite:
        raise UsageError(
            f"{len(there):,} of the output files exist",
            where=there[0],
            hint="pass another folder to --out, or pass --yes to overwrite the files",
        )
    make_folder(os.path.realpath(out))
    storages: dict[int, Storage] = {}
    try:
        for target in targets:
            dataset = target.dataset
            if id(dataset) not in storages:
                # Refuses shards whose size has changed.
                storage = storages[id(dataset)] = storage_for(dataset.location.root, dataset.sizes)
                storage.will_need(each.byte_range for each in targets if each.dataset is dataset)
        return tuple(_write_part_files(targets, storages, resolver))
    finally:
        for storage in storages.values():
            storage.close()


def _plan_part_files(out: str, samples: Sequence[SampleWithSource], datasets: TracedDatasets) -> Iterator[_PartFile]:
    digits = max(3, len(str(len(samples) - 1)))
    for number, (source, line) in enumerate(samples):
        dataset = None if source is None else datasets.open(source)
        if not isinstance(dataset, TracedDataset) or line.key is None or line.shard is None:
            continue
        path = os.path.join(dataset.location.root, line.shard)
        # If a sample has a part twice, the last one counts.
        for part in {part.name: part for part in line.parts}.values():
            name = f"{number:0{digits}d}-{_as_name(line.key)}.{part.name.replace('/', '_')}"
            yield _PartFile(line, dataset, FileRange(path, part.offset, part.size_bytes), os.path.join(out, name))


def _write_part_files(
    part_files: Sequence[_PartFile], storages: dict[int, Storage], resolver: SampleResolver
) -> Iterator[str]:
    for target in part_files:
        storage, (path, offset, size) = storages[id(target.dataset)], target.byte_range
        try:
            first = storage.read(path, offset, min(size, _READ_BYTES))
        except (StorageError, PermissionDenied) as error:
            resolver.add_finding(
                target.sample.dataset, error.code, f"{error.message} ({target.sample.shard})", target.sample.key or ""
            )
            continue
        rest = (
            FileRange(path, offset + at, min(_READ_BYTES, size - at)) for at in range(_READ_BYTES, size, _READ_BYTES)
        )
        pieces = chain((first,), (storage.read(*piece) for piece in rest))
        write_pieces(resolve_parent(target.path), pieces, durable=False)
        yield os.path.basename(target.path)


def _as_name(key: str) -> str:
    """Turn a key into a part of a file name: with `_` for `/`, and shortened."""
    name = key.replace("/", "_").replace("\0", "_").encode("utf-8", "surrogateescape")
    return name[:_MAX_NAME_KEY_BYTES].decode(
        "utf-8", "ignore" if len(name) > _MAX_NAME_KEY_BYTES else "surrogateescape"
    )
