"""Writes one shard: a tar whose bytes depend on nothing but the names and the contents of its samples' files.

It is built beside its place under a name that no reader takes for a shard, synced and renamed: it is whole or absent.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import NamedTuple

from wdsctl.core.beneath import FolderReader, open_file_beneath
from wdsctl.core.counted import counted
from wdsctl.core.errors import DatasetError, PermissionDenied, StorageError, WdsctlError
from wdsctl.core.files import replacing
from wdsctl.core.naming import shard_key
from wdsctl.core.os_errors import translate
from wdsctl.core.raw_sample import RawSample
from wdsctl.core.tar import BLOCK
from wdsctl.core.tar_header import END, header

_GATHER = 1 << 20  # bytes: one large write instead of three small ones a member
_LARGE = 1 << 20  # bytes: from here on the kernel copies, and nothing passes through Python
_GAPS = [bytes(length) for length in range(BLOCK)]
#: What says that one file cannot be read, and nothing of the others.
_OF_THE_FILE = frozenset({errno.EACCES, errno.EPERM, errno.EIO, errno.ELOOP})
_CHUNK = 64 << 20  # bytes: how much the kernel copies in one call, so that signals are heard


class ShardJob(NamedTuple):
    """What a worker needs to know: `write_shard`'s arguments, and whether files that cannot be read are to be told."""

    path: str
    root: str
    samples: Sequence[RawSample]
    is_lenient: bool = False


class UnreadableFile(NamedTuple):
    """A file of a sample that can be listed and not read. `reason` in the system's words."""

    key: str
    part: str
    reason: str


class WrittenShard(NamedTuple):
    samples: int
    size_bytes: int


def write_shard(path: str, root: str, samples: Sequence[RawSample]) -> WrittenShard:
    """Write `samples` to `path`, in order, their parts by name; the files are ROOT/KEY.PART. Makes its folder.

    Dots in a key become `_` in the tar: WebDataset ends keys at the first dot.

    Raises DatasetError WDS202 where a file is not as long as it was when it was listed, StorageError and
    PermissionDenied; then nothing is left behind and what was at `path` is unchanged.
    Cost: an open, a read and a close a file, and a write a megabyte.
    """
    with replacing(path) as draft:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            size_bytes = _write_samples(_Out(descriptor), root, samples)
        finally:
            os.close(descriptor)
    return WrittenShard(len(samples), size_bytes)


def write_job(job: ShardJob) -> WrittenShard | tuple[UnreadableFile, ...]:
    """Write a shard. Where files cannot be read, a lenient job writes none and says which they are: all of them.

    Otherwise as `write_shard`. Cost of a shard that fails: its files are read once more.
    """
    try:
        return write_shard(job.path, job.root, job.samples)
    except (StorageError, PermissionDenied) as error:
        unreadable = tuple(_unreadable(job)) if job.is_lenient and error.code != "WDS401" else ()
        if not unreadable:
            raise
        return unreadable


def _unreadable(job: ShardJob) -> Iterator[UnreadableFile]:
    for key, parts in job.samples:
        for part, _, _ in parts:
            try:
                with open_file_beneath(f"{job.root}/{key}.{part}", (job.root,)) as file:
                    while file.read(_GATHER):
                        pass
            except OSError as error:
                if error.errno in _OF_THE_FILE:
                    yield UnreadableFile(key, part, error.strerror or str(error))


class _Out:
    """Gathers small pieces into large writes. A position, hence a class."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.size_bytes = 0
        self._pieces: list[bytes] = []
        self._waiting = 0

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._waiting += len(piece)
        if self._waiting >= _GATHER:
            self.flush()

    def flush(self) -> None:
        left = memoryview(b"".join(self._pieces))
        while left:
            left = left[os.write(self.descriptor, left) :]
        self.size_bytes += self._waiting
        self._pieces = []
        self._waiting = 0


def _write_samples(out: _Out, root: str, samples: Sequence[RawSample]) -> int:
    files = FolderReader(root)
    with closing(files):
        for key, parts in samples:
            member = shard_key(key)
            for part, size, _ in parts:
                path = f"{root}/{key}.{part}"
                out.add(header(f"{member}.{part}".encode(), size))
                if size < _LARGE:
                    out.add(_read(files, path, size))
                else:
                    _copy(out, files, path, size)
                out.add(_GAPS[-size % BLOCK])
    out.add(END)
    out.flush()
    return out.size_bytes


def _read(files: FolderReader, path: str, size: int) -> bytes:
    """The whole file. Asks for a byte more, so that one call tells whether it has grown."""
    try:
        source = files.open(path)
        try:
            data = os.read(source, size + 1)
            while 0 < len(data) < size:  # file systems over a network may return less than there is
                more = os.read(source, size + 1 - len(data))
                if not more:
                    break
                data += more
        finally:
            os.close(source)
    except OSError as error:
        raise _of_source(error, path) from error
    if len(data) != size:
        now = "more" if len(data) > size else f"{len(data):,}"
        raise _changed(path, f"it had {counted(size, 'byte')}, and has {now}")
    return data


def _copy(out: _Out, files: FolderReader, path: str, size: int) -> None:
    """Append a large file to `out`."""
    out.flush()
    try:
        source = files.open(path)
    except OSError as error:
        raise _of_source(error, path) from error
    try:
        before = os.fstat(source).st_size
        copied = _copy_in_kernel(out, source, size) if before == size else 0
        while before == size and copied < size:
            chunk = _read_some(source, path, min(_GATHER, size - copied))
            if not chunk:
                break
            out.add(chunk)
            copied += len(chunk)
        after = os.fstat(source).st_size
    finally:
        os.close(source)
    if not size == before == copied == after:
        raise _changed(path, f"it had {counted(size, 'byte')}, and has {after:,}")


def _copy_in_kernel(out: _Out, source: int, size: int) -> int:
    """Let the kernel copy as much as it will. Whatever stops it, a plain read and write goes on, and says why."""
    copied = 0
    with suppress(OSError, AttributeError):  # not between these file systems; not on this platform
        while copied < size:
            count = os.copy_file_range(source, out.descriptor, min(_CHUNK, size - copied))
            if count == 0:
                break
            copied += count
    out.size_bytes += copied
    return copied


def _read_some(source: int, path: str, size: int) -> bytes:
    try:
        return os.read(source, size)
    except OSError as error:
        raise _of_source(error, path) from error


def _of_source(error: OSError, path: str) -> WdsctlError:
    if isinstance(error, FileNotFoundError):
        return _changed(path, "it is gone")
    said = translate(error, path, "read")
    if error.errno in _OF_THE_FILE:
        said.hint = "make it readable, or leave such files out: `--on-missing skip` (their samples too) or `keep`"
    return said


def _changed(path: str, how: str) -> DatasetError:
    return DatasetError(
        f"a file changed while the folder was read: {how}",
        where=path,
        hint="run the same command again when nothing writes to the folder",
        code="WDS202",
    )
