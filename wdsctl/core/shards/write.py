"""Write one shard: a tar whose bytes depend only on the names and contents of its samples' files.

`write_shard` builds the tar under a name that no reader takes for a shard, syncs it and renames it: the shard is whole
or absent. `upload.py` sends the same bytes to a store.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from typing import NamedTuple

from wdsctl.core.errors import DatasetError, UsageError, WdsctlError, wdsctl_error_from
from wdsctl.core.files import replace_atomically, write_all
from wdsctl.core.safe_open import FolderOpener
from wdsctl.core.samples.naming import RawSample, dotless_key
from wdsctl.core.storage.source_files import read_files
from wdsctl.core.tar_header import END_OF_ARCHIVE, TAR_BLOCK_BYTES, build_tar_header
from wdsctl.core.text import pluralize
from wdsctl.core.urls import is_url

WRITE_BUFFER_BYTES = 1 << 20  # bytes: one large write replaces three small ones a member
_MIN_KERNEL_COPY_BYTES = 1 << 20  # bytes; the kernel copies larger files, without passing them through Python
_GAPS = [bytes(length) for length in range(TAR_BLOCK_BYTES)]
#: Errors that concern one file, and say nothing about the others.
UNREADABLE_ERRNOS = frozenset({errno.EACCES, errno.EPERM, errno.EIO, errno.ELOOP})
_CHUNK = 64 << 20  # bytes that the kernel copies in one call: few enough to react to signals


class ShardUpload(NamedTuple):
    """A shard of a dataset at the URL `root`. `name`: its path below.

    `journal`: the folder of unfinished uploads. `scans`: the folder for the scan of the shard; empty for none.
    """

    root: str
    name: str
    journal: str
    scans: str = ""


class WrittenShard(NamedTuple):
    samples: int
    size_bytes: int


def write_shard(path: str, root: str, samples: Sequence[RawSample]) -> WrittenShard:
    """Write `samples` to `path`, in order, and create its folder if necessary. The files of a sample are ROOT/KEY.PART.

    Dots in a key become `_` in the tar: WebDataset ends keys at the first dot.

    Raises DatasetError WDS202 if a file is not as long as its listing says, StorageError and PermissionDenied. After an
    error, no partial file is left, and a file that was at `path` is unchanged. Cost: an open, a read and a close a
    file, and a write a megabyte.
    """
    with replace_atomically(path) as draft:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            out = BufferedWriter(lambda data: write_all(descriptor, data), descriptor)
            size_bytes = write_samples(out, root, samples)
        finally:
            os.close(descriptor)
    return WrittenShard(len(samples), size_bytes)


class BufferedWriter:
    """Joins small pieces into large writes, and counts the bytes written.

    `descriptor`: the file that `write` writes to, if the kernel may copy files into it.
    """

    def __init__(self, write: Callable[[bytes], None], descriptor: int | None = None) -> None:
        self.descriptor = descriptor
        self.size_bytes = 0
        self._write = write
        self._pieces: list[bytes] = []
        self._buffered_bytes = 0

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._buffered_bytes += len(piece)
        if self._buffered_bytes >= WRITE_BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        self._write(b"".join(self._pieces))
        self.size_bytes += self._buffered_bytes
        self._pieces = []
        self._buffered_bytes = 0


class StreamWriter:
    """Passes pieces on as they come, to an upload that joins them itself, and counts the bytes."""

    descriptor = None

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.size_bytes = 0
        self._write = write

    def add(self, piece: bytes) -> None:
        self._write(piece)
        self.size_bytes += len(piece)

    def flush(self) -> None:
        pass


def write_samples(out: BufferedWriter | StreamWriter, root: str, samples: Sequence[RawSample]) -> int:
    """Write the members of these samples and the end of the archive. Returns the number of bytes."""
    objects = _read_objects(root, samples) if is_url(root) else None
    with closing(FolderOpener(root)) as files:
        for key, parts in samples:
            member = dotless_key(key)
            for part, size, _ in parts:
                path = f"{root}/{key}.{part}"
                out.add(build_tar_header(f"{member}.{part}".encode(), size))
                if objects is not None:
                    _add_object(out, objects, size)
                elif size < _MIN_KERNEL_COPY_BYTES:
                    out.add(_read(files, path, size))
                else:
                    _copy(out, files, path, size)
                out.add(_GAPS[-size % TAR_BLOCK_BYTES])
    out.add(END_OF_ARCHIVE)
    out.flush()
    return out.size_bytes


def _read_objects(root: str, samples: Sequence[RawSample]) -> Iterator[bytes]:
    """Yield the bytes of the samples' objects, in order."""
    return read_files((f"{root}/{key}.{part}", size) for key, parts in samples for part, size, _ in parts)


