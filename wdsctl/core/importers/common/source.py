"""A source that reads its samples in order, and can start at any of them.

Checkpoints, one for every 64 rows of the files, let a reader start near any row.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from types import TracebackType
from typing import NamedTuple, Protocol

from wdsctl.core.errors import DatasetError, InputError, StorageError, WdsctlError, translate_os_errors
from wdsctl.core.importers.common.row_splits import split_of_row
from wdsctl.core.importers.common.samples import RowMapping, RowPart, SourceRow, SourceSample, row_to_sample
from wdsctl.core.importers.common.survey import RowSurvey, SurveyBuilder, contains, hash_text
from wdsctl.core.importers.protocol import (
    FilePart,
    Part,
    SampleListing,
    SourceDescription,
    SourceEntry,
    file_identity,
)
from wdsctl.core.storage import source_files
from wdsctl.core.storage.storage import FileRange, LocalStorage
from wdsctl.core.text import path_for_message

_MAX_SKIPPED_SAMPLES = 256  # to skip more samples, open a new iterator

LARGE_PART_BYTES = 64 << 20  # parts of this size and more are copied as ranges, not held in memory


class RowSamples(Protocol):
    """Yields the samples of a format, without reading the files that their parts name."""

    def samples(self, start: int) -> Iterator[SourceSample]:
        """The samples from index `start` to the end."""

    def digest(self) -> bytes:
        """See `Source.digest`."""

    def close(self) -> None: ...


class RowReader(Protocol):
    """Yields the rows of a source, from any row on."""

    def rows(self, start: int) -> Iterator[SourceRow]:
        """The rows from number `start` to the end."""

    def files(self) -> Iterable[str]:
        """The files whose sizes and modification times show whether the rows have changed."""

    def close(self) -> None: ...


class RowSampleReader:
    """Makes one sample of each row, as the mapping says.

    Keys that come from file names are unique after `survey`: if several rows would have one key, each gets the number
    of its row too.
    """

    def __init__(self, rows: RowReader, mapping: RowMapping) -> None:
        self._rows = rows
        self._mapping = mapping
        self._survey: tuple[RowSurvey, bytes] | None = None

    def samples(self, start: int) -> Iterator[SourceSample]:
        repeated = self._survey[0].repeated_keys if self._survey and self._mapping.key == ":stem" else None
        for row in self._rows.rows(start):
            sample = row_to_sample(row, self._mapping)
            if repeated and sample.fault is None and contains(repeated, hash_text(sample.key)):
                sample = sample._replace(key=f"{sample.key}-{row.number:09d}")
            split = split_of_row(row.values, self._mapping) if self._mapping.split else row.split
            yield sample._replace(split=split) if split else sample

    def digest(self) -> bytes:
        return digest_of_files(self._rows.files())

    def survey(self) -> RowSurvey:
        """What all rows name. Cost: the first call reads all rows."""
        return self._surveyed()[0]

    def references_digest(self) -> bytes:
        """16 bytes that depend on the files that rows name: which exist, their sizes and times. Cost: as `survey`."""
        return self._surveyed()[1]

    def _surveyed(self) -> tuple[RowSurvey, bytes]:
        if self._survey is None:
            digest = blake2b(digest_size=16)
            builder = SurveyBuilder(self._mapping)
            for row in self._rows.rows(0):
                sample = row_to_sample(row, self._mapping)
                builder.add(row, sample)
                digest.update(b"\0" if sample.fault is None else sample.fault.code.encode())
                for piece in sample.parts:
                    if isinstance(piece, FilePart):
                        digest.update(_file_state(piece.path))
            self._survey = builder.finish(), digest.digest()
        return self._survey

    def close(self) -> None:
        self._rows.close()


def make_row_source(
    rows: RowReader,
    mapping: RowMapping,
    splits: Iterable[str] = (),
    *,
    has_file_references: bool = False,
    describe: Callable[[], SourceDescription] = SourceDescription,
) -> RowSource:
    """Make a source whose samples are rows.

    `splits`: the splits that a row may be in. `has_file_references`: whether rows name files; the digest then covers
    these files too. `describe`: see `DescribedSource`.
    """
    make = FileReferencingSource if has_file_references else RowSource
    return make(RowSampleReader(rows, mapping), splits, describe)


class SampleSource:
    """A source that keeps one iterator of samples open.

    Reading the next sample, or one of the 256 after it, continues the iterator; reading any other opens a new one.
    `describe`: see `DescribedSource`. `splits`: iterated when the splits are first asked for, since finding them may
    take a pass over the rows. `worker_options`: see `ResolvedSource`.
    """

    def __init__(
        self,
        samples: RowSamples,
        splits: Iterable[str] = (),
        describe: Callable[[], SourceDescription] = SourceDescription,
    ) -> None:
        self.describe = describe
        self.worker_options: Mapping[str, str] = {}
        self._samples = samples
        self._splits = splits
        self._storage = LocalStorage()
        self._fetched: _FetchedFiles | None = None
        self._ahead: dict[int, SourceSample] = {}  # samples whose files are being fetched
        self._open: Iterator[SourceSample] = iter(())
        self._next = -1
        self._last: tuple[int, SourceSample] | None = None

    def __enter__(self) -> SampleSource:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open, self._next, self._last = iter(()), -1, None
        self._forget_fetched()
        self._samples.close()
        self._storage.close()

    @cached_property
    def _bits(self) -> dict[str, int]:
        return {name: 1 << b for b, name in enumerate(self._splits)}

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(self._bits)

    def entries(self) -> Iterator[SourceEntry]:
        """All samples. One with a fault is listed with 0 bytes, so that the indexes of the others stay the same."""
        for sample in self._samples.samples(0):
            yield SourceEntry(sample.key, sum(map(part_size, sample.parts)))

    def list_samples(self) -> Iterator[SampleListing]:
        """The samples of `entries`, with their parts."""
        for sample_index, sample in enumerate(self._samples.samples(0)):
            parts = tuple((piece.name, part_size(piece)) for piece in sample.parts)
            files = tuple(file_identity(piece) if isinstance(piece, FilePart) else "" for piece in sample.parts)
            yield SampleListing(sample_index, sample.key, parts, self._bits.get(sample.split, 0), files)

    def read(self, sample_index: int) -> tuple[Part, ...]:
        """The parts of one sample. Raises the sample's fault, if it has one."""
        return tuple(map(self._load_part, self._sample(sample_index).parts))

    def read_selected(self, sample_index: int, is_selected: Callable[[str], bool]) -> tuple[Part | FilePart, ...]:
        """The selected parts. Files of 64 MiB and more are returned as ranges, unread."""
        pieces = [piece for piece in self._sample(sample_index).parts if is_selected(piece.name)]
        return tuple(
            _checked(piece) if part_size(piece) >= LARGE_PART_BYTES else self._load_part(piece) for piece in pieces
        )

    def prefetch(self, sample_indexes: list[int]) -> None:
        """Fetch the files of these samples from a store. Does nothing for files on a disk: rows are read in sequence.

        Memory: up to 128 MiB.
        """
        self._forget_fetched()
        files: dict[str, int] = {}
        for sample_index in sample_indexes:
            try:
                sample = self._advance_to(sample_index)
            except WdsctlError:
                break  # reading the sample reports the error
            self._ahead[sample_index] = sample
            found = [part for part in sample.parts if isinstance(part, FilePart) and source_files.is_remote(part.path)]
            if not found:
                break
            files |= {part.path: part.size for part in found if _is_fetched(part)}
        if files:
            self._fetched = _FetchedFiles(files)

    def _forget_fetched(self) -> None:
        self._ahead.clear()
        if self._fetched is not None:
            self._fetched.close()
            self._fetched = None

    def digest(self) -> bytes:
        """A digest of names, sizes and times of the files that hold the rows."""
        return self._samples.digest()

    def _load_part(self, part: RowPart) -> Part:
        if isinstance(part, Part):
            return part
        if part.header:
            return Part(part.name, part.data)
        if source_files.is_remote(part.path):
            fetched = self._fetched if self._fetched is not None and _is_fetched(part) else None
            return Part(part.name, _read_from_store(part, fetched))
        _check_local_size(part)
        self._storage.expect_files(part.root, {}, {})
        return Part(part.name, self._storage.read(part.path, part.offset, part.size))

    def _sample(self, sample_index: int) -> SourceSample:
        if self._last is None or self._last[0] != sample_index:
            known = self._ahead.pop(sample_index, None)
            self._last = (sample_index, known or self._advance_to(sample_index))
        sample = self._last[1]
        if sample.fault is not None:
            raise sample.fault
        return sample

    def _advance_to(self, sample_index: int) -> SourceSample:
        skip = sample_index - self._next
        if self._next < 0 or not 0 <= skip <= _MAX_SKIPPED_SAMPLES:
            self._open, skip = self._samples.samples(sample_index), 0
        self._next = -1
        sample = next(islice(self._open, skip, None), None)
        if sample is None:
            raise InputError(
                f"the source has no sample {sample_index:,}",
                hint="the source has changed since it was listed: run the same command again",
                code="WDS202",
            )
        self._next = sample_index + 1
        return sample


