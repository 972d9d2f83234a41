"""Reads bytes of files by range: the one seam between wdsctl and disks. Tests put a dict or a bad disk in its place."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from wdsctl.core.errors import StorageError
from wdsctl.core.os_errors import translate, translated


class Range(NamedTuple):
    path: str
    offset: int  # bytes from the start of the file
    size: int  # bytes


class Storage(Protocol):
    """Somewhere files are. A read returns exactly the bytes asked for, or raises StorageError or PermissionDenied."""

    def size(self, path: str) -> int:
        """The file's size in bytes."""

    def read(self, path: str, offset: int, size: int) -> bytes: ...

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        """The bytes of every range, in the order asked for. Stores far away fetch them side by side."""

    def will_need(self, ranges: Iterable[Range]) -> None:
        """These ranges will be read soon. A hint: nothing is returned, and nothing fails."""

    def close(self) -> None: ...


class LocalStorage:
    """Files on mounted file systems, through a bounded number of open descriptors (the least recently used is closed).

    `expected`: sizes in bytes that files must have when they are opened; a file of another size was replaced or cut
    short after it was indexed, and raises StorageError WDS403 at once instead of giving wrong bytes.
    """

    def __init__(self, expected: dict[str, int] | None = None, *, most_open: int | None = None) -> None:
        self._expected = expected or {}
        self._most_open = most_open or _quarter_of_the_limit()
        self._open: OrderedDict[str, int] = OrderedDict()

    def size(self, path: str) -> int:
        with translated(path, "read"):
            return os.stat(path).st_size

    def read(self, path: str, offset: int, size: int) -> bytes:
        handle = self.descriptor(path)
        try:
            data = os.pread(handle, size, offset)
        except OSError as error:
            raise translate(error, path, "read") from error
        return data if len(data) == size else self._rest(path, handle, data, offset, size)

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        return [self.read(*each) for each in ranges]

    def will_need(self, ranges: Iterable[Range]) -> None:
        for path, offset, size in ranges:
            os.posix_fadvise(self.descriptor(path), offset, size, os.POSIX_FADV_WILLNEED)

    def descriptor(self, path: str) -> int:
        """An open descriptor, for the loop that reads samples. It stays open while its path is among the last used."""
        handle = self._open.get(path)
        if handle is None:
            return self._opened(path)
        self._open.move_to_end(path)
        return handle

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def __del__(self) -> None:
        self.close()

    def _opened(self, path: str) -> int:
        with translated(path, "read"):
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            size = os.fstat(handle).st_size
        if path in self._expected and self._expected[path] != size:
            os.close(handle)
            raise StorageError(
                f"the shard has {size:,} bytes and had {self._expected[path]:,} when it was indexed",
                where=path,
                hint="run `wdsctl index` on the dataset, or restore the shard",
                code="WDS403",
            )
        self._open[path] = handle
        if len(self._open) > self._most_open:
            os.close(self._open.popitem(last=False)[1])
        return handle

    def _rest(self, path: str, handle: int, data: bytes, offset: int, size: int) -> bytes:
        """One call stops at 2 GB, and file systems may stop sooner: read on until all is there."""
        pieces = [data]
        have = len(data)
        while have < size:
            with translated(path, "read"):
                piece = os.pread(handle, min(size - have, 1 << 30), offset + have)
            if not piece:
                raise StorageError(
                    f"the file ends {size - have:,} bytes before the range asked for does",
                    where=f"{path} (byte {offset:,})",
                    hint="the shard is shorter than when it was indexed: run `wdsctl validate` on the dataset",
                    code="WDS403",
                )
            pieces.append(piece)
            have += len(piece)
        return b"".join(pieces)


def _quarter_of_the_limit() -> int:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(soft, 1 << 16) // 4) if soft > 0 else 256


#: File systems whose every read crosses a network.
_REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "9p", "afs", "fuse.sshfs"})


def is_remote(path: str) -> bool:
    """Whether a path lies on a network file system, as far as the system's list of mounts tells."""
    real = os.path.realpath(path)
    best, kind = "", ""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                _, point, name, *_ = line.split(" ")
                point = point.replace("\\040", " ")
                inside = real == point or real.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best):
                    best, kind = point, name
    except FileNotFoundError:
        return False
    return kind in _REMOTE
