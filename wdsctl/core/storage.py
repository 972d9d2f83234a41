"""Reads bytes of files by range: the one seam between wdsctl and disks. Tests put a dict or a bad disk in its place."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from wdsctl.core.beneath import open_beneath, root_above
from wdsctl.core.errors import StorageError
from wdsctl.core.os_errors import translate, translated
from wdsctl.core.tar import BLOCK
from wdsctl.core.urls import is_url

if TYPE_CHECKING:
    from wdsctl.core.shard_probe import Probe

#: What must stand in a file, by its path.
Probes = Callable[[str], Sequence["Probe"]]


class Range(NamedTuple):
    path: str
    offset: int  # bytes from the start of the file
    size: int  # bytes


class Storage(Protocol):
    """Somewhere files are. A read returns exactly the bytes asked for, or raises StorageError or PermissionDenied."""

    def size(self, path: str) -> int:
        """The file's size in bytes."""

    def exists(self, path: str) -> bool: ...

    def root_of(self, path: str) -> str:
        """The folder or URL that the file must lie beneath."""

    def read(self, path: str, offset: int, size: int) -> bytes: ...

    def read_into(self, path: str, offset: int, memory: memoryview) -> None:
        """Fill `memory` with as many bytes."""

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        """The bytes of every range, in the order asked for. Stores far away fetch them side by side."""

    def will_need(self, ranges: Iterable[Range]) -> None:
        """These ranges will be read soon. A hint: nothing is returned, and nothing fails."""

    def close(self) -> None: ...


class LocalStorage:
    """Files on mounted file systems, through a bounded number of open descriptors (the one opened first is closed).

    `expected`: sizes in bytes that files must have when they are opened; a file of another size was replaced or cut
    short after it was indexed, and raises StorageError WDS403 at once instead of giving wrong bytes. `probes`: asked by
    path for what else must stand in a file, for the same reason. `root`: the folder that files lie beneath, with those
    that `expect` adds; one that leads out of them, by a link or otherwise, raises PermissionDenied WDS409.

    A file that is written while it is open is opened anew by the next `will_need` of it, and checked again.
    """

    def __init__(
        self,
        root: str = "",
        expected: dict[str, int] | None = None,
        *,
        probes: Mapping[str, Probes] | None = None,
        most_open: int | None = None,
    ) -> None:
        self._roots = {root} if root else set()
        self._expected = expected or {}
        self._probes = dict(probes or {})
        self._most_open = most_open or _quarter_of_the_limit()
        self._open: dict[str, int] = {}
        self._seen: dict[str, tuple[int, int]] = {}  # size and time of files when they were opened

    def expect(self, root: str, sizes: Mapping[str, int], probes: Mapping[str, Probes]) -> None:
        """More files, beneath `root`, with the sizes that they must have, and what must stand in them."""
        self._roots.add(root)
        self._expected.update(sizes)
        self._probes.update(probes)

    def size(self, path: str) -> int:
        with translated(path, "read"):
            return os.stat(path).st_size

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def root_of(self, path: str) -> str:
        return root_above(path, self._roots) or os.path.dirname(path)

    def read(self, path: str, offset: int, size: int) -> bytes:
        handle = self._open.get(path)
        if handle is None:
            handle = self._opened(path)
        try:
            data = os.pread(handle, size, offset)
        except OSError as error:
            raise translate(error, path, "read") from error
        return data if len(data) == size else self._rest(path, handle, data, offset, size)

    def read_into(self, path: str, offset: int, memory: memoryview) -> None:
        handle = self._open.get(path)
        if handle is None:
            handle = self._opened(path)
        try:
            count = os.preadv(handle, (memory,), offset)
        except OSError as error:
            raise translate(error, path, "read") from error
        if count != len(memory):
            memory[:] = self._rest(path, handle, bytes(memory[:count]), offset, len(memory))

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        return [self.read(*each) for each in ranges]

    def will_need(self, ranges: Iterable[Range]) -> None:
        if not hasattr(os, "posix_fadvise"):
            return
        # What is wrong with a file is told to whoever reads it.
        with suppress(OSError, StorageError):
            checked = ""
            for path, offset, size in ranges:
                handle = self.descriptor(path)
                if path != checked and _facts(handle) != self._seen[path]:
                    self._changed(path)
                    handle = self.descriptor(path)
                checked = path
                os.posix_fadvise(handle, offset, size, os.POSIX_FADV_WILLNEED)

    def descriptor(self, path: str) -> int:
        """An open descriptor, for the loop that reads samples. It stays open until so many others are opened."""
        handle = self._open.get(path)
        return self._opened(path) if handle is None else handle

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def __del__(self) -> None:
        self.close()

    def _opened(self, path: str) -> int:
        with translated(path, "read"):
            try:
                handle = open_beneath(path, self._roots)
            except FileNotFoundError as error:
                if path not in self._expected:
                    raise
                hint = "restore the shard, or run `wdsctl index DATASET` if the dataset is to do without it"
                raise StorageError(f"cannot read the shard: {error.strerror}", where=path, hint=hint) from error
        try:
            facts = _facts(handle)
            self._check(path, handle, facts[0])
        except BaseException:  # Ctrl-C too: nobody else has the descriptor yet
            os.close(handle)
            raise
        self._open[path], self._seen[path] = handle, facts
        if len(self._open) > self._most_open:
            self._forget(next(iter(self._open)))
        return handle

    def _changed(self, path: str) -> None:
        """Somebody writes to a file that is open."""
        self._forget(path)

    def _forget(self, path: str) -> None:
        del self._seen[path]
        os.close(self._open.pop(path))

    def _check(self, path: str, handle: int, size: int) -> None:
        what = ""
        if self._expected.get(path, size) != size:
            what = f"the shard has {size:,} bytes and had {self._expected[path]:,} when it was indexed"
        elif path in self._probes:
            for probe in self._probes[path](path):
                with translated(path, "read"):
                    block = os.pread(handle, BLOCK, probe.at)
                if not probe.fits(block):
                    name = probe.name.decode(errors="replace")
                    what = f"the shard is another one than was indexed: there is no {name} at byte {probe.at:,}"
                    break
        if what:
            hint = "restore the shard; where it is meant to be as it is, run `wdsctl index DATASET`"
            raise StorageError(what, where=path, hint=hint, code="WDS403")

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
                    hint="the shard is shorter than when it was indexed: run `wdsctl validate DATASET`",
                    code="WDS403",
                )
            pieces.append(piece)
            have += len(piece)
        return b"".join(pieces)


