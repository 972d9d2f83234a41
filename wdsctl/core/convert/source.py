"""What can be converted: a source of samples. One importer a form, found by looking, with the reason told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Protocol

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


class Importer(Protocol):
    """One form that sources come in. A module-level value without state: workers name it by `name`."""

    name: str
    about: str  # one line for --help and docs

    def recognise(self, path: str) -> Recognised | None:
        """Whether `path` looks like this form, by a cheap look (names, heads of files). Never raises for odd input."""

    def open(self, path: str, options: Options) -> Source:
        """Raises InputError, DatasetError, UsageError (unknown option, optional package missing)."""
