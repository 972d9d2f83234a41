"""Read ranges of bytes from files. Tests replace this interface to disks by a dict or a faulty disk."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import add, sub
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, Protocol

from wdsctl.core.errors import StorageError, translate_os_errors, wdsctl_error_from
from wdsctl.core.safe_open import find_root_above, open_beneath
from wdsctl.core.tar_header import TAR_BLOCK_BYTES
from wdsctl.core.urls import is_url

if TYPE_CHECKING:
    from wdsctl.core.offsets.probe import Probe
    from wdsctl.core.storage.read_ahead import CachedRanges, Sink


#: Returns the probes that a file must match, given its path.
ProbeLookup = Callable[[str], Sequence["Probe"]]


class FileRange(NamedTuple):
    path: str
    offset: int  # bytes from the start of the file
    size: int  # bytes


class Storage(Protocol):
    """A place with files. A read returns exactly the requested bytes, or raises StorageError or PermissionDenied."""

    def size(self, path: str) -> int:
        """The file's size in bytes."""

    def exists(self, path: str) -> bool: ...

    def root_of(self, path: str) -> str:
        """The folder or URL that the file must lie beneath."""

    def read(self, path: str, offset: int, size: int) -> bytes: ...

    def read_into(self, path: str, offset: int, memory: memoryview) -> None:
        """Fill `memory` with bytes from `offset`."""

    def read_many(self, ranges: Sequence[FileRange]) -> list[bytes]:
        """Return the bytes of every range, in the order of `ranges`. Remote stores fetch them concurrently."""

    def will_need(self, ranges: Iterable[FileRange]) -> None:
        """Announce ranges that will be read soon. A hint: returns nothing and never fails."""

    def close(self) -> None: ...


class ReadCounts(NamedTuple):
    """What was read from one store, and how long reads waited for it."""

    bytes: int = 0  # received, with gaps between ranges and answers that were not used
    requests: int = 0  # for bytes, with retries and hedges
    retries: int = 0
    hedges: int = 0  # requests that were sent a second time because the first one was late
    stalled_seconds: float = 0.0  # during which a read waited for the store
    cached_bytes: int = 0  # read from the shard cache instead

    def plus(self, more: ReadCounts) -> ReadCounts:
        return ReadCounts._make(map(add, self, more))

    def minus(self, before: ReadCounts) -> ReadCounts:
        return ReadCounts._make(map(sub, self, before))


