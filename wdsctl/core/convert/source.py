"""What can be converted: a source of samples. One importer a form, found by looking, with the reason told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import NamedTuple, Protocol, runtime_checkable

from wdsctl.core.beneath import open_file_beneath
from wdsctl.core.os_errors import translated
from wdsctl.core.storage import LocalStorage

Options = Mapping[str, str]


class Entry(NamedTuple):
    """One sample of a source as the plan sees it: `size_bytes` is the sum of its parts."""

    key: str
    size_bytes: int


class Part(NamedTuple):
    """One part of a sample. `name` is what follows the key's first dot: `jpg`, `seg.png`, `json`."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class LargePart:
    """A part that is better copied by its range of a file than held in memory. Who wants bytes gets them by `data`.

    `root`: the folder that the file lies beneath, or nothing is read of it.
    """

    name: str
    path: str
    offset: int
    size: int  # bytes
    root: str

    @property
    def data(self) -> bytes:
        """All of it. Raises StorageError WDS403 where the file ends before."""
        storage = LocalStorage(self.root)
        try:
            return storage.read(self.path, self.offset, self.size)
        finally:
            storage.close()

    def chunks(self, size: int = 1 << 23) -> Iterator[bytes]:
        """The same in pieces of at most `size` bytes."""
        storage = LocalStorage(self.root)
        try:
            for at in range(0, self.size, size):
                yield storage.read(self.path, self.offset + at, min(size, self.size - at))
        finally:
            storage.close()

    def copy_to(self, descriptor: int) -> None:
        """Append it to an open file, by the kernel where it will."""
        left, at = self.size, self.offset
        with translated(self.path, "read"), open_file_beneath(self.path, (self.root,)) as file:
            try:
                while left:
                    count = os.copy_file_range(file.fileno(), descriptor, min(left, 64 << 20), offset_src=at)
                    if count == 0:
                        break
                    left, at = left - count, at + count
            except (OSError, AttributeError):
                pass  # not between these file systems, or not on this system: a plain copy goes on, and says why
        for chunk in replace(self, offset=at, size=left).chunks():
            rest = memoryview(chunk)
            with translated(self.path):
                while rest:
                    rest = rest[os.write(descriptor, rest) :]


@dataclass(frozen=True, slots=True)
class Recognised:
    """That a path is of an importer's form. `score` is 0 to 1; `reason` says by what it was told, for people."""

    score: float
    reason: str


class Source(Protocol):
    """An open source. Its samples have places from 0; the same input gives the same samples at the same places.

    Problems of single samples are `SampleFailed`-like WdsctlErrors out of `read` that name file, row and cause.
    """

    def __enter__(self) -> Source: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def entries(self) -> Iterator[Entry]:
        """All samples, in order of place. Memory does not grow with their number."""

    def read(self, place: int) -> tuple[Part, ...]:
        """The parts of one sample, sorted by name. Fast where places are asked in order."""

    def mark(self) -> bytes:
        """Names the content that `entries` listed (paths, sizes, times): plans of other content are not resumed."""


class Known(NamedTuple):
    """One sample of a source that knows more than its size. `splits`: one bit a split, in the order of their names."""

    place: int
    key: str
    parts: tuple[tuple[str, int], ...]  # (name, bytes)
    splits: int = 0


@runtime_checkable
class Detailed(Protocol):
    """A source that lists its parts without reading them. Places need not be neighbours, but they ascend."""

    @property
    def split_names(self) -> tuple[str, ...]:
        """The splits that its samples may be in."""

    def known(self) -> Iterator[Known]:
        """As `entries`, with the parts."""

    def read_some(self, place: int, wanted: Callable[[str], bool]) -> tuple[Part | LargePart, ...]:
        """As `read`, without the parts that are not wanted."""

    def will_need(self, places: list[int]) -> None:
        """These will be read soon. A hint."""


class Importer(Protocol):
    """One form that sources come in. A module-level value without state: workers name it by `name`."""

    name: str
    about: str  # one line for --help and docs

    def recognise(self, path: str) -> Recognised | None:
        """Whether `path` looks like this form, by a cheap look (names, heads of files). Never raises for odd input."""

    def open(self, path: str, options: Options) -> Source:
        """Raises InputError, DatasetError, UsageError (unknown option, optional package missing)."""
