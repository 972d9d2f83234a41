"""What an importer recognises and opens, and what an open source of samples does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import DatasetError, Finding, translate_os_errors
from wdsctl.core.file_limits import MAX_INDEX_BYTES, read_whole
from wdsctl.core.files import write_all
from wdsctl.core.json_text import read_json
from wdsctl.core.safe_open import open_file_beneath
from wdsctl.core.storage import source_files
from wdsctl.core.storage.storage import LocalStorage, Storage
from wdsctl.core.text import path_for_message
from wdsctl.core.urls import is_url

Options = Mapping[str, str]


class SourceEntry(NamedTuple):
    """A sample in the listing of a source. `size_bytes`: the sum of its parts."""

    key: str
    size_bytes: int


class Part(NamedTuple):
    """One part of a sample. `name` is what follows the key's first dot: `jpg`, `seg.png`, `json`."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class FilePart:
    """A large part as a range of a file, which can be copied without holding it in memory; `data` reads the range.

    `root`: the folder that must contain the file; a file outside is not read. `header`: bytes of the part before the
    range, which `size` includes: those of a file that is cut out of the other one.
    """

    name: str
    path: str
    offset: int
    size: int  # bytes
    root: str
    header: bytes = b""

    @property
    def data(self) -> bytes:
        """The bytes of the part. Raises StorageError WDS403 if the file ends before the range."""
        storage = self.open_storage()
        try:
            return self.header + storage.read(self.path, self.offset, self._range_size)
        finally:
            storage.close()

    def chunks(self, size: int = 1 << 23) -> Iterator[bytes]:
        """The bytes of the part, in chunks of at most `size` bytes."""
        storage = self.open_storage()
        try:
            if self.header:
                yield self.header
            for at in range(0, self._range_size, size):
                yield storage.read(self.path, self.offset + at, min(size, self._range_size - at))
        finally:
            storage.close()

    @property
    def _range_size(self) -> int:
        return self.size - len(self.header)

    def open_storage(self) -> Storage:
        return source_files.open_storage_of(self.path) if is_url(self.path) else LocalStorage(self.root)

    def copy_to(self, descriptor: int) -> None:
        """Append the part to an open file. The kernel copies the bytes if the file systems support it."""
        if self.header:
            self._append(descriptor, self.chunks())
            return
        at = self.offset + (0 if is_url(self.path) else self._copy_in_kernel(descriptor))
        self._append(descriptor, replace(self, offset=at, size=self.offset + self.size - at).chunks())

    def _append(self, descriptor: int, chunks: Iterator[bytes]) -> None:
        for chunk in chunks:
            with translate_os_errors(self.path):
                write_all(descriptor, chunk)

    def _copy_in_kernel(self, descriptor: int) -> int:
        """Let the kernel copy as much as it can, and return the number of bytes."""
        copied = 0
        with translate_os_errors(self.path, "read"), open_file_beneath(self.path, (self.root,)) as file:
            try:
                while copied < self.size:
                    at, left = self.offset + copied, min(self.size - copied, 64 << 20)
                    count = os.copy_file_range(file.fileno(), descriptor, left, offset_src=at)
                    if count == 0:
                        break
                    copied += count
            except (OSError, AttributeError):
                pass  # not supported between these file systems or on this system: a plain copy reports errors
        return copied


@dataclass(frozen=True, slots=True)
class FormatMatch:
    """A path looks like an importer's format. `score` is from 0 to 1; `reason` is text for the user.

    `tables`: the files below a folder that hold its rows. `media_folders`: the folders, relative to the path, whose
    files the rows name, or whose files belong together by their names.
    """

    score: float
    reason: str
    tables: tuple[str, ...] = ()
    media_folders: tuple[str, ...] = ()


class Source(Protocol):
    """An open source. Its samples have indexes from 0; the same input gives the same samples at the same indexes.

    If a single sample has a problem, `read` raises a WdsctlError that names file, row and cause.
    """

    def __enter__(self) -> Source: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def entries(self) -> Iterator[SourceEntry]:
        """All samples, in order of index. Memory does not grow with their number."""

    def read(self, sample_index: int) -> tuple[Part, ...]:
        """The parts of one sample, sorted by name. Fast if the caller reads samples in order."""

    def digest(self) -> bytes:
        """A digest of the listed content (paths, sizes, times). `convert` resumes a plan only for an equal digest."""