class ReadCounter:
    """Counts what several threads read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = ReadCounts()

    def add(self, counts: ReadCounts) -> None:
        with self._lock:
            self._counts = self._counts.plus(counts)

    def take(self) -> ReadCounts:
        """What was counted since the last call."""
        with self._lock:
            counts, self._counts = self._counts, ReadCounts()
        return counts


class RemoteStorage(Storage, Protocol):
    """A storage that fetches announced ranges in the background."""

    def announce(
        self,
        ranges: Iterable[FileRange],
        *,
        starts: bool = False,
        cached: Sequence[CachedRanges] = (),
        sink: Sink | None = None,
        due: float = 0.0,
    ) -> object:
        """Announce ranges that will be read, in order, for as long as the result is kept. `starts`: fetch them now.

        `due`: when the first one is read: lower numbers are fetched first. `cached`: those that a cache has; `sink`
        receives the others when they are fetched, in another thread.
        """

    @property
    def lead_seconds(self) -> float:
        """How long before its first use a range should be announced."""

    def take_counts(self) -> ReadCounts:
        """What was read since the last call."""


def check_probe(path: str, probe: Probe, block: bytes) -> None:
    """Raise StorageError WDS403 if the `block` of a shard at the probe is not the indexed header."""
    if not probe.fits(block):
        name = probe.name.decode(errors="replace")
        raise _changed_file_error(path, f"the shard differs from the indexed one: no {name} at byte {probe.offset:,}")


def _changed_file_error(path: str, message: str) -> StorageError:
    hint = "restore the shard; if the change is intended, run `wdsctl index DATASET`"
    return StorageError(message, where=path, hint=hint, code="WDS403")


class LocalStorage:
    """Files on mounted file systems, through a limited number of open descriptors.

    At the limit, the descriptor opened first is closed. `root`: the folder that files must lie beneath, besides those
    that `expect_files` adds. A file outside of them, through a link or otherwise, raises PermissionDenied WDS409.
    `expected`: the sizes in bytes that files must have when they are opened. A file of another size was replaced or
    truncated after indexing, and raises StorageError WDS403 instead of returning wrong bytes. `probes`: functions by
    path that return the headers that a file must contain, for the same reason.

    If an open file was changed, the next `will_need` opens it again and repeats these checks.
    """

    def __init__(
        self,
        root: str = "",
        expected: dict[str, int] | None = None,
        *,
        probes: Mapping[str, ProbeLookup] | None = None,
        max_open: int | None = None,
    ) -> None:
        self._roots = {root} if root else set()
        self._expected = expected or {}
        self._probes = dict(probes or {})
        self._max_open = max_open or _default_max_open()
        self._descriptors: dict[str, int] = {}
        self._stats_when_opened: dict[str, tuple[int, int]] = {}  # size and time of files when they were opened

    def expect_files(self, root: str, sizes: Mapping[str, int], probes: Mapping[str, ProbeLookup]) -> None:
        """Add files beneath `root`, with the sizes and the probes that they must match."""
        self._roots.add(root)
        self._expected.update(sizes)
        self._probes.update(probes)

    def size(self, path: str) -> int:
        with translate_os_errors(path, "read"):
            return os.stat(path).st_size

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def root_of(self, path: str) -> str:
        return find_root_above(path, self._roots) or os.path.dirname(path)

    def read(self, path: str, offset: int, size: int) -> bytes:
        handle = self._descriptors.get(path)
        if handle is None:
            handle = self._open_file(path)
        try:
            data = os.pread(handle, size, offset)
        except OSError as error:
            raise wdsctl_error_from(error, path, "read") from error
        return data if len(data) == size else self._read_rest(path, handle, data, offset, size)

    def read_into(self, path: str, offset: int, memory: memoryview) -> None:
        handle = self._descriptors.get(path)
        if handle is None:
            handle = self._open_file(path)
        try:
            count = os.preadv(handle, (memory,), offset)
        except OSError as error:
            raise wdsctl_error_from(error, path, "read") from error
        if count != len(memory):
            memory[:] = self._read_rest(path, handle, bytes(memory[:count]), offset, len(memory))

    def read_many(self, ranges: Sequence[FileRange]) -> list[bytes]:
        return [self.read(*each) for each in ranges]

    def will_need(self, ranges: Iterable[FileRange]) -> None:
        if not hasattr(os, "posix_fadvise"):
            return
        # The read that follows reports errors.
        with suppress(OSError, StorageError):
            checked = ""
            for path, offset, size in ranges:
                handle = self.descriptor(path)
                if path != checked and _size_and_mtime(handle) != self._stats_when_opened[path]:
                    self._handle_changed(path)
                    handle = self.descriptor(path)
                checked = path
                os.posix_fadvise(handle, offset, size, os.POSIX_FADV_WILLNEED)

    def descriptor(self, path: str) -> int:
        """Return an open descriptor, for the loop that reads samples.

        The storage closes it after it has opened enough other files.
        """
        handle = self._descriptors.get(path)
        return self._open_file(path) if handle is None else handle

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def __del__(self) -> None:
        self.close()

    def _open_file(self, path: str) -> int:
        with translate_os_errors(path, "read"):
            try:
                handle = open_beneath(path, self._roots)
            except FileNotFoundError as error:
                if path not in self._expected:
                    raise
                hint = "restore the shard; to continue without it, run `wdsctl index DATASET`"
                raise StorageError(f"cannot read the shard: {error.strerror}", where=path, hint=hint) from error
        try:
            facts = _size_and_mtime(handle)
            self._check(path, handle, facts[0])
        except BaseException:  # also Ctrl-C: no other code has the descriptor yet
            os.close(handle)
            raise
        self._descriptors[path], self._stats_when_opened[path] = handle, facts
        if len(self._descriptors) > self._max_open:
            self._close_file(next(iter(self._descriptors)))
        return handle

    def _handle_changed(self, path: str) -> None:
        """Handle a file that was changed while it is open."""
        self._close_file(path)

    def _close_file(self, path: str) -> None:
        del self._stats_when_opened[path]
        os.close(self._descriptors.pop(path))

    def _check(self, path: str, handle: int, size: int) -> None:
        if self._expected.get(path, size) != size:
            raise _changed_file_error(
                path, f"the shard has {size:,} bytes, but had {self._expected[path]:,} when it was indexed"
            )
        if path in self._probes:
            for probe in self._probes[path](path):
                with translate_os_errors(path, "read"):
                    block = os.pread(handle, TAR_BLOCK_BYTES, probe.offset)
                check_probe(path, probe, block)

    def _read_rest(self, path: str, handle: int, data: bytes, offset: int, size: int) -> bytes:
        """Read until the range is complete: one call reads 2 GB at most, and file systems may return less."""
        pieces = [data]
        have = len(data)
        while have < size:
            with translate_os_errors(path, "read"):
                piece = os.pread(handle, min(size - have, 1 << 30), offset + have)
            if not piece:
                raise StorageError(
                    f"the file is {size - have:,} bytes too short for the requested range",
                    where=f"{path} (byte {offset:,})",
                    hint="the shard has shrunk since it was indexed: run `wdsctl validate DATASET`",
                    code="WDS403",
                )
            pieces.append(piece)
            have += len(piece)
        return b"".join(pieces)


def _size_and_mtime(handle: int) -> tuple[int, int]:
    found = os.fstat(handle)
    return found.st_size, found.st_mtime_ns


def _default_max_open() -> int:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(soft, 1 << 16) // 4) if soft > 0 else 256


MOUNTS_FILE = "/proc/self/mounts"

#: File systems that read over a network. Those of FUSE count as remote, except for the few below.
_REMOTE_FILESYSTEMS = frozenset(
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
_LOCAL_FUSE_FILESYSTEMS = frozenset(
    {"fuse.mergerfs", "fuse.bindfs", "fuse.ntfs-3g", "fuse.exfat", "fuse.lxcfs", "fuse.encfs"}
)


def is_any_remote(paths: Iterable[str], mounts: str = MOUNTS_FILE) -> bool:
    """Whether any path lies on a network file system, according to the system's list of mounts, or is a URL.

    Resolves paths only if a network file system is mounted.
    """
    is_far = {point: _is_remote_filesystem(kind) for point, kind in _read_mounts(mounts)}
    has_far = any(is_far.values())
    return any(is_url(path) or (has_far and _is_on_remote_mount(os.path.realpath(path), is_far)) for path in paths)


def _is_on_remote_mount(path: str, is_far: Mapping[str, bool]) -> bool:
    """Whether the mount that contains an absolute path is remote."""
    while path not in is_far:
        if path == os.sep:
            return False
        path = os.path.dirname(path)
    return is_far[path]


def _read_mounts(mounts: str) -> list[tuple[str, str]]:
    """Return mount points and file system types. The last mount at a point covers earlier ones."""
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            entries = [line.split(" ") for line in file]
    except OSError:
        return []
    return [(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), entry[1]), entry[2]) for entry in entries]


def _is_remote_filesystem(kind: str) -> bool:
    return kind in _REMOTE_FILESYSTEMS or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE_FILESYSTEMS)