def _add_object(out: BufferedWriter | StreamWriter, pieces: Iterator[bytes], size: int) -> None:
    """Append the next object, which may come in several pieces."""
    left = size
    while True:
        piece = next(pieces)
        out.add(piece)
        left -= len(piece)
        if left <= 0:
            return


def _read(files: FolderOpener, path: str, size: int) -> bytes:
    """Read a whole file.

    The read requests one byte more than expected, so that one call shows whether the file has grown.
    """
    try:
        source = files.open(path)
        try:
            data = os.read(source, size + 1)
            while 0 < len(data) < size:  # network file systems may return fewer bytes than requested
                more = os.read(source, size + 1 - len(data))
                if not more:
                    break
                data += more
        finally:
            os.close(source)
    except OSError as error:
        raise _source_error(error, path) from error
    if len(data) != size:
        now = "more" if len(data) > size else f"{len(data):,}"
        raise _changed(path, f"expected {pluralize(size, 'byte')}, found {now}")
    return data


def _copy(out: BufferedWriter | StreamWriter, files: FolderOpener, path: str, size: int) -> None:
    """Append a large file to `out`."""
    out.flush()
    try:
        source = files.open(path)
    except OSError as error:
        raise _source_error(error, path) from error
    try:
        before = os.fstat(source).st_size
        copied = _copy_in_kernel(out, source, size) if before == size else 0
        while before == size and copied < size:
            try:
                chunk = os.read(source, min(WRITE_BUFFER_BYTES, size - copied))
            except OSError as error:
                raise _source_error(error, path) from error
            if not chunk:
                break
            out.add(chunk)
            copied += len(chunk)
        after = os.fstat(source).st_size
    finally:
        os.close(source)
    if not size == before == copied == after:
        raise _changed(path, f"expected {pluralize(size, 'byte')}, found {after:,}")


def _copy_in_kernel(out: BufferedWriter | StreamWriter, source: int, size: int) -> int:
    """Let the kernel copy as much as it can, and return the number of bytes.

    If the kernel stops early, the caller continues with plain reads and writes, which raise the actual error.
    """
    copied = 0
    if out.descriptor is None:
        return 0
    with suppress(OSError, AttributeError):  # unsupported between these file systems, or on this platform
        while copied < size:
            count = os.copy_file_range(source, out.descriptor, min(_CHUNK, size - copied))
            if count == 0:
                break
            copied += count
    out.size_bytes += copied
    return copied


def _source_error(error: OSError, path: str) -> WdsctlError:
    if isinstance(error, FileNotFoundError):
        return _changed(path, "the file is missing")
    translated = wdsctl_error_from(error, path, "read")
    if error.errno in UNREADABLE_ERRNOS:
        translated.hint = (
            "make the file readable, or pass `--on-missing keep` (skips the file) or `skip` (skips its sample)"
        )
    return translated


def _changed(path: str, how: str) -> DatasetError:
    return DatasetError(
        f"a file changed while wdsctl read the folder: {how}",
        where=path,
        hint="run the same command again when no other program writes to the folder",
        code="WDS202",
    )


def check_limits(shard_samples: int, shard_size: int) -> None:
    """Raise UsageError if either limit is below 1. `shard_size` is in bytes."""
    if shard_samples < 1:
        raise UsageError(
            "a shard needs at least one sample", hint="pass at least `--shard-samples 1`; the default is 10000"
        )
    if shard_size < 1:
        raise UsageError("a shard needs at least one byte", hint="pass a positive `--shard-size`; the default is 1GiB")
