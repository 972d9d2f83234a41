"""A source that goes through its samples one after the other: forward, and from any place on anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from types import TracebackType
from typing import Protocol

from wdsctl.core.convert.rows.samples import Piece, Row, Sample, Shape, sample_of
from wdsctl.core.convert.source import Entry, Known, LargePart, Part
from wdsctl.core.errors import DatasetError, InputError
from wdsctl.core.findings import Finding
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named
from wdsctl.core.storage import LocalStorage

_SKIPPED = 256  # samples that are rather passed over than begun anew behind

LARGE = 64 << 20  # bytes from which on a part is copied and not held


class Samples(Protocol):
    """The samples of a form, their files not read yet."""

    def samples(self, start: int) -> Iterator[Sample]:
        """The samples from the place `start` on, to the end."""

    def mark(self) -> bytes:
        """As of a source."""

    def close(self) -> None: ...


class Rows(Protocol):
    """Rows of a source, from any place on."""

    def rows(self, start: int) -> Iterator[Row]:
        """The rows from the place `start` on, to the end."""

    def files(self) -> Iterable[str]:
        """The files whose size and time tell whether the rows are still the same."""

    def close(self) -> None: ...


class RowSamples:
    """Rows as samples, by their shape."""

    def __init__(self, rows: Rows, shape: Shape) -> None:
        self._rows = rows
        self._shape = shape

    def samples(self, start: int) -> Iterator[Sample]:
        for row in self._rows.rows(start):
            sample = sample_of(row, self._shape)
            yield sample._replace(split=row.split) if row.split else sample

    def mark(self) -> bytes:
        return mark_of(self._rows.files())

    def mark_of_references(self) -> bytes:
        """16 bytes that change when a file that a row names does, comes, or goes. Cost: reads all rows."""
        digest = blake2b(digest_size=16)
        for sample in self.samples(0):
            digest.update(b"\0" if sample.fault is None else sample.fault.code.encode())
            for piece in sample.pieces:
                if isinstance(piece, LargePart):
                    digest.update(_state_of(piece.path))
        return digest.digest()

    def close(self) -> None:
        self._rows.close()


def row_source(rows: Rows, shape: Shape, splits: Iterable[str] = (), *, names_files: bool = False) -> SampleSource:
    """A source of samples that are rows. `splits`: those that a row may be in. `names_files`: rows name files, which
    are as much a part of the source as the rows themselves.
    """
    samples = RowSamples(rows, shape)
    return NamingSource(samples, splits) if names_files else SampleSource(samples, splits)


class SampleSource:
    """Keeps one iterator open. Asked for the place that comes next it goes on, and otherwise begins there anew.

    `problems`: what is not as it should be, and not in the samples any more.
    """

    def __init__(self, samples: Samples, splits: Iterable[str] = (), problems: Iterable[Finding] = ()) -> None:
        self.problems = tuple(problems)
        self._samples = samples
        self._bits = {name: 1 << b for b, name in enumerate(splits)}
        self._storage = LocalStorage()
        self._open: Iterator[Sample] = iter(())
        self._next = -1
        self._last: tuple[int, Sample] | None = None

    def __enter__(self) -> SampleSource:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open, self._next, self._last = iter(()), -1, None
        self._samples.close()
        self._storage.close()

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(self._bits)

    def entries(self) -> Iterator[Entry]:
        """All samples; one with a fault has no bytes, so that places stay."""
        for sample in self._samples.samples(0):
            yield Entry(sample.key, sum(map(size_of, sample.pieces)))

    def known(self) -> Iterator[Known]:
        """The same, with the parts."""
        for place, sample in enumerate(self._samples.samples(0)):
            parts = tuple((piece.name, size_of(piece)) for piece in sample.pieces)
            yield Known(place, sample.key, parts, self._bits.get(sample.split, 0))

    def read(self, place: int) -> tuple[Part, ...]:
        """The parts of one sample. Raises its fault."""
        return tuple(map(self._loaded, self._sample(place).pieces))

    def read_some(self, place: int, wanted: Callable[[str], bool]) -> tuple[Part | LargePart, ...]:
        """Those parts that are wanted; files of 64 MiB and more are not read."""
        pieces = [piece for piece in self._sample(place).pieces if wanted(piece.name)]
        return tuple(_unchanged(piece) if size_of(piece) >= LARGE else self._loaded(piece) for piece in pieces)

    def will_need(self, places: list[int]) -> None:
        """Rows are read as they come."""

    def mark(self) -> bytes:
        """Names, sizes and times of the files that hold the rows."""
        return self._samples.mark()

    def _loaded(self, piece: Piece) -> Part:
        piece = _unchanged(piece)
        if isinstance(piece, Part):
            return piece
        self._storage.expect(piece.root, {}, {})
        return Part(piece.name, self._storage.read(piece.path, piece.offset, piece.size))

    def _sample(self, place: int) -> Sample:
        if self._last is None or self._last[0] != place:
            self._last = (place, self._found(place))
        sample = self._last[1]
        if sample.fault is not None:
            raise sample.fault
        return sample

    def _found(self, place: int) -> Sample:
        skip = place - self._next
        if self._next < 0 or not 0 <= skip <= _SKIPPED:
            self._open, skip = self._samples.samples(place), 0
        self._next = -1
        sample = next(islice(self._open, skip, None), None)
        if sample is None:
            raise InputError(
                f"there is no sample {place:,}",
                hint="the source has changed since it was listed: run the same command again",
                code="WDS202",
            )
        self._next = place + 1
        return sample


class NamingSource(SampleSource):
    """Of rows that name files: what is made of it follows from these, too."""

    def __init__(self, samples: RowSamples, splits: Iterable[str] = ()) -> None:
        super().__init__(samples, splits)
        self._rows = samples

    def mark(self) -> bytes:
        """Names, sizes and times of the files that hold the rows, and of those that they name."""
        return blake2b(self.files_mark() + self._rows.mark_of_references(), digest_size=16).digest()

    def files_mark(self) -> bytes:
        """Of the files that hold the rows; those that they name are looked at when they are read."""
        return self._rows.mark()


def _unchanged(piece: Piece) -> Piece:
    """The piece, if it is no whole file that has another size by now: what grew would be cut."""
    if isinstance(piece, LargePart) and piece.offset == 0:
        with translated(piece.path, "read"):
            size = os.stat(piece.path).st_size
        if size != piece.size:
            raise DatasetError(
                f"the file has {size:,} bytes, and had {piece.size:,}",
                hint="run the same command again when nothing writes to the source",
                where=named(piece.path),
                code="WDS202",
            )
    return piece


def size_of(piece: Piece) -> int:
    return len(piece.data) if isinstance(piece, Part) else piece.size


def mark_of(files: Iterable[str]) -> bytes:
    """16 bytes that change when a file's path, size or time does."""
    digest = blake2b(digest_size=16)
    for path in files:
        digest.update(_state_of(path))
    return digest.digest()


def _state_of(path: str) -> bytes:
    with translated(path, "read"):
        status = os.stat(path)
    return f"{os.fspath(path)}\0{status.st_size}\0{status.st_mtime_ns}\0".encode("utf-8", "surrogateescape")