class SampleListing(NamedTuple):
    """A sample in the listing of a `DetailedSource`. `splits`: one bit per split, in the order of `split_names`.

    `files`: for each of `parts`, its `file_identity` if it is a range of a file, which other samples may name too; else
    empty. An empty tuple: no part is one.
    """

    sample_index: int
    key: str
    parts: tuple[tuple[str, int], ...]  # (name, bytes)
    splits: int = 0
    files: tuple[str, ...] = ()


def file_identity(part: FilePart) -> str:
    """A text that is equal for parts with the same range of the same file."""
    return f"{os.path.normpath(part.path)}\0{part.offset}\0{part.size}"


class FieldUse(NamedTuple):
    """A field, or a group of files, of a source, and what holds it in the samples, such as `jpg` or `json[caption]`.

    `becomes`: empty if no sample has it; `note` then says why. A note is text for the user.
    """

    name: str
    becomes: str
    note: str = ""


class SourceDescription(NamedTuple):
    """What becomes of a source.

    `field_uses`: every field, in the order of the source. `findings`: what no sample reports, such as files that no row
    names, each with its count and an example. `config`: the sample type and field map that the format defines; None if
    they must be detected. `unused`: the paths of all files that no sample has, relative to the source.
    """

    field_uses: tuple[FieldUse, ...] = ()
    findings: tuple[Finding, ...] = ()
    config: DatasetConfig | None = None
    unused: tuple[str, ...] = ()


@runtime_checkable
class DescribedSource(Protocol):
    def describe(self) -> SourceDescription:
        """Describe the source. Called once a run, never in workers.

        Cost: at most a listing of the folder, and one reading of its annotation files.
        """


@runtime_checkable
class ResolvedSource(Protocol):
    """A source that has found out something about all its samples, which workers need not find out again."""

    @property
    def worker_options(self) -> Options:
        """Options of the importer, beside those of the user."""


@runtime_checkable
class DetailedSource(Protocol):
    """A source that lists parts without reading them. Indexes ascend, and may have gaps."""

    @property
    def split_names(self) -> tuple[str, ...]:
        """The splits of the source."""

    def list_samples(self) -> Iterator[SampleListing]:
        """The samples of `entries`, with their parts."""

    def read_selected(self, sample_index: int, is_selected: Callable[[str], bool]) -> tuple[Part | FilePart, ...]:
        """The parts of one sample that `is_selected` accepts by name, sorted by name."""

    def prefetch(self, sample_indexes: list[int]) -> None:
        """Hint that these samples will be read soon."""


@runtime_checkable
class ShardedSource(Protocol):
    def shard_of(self, sample_index: int) -> str:
        """The path of the shard with a sample, relative to the dataset."""


class Importer(Protocol):
    """A format to read. A module-level value without state: workers look it up by `name`."""

    name: str
    about: str  # one line for --help and docs

    def recognise(self, path: str) -> FormatMatch | None:
        """A match if `path` looks like this format. Reads only names and heads of files. Never raises for odd input."""

    def open(self, path: str, options: Options) -> Source:
        """Open the source. Raises InputError, DatasetError, UsageError (unknown option, missing optional package)."""


def read_json_object(path: str) -> dict[str, Any]:
    """Read a JSON file that describes a dataset, such as index.json.

    Raises DatasetError WDS233 if it is not a JSON object, and errors for files that cannot be read.
    """
    with translate_os_errors(path, "read"), source_files.open_file(path) as file:
        data = read_whole(file, path, MAX_INDEX_BYTES)
    try:
        value = read_json(data)
    except ValueError as error:
        raise damaged_file_error(f"not valid JSON: {error}", path) from error
    if not isinstance(value, dict):
        raise damaged_file_error("not a JSON object", path)
    return value


def damaged_file_error(problem: str, path: str, *, copied: str = "dataset") -> DatasetError:
    """Return the error for a file of a foreign dataset that is damaged or incomplete. `copied`: what to copy again."""
    hint = f"copy the {copied} again from its origin"
    return DatasetError(problem, hint=hint, where=path_for_message(path), code="WDS233")