def _facts(handle: int) -> tuple[int, int]:
    found = os.fstat(handle)
    return found.st_size, found.st_mtime_ns


def _quarter_of_the_limit() -> int:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(soft, 1 << 16) // 4) if soft > 0 else 256


MOUNTS = "/proc/self/mounts"

#: File systems whose every read crosses a network. Those of FUSE are, but for the few that lie on a disk.
_REMOTE = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "lustre",
        "gpfs",
        "beegfs",
        "ceph",
        "glusterfs",
        "wekafs",
        "panfs",
        "orangefs",
        "pvfs2",
        "9p",
        "virtiofs",
        "afs",
    ]
)
_LOCAL_FUSE = frozenset({"fuse.mergerfs", "fuse.bindfs", "fuse.ntfs-3g", "fuse.exfat", "fuse.lxcfs", "fuse.encfs"})


def is_any_remote(paths: Iterable[str], mounts: str = MOUNTS) -> bool:
    """Whether any path lies on a network file system, as far as the system's list of mounts tells. A URL does.

    Costs next to nothing a path where no such file system is mounted.
    """
    is_far = {point: _is_far(kind) for point, kind in _mounted(mounts)}
    has_far = any(is_far.values())
    return any(is_url(path) or (has_far and _nearest(os.path.realpath(path), is_far)) for path in paths)


def _nearest(path: str, is_far: Mapping[str, bool]) -> bool:
    """What holds for the mount that an absolute path is in."""
    while path not in is_far:
        if path == os.sep:
            return False
        path = os.path.dirname(path)
    return is_far[path]


def _mounted(mounts: str) -> list[tuple[str, str]]:
    """Mount points and kinds of file systems. Of two mounts at one point, the later one covers the other."""
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            entries = [line.split(" ") for line in file]
    except OSError:
        return []
    return [(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), entry[1]), entry[2]) for entry in entries]


def _is_far(kind: str) -> bool:
    return kind in _REMOTE or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE)