class RowSource(SampleSource):
    """A source whose samples are rows."""

    def __init__(
        self,
        samples: RowSampleReader,
        splits: Iterable[str] = (),
        describe: Callable[[], SourceDescription] = SourceDescription,
    ) -> None:
        super().__init__(samples, splits, describe)
        self.row_samples = samples


class FileReferencingSource(RowSource):
    """A source whose rows name files. Its digest covers these files too."""

    def entries(self) -> Iterator[SourceEntry]:
        self.row_samples.survey()  # so that keys are unique
        return super().entries()

    def list_samples(self) -> Iterator[SampleListing]:
        self.row_samples.survey()
        return super().list_samples()

    def digest(self) -> bytes:
        """A digest of names, sizes and times of the files that hold the rows, and of the files that the rows name."""
        return blake2b(self.files_digest() + self.row_samples.references_digest(), digest_size=16).digest()

    def files_digest(self) -> bytes:
        """A digest of the files that hold the rows, but not of the files that the rows name: reading checks those."""
        return self.row_samples.digest()


class _FetchedFiles:
    """Whole files of one store that are fetched before they are read. `sizes`: bytes by URL."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes
        self.storage = source_files.open_storage_of(next(iter(sizes)), sizes)
        ranges = [FileRange(url, 0, size) for url, size in sizes.items() if size]
        self._announcement: object = self.storage.announce(ranges, starts=True)

    def close(self) -> None:
        self._announcement = None
        self.storage.close()


def _is_fetched(part: FilePart) -> bool:
    return part.offset == 0 and part.size < LARGE_PART_BYTES


def _read_from_store(part: FilePart, fetched: _FetchedFiles | None) -> bytes:
    """Read a part. Raises DatasetError WDS202 if its file is gone or has another size than in the listing."""
    is_whole = part.offset == 0
    is_there = fetched is not None and part.path in fetched.sizes and part.size
    storage = fetched.storage if fetched is not None and is_there else None
    own = storage or source_files.open_storage_of(part.path, {part.path: part.size} if is_whole else {})
    try:
        if not part.size:
            _check_size(part)
        return own.read(part.path, part.offset, part.size)
    except StorageError as error:
        if error.code not in source_files.CHANGED_CODES:
            raise
        raise _changed_file_error(part, error.message) from error
    finally:
        if storage is None:
            own.close()


def _checked(part: RowPart) -> RowPart:
    if isinstance(part, FilePart):
        _check_size(part)
    return part


def _check_size(part: FilePart) -> None:
    """Raise DatasetError WDS202 if the part is a whole file whose size has changed.

    The part would be a truncated copy of a file that grew.
    """
    if not source_files.is_remote(part.path):
        _check_local_size(part)
    elif part.offset == 0:
        for _, what in source_files.find_changed([(part.path, part.size)]):
            raise _changed_file_error(part, what)


def _check_local_size(part: FilePart) -> None:
    if part.offset == 0:
        with translate_os_errors(part.path, "read"):
            size = os.stat(part.path).st_size
        if size != part.size:
            raise _changed_file_error(part, f"{size:,} bytes instead of {part.size:,}")


def _changed_file_error(part: FilePart, what: str) -> DatasetError:
    return DatasetError(
        f"the file has changed since wdsctl listed it: {what}",
        hint="run the same command again when no other process writes to the source",
        where=path_for_message(part.path),
        code="WDS202",
    )


def part_size(part: RowPart) -> int:
    return len(part.data) if isinstance(part, Part) else part.size


def digest_of_files(files: Iterable[str]) -> bytes:
    """16 bytes that change when the path, size or modification time of a file changes."""
    digest = blake2b(digest_size=16)
    for path in files:
        digest.update(_file_state(path))
    return digest.digest()


def _file_state(path: str) -> bytes:
    with translate_os_errors(path, "read"):
        facts = source_files.stat_file(path)
    return f"{os.fspath(path)}\0{facts.size}\0{facts.version}\0".encode("utf-8", "surrogateescape")


CHECKPOINT_EVERY_ROWS = 64  # rows per checkpoint, which takes 24 bytes


class RowPosition(NamedTuple):
    """Where a row begins: number of the file, byte offset in the file, line number from 1."""

    row: int
    file: int
    offset: int
    line: int


class RowCheckpoints:
    """The positions of every 64th row, collected while the files are read for the first time."""

    def __init__(self) -> None:
        self._positions = array("q", (0, 0, 1))

    def add(self, position: RowPosition) -> None:
        """Keep the position if it is the next checkpoint."""
        if position.row % CHECKPOINT_EVERY_ROWS == 0 and position.row // CHECKPOINT_EVERY_ROWS * 3 == len(
            self._positions
        ):
            self._positions.extend(position[1:])

    def last_before(self, row: int) -> RowPosition:
        """The nearest checkpoint at or before `row`."""
        kept = min(row // CHECKPOINT_EVERY_ROWS, len(self._positions) // 3 - 1)
        return RowPosition(kept * CHECKPOINT_EVERY_ROWS, *self._positions[3 * kept : 3 * kept + 3])
