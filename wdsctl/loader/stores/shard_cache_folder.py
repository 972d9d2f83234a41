"""The files of a shard cache, which the processes of a job on one machine share.

PARENT/wdsctl-shards-UID/           mode 700; refused where it is not this user's own
    lock                            held for a moment while a job chooses its folder
    DATA-N/                         one per data and job: jobs that run at the same time have folders of their own
        owner                       name of the job; its processes hold a shared lock (flock) on it
        index                       per unit: time of its last use, bytes on the disk, and whether its file is complete
        index.lock                  held while the index is changed
        lanes/RANK                  the lanes of each rank: JSON
        xx/UNIT                     bytes of a unit, after a header with a checksum

Nothing depends on a clean end: the first process of a job counts the files of the last one again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import struct
import zlib
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.json_text import read_json
from wdsctl.loader.stores.disk_cache_folder import PARTIAL_SUFFIX, bytes_on_disk, make_parent_folder

MAGIC = b"WDSSHC1\n"
MAX_JOBS = 16  # with the same data at the same time
_INDEX_HEADER = struct.Struct("<8sQ")  # magic, units
_INDEX_HEADER_BYTES = 64
_UNIT_HEADER = struct.Struct("<8sIIQ")  # magic, checksum of the rest, number of ranges, bytes


def choose_folder(base_folder: str, data_digest: str, job: str) -> tuple[str, int]:
    """(a job's folder for some data, the descriptor that holds it). Other data of jobs that have ended is removed.

    Raises OSError.
    """
    parent = make_parent_folder(base_folder, "shards")
    with _locked_file(os.path.join(parent, "lock")):
        candidates = [os.path.join(parent, f"{data_digest}-{number}") for number in range(MAX_JOBS)]
        for name in os.listdir(parent):
            folder = os.path.join(parent, name)
            if folder not in candidates and os.path.isdir(folder):
                _remove_if_free(folder)
        for folder in candidates:
            descriptor = _join_folder(folder, job)
            if descriptor is not None:
                return folder, descriptor
    raise OSError(f"{MAX_JOBS} jobs use {parent} for the same data")


def hold_folder(folder: str) -> int:
    """A descriptor that holds the folder that another process of the job has chosen. Raises OSError."""
    descriptor = os.open(os.path.join(folder, "owner"), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def _join_folder(folder: str, job: str) -> int | None:
    """A descriptor that holds the folder for a job; None if another job holds it."""
    os.makedirs(os.path.join(folder, "lanes"), mode=0o700, exist_ok=True)
    descriptor = os.open(os.path.join(folder, "owner"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if os.pread(descriptor, 1 << 10, 0) != job.encode():
            os.close(descriptor)
            return None
    else:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, job.encode(), 0)
        for name in os.listdir(os.path.join(folder, "lanes")):
            os.unlink(os.path.join(folder, "lanes", name))
        _count_again(folder)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def _remove_if_free(folder: str) -> None:
    try:
        descriptor = os.open(os.path.join(folder, "owner"), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    os.close(descriptor)


def _count_again(folder: str) -> None:
    """Forget units that were being written when the last job ended, and remove files that the index does not have."""
    index_path = os.path.join(folder, "index")
    try:
        index = UnitIndex(index_path, None)
    except (OSError, ValueError):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(index_path)
        kept: set[str] = set()
    else:
        index.sizes[index.complete == 0] = 0
        index.last_uses[:] = -1
        kept = {unit_file_name(unit) for unit in np.flatnonzero(index.sizes).tolist()}
    for name in os.listdir(folder):
        if len(name) == 2:
            for file in os.listdir(os.path.join(folder, name)):
                if f"{name}/{file}" not in kept:
                    os.unlink(os.path.join(folder, name, file))


class UnitIndex:
    """Arrays over the units of a job, in a file that its processes map.

    `units`: their number; None: as in the file. Raises ValueError for a file that is not such an index.
    """

    def __init__(self, path: str, units: int | None) -> None:
        if units is not None and not os.path.exists(path):
            draft = f"{path}-{os.getpid()}{PARTIAL_SUFFIX}"
            with open(draft, "wb") as file:
                file.write(_INDEX_HEADER.pack(MAGIC, units))
                file.truncate(_INDEX_HEADER_BYTES + 17 * units)
            os.replace(draft, path)
        with open(path, "rb") as file:
            head = file.read(_INDEX_HEADER.size)
            size = os.fstat(file.fileno()).st_size
        magic, count = _INDEX_HEADER.unpack(head) if len(head) == _INDEX_HEADER.size else (b"", 0)
        if magic != MAGIC or size != _INDEX_HEADER_BYTES + 17 * count or units not in (None, count):
            raise ValueError(f"{path} is not an index of {units} units")
        self.units = int(count)
        self.last_uses = self._map(path, np.int64, _INDEX_HEADER_BYTES)
        self.sizes = self._map(path, np.int64, _INDEX_HEADER_BYTES + 8 * count)
        self.complete = self._map(path, np.uint8, _INDEX_HEADER_BYTES + 16 * count)

    def _map(self, path: str, dtype: Any, offset: int) -> Any:
        return np.memmap(path, dtype, "r+", offset, (self.units,))


@contextlib.contextmanager
def _locked_file(path: str) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)  # a process that is forked meanwhile does not inherit it
        yield
    finally:
        os.close(descriptor)


class IndexLock:
    """The lock of the index, between processes and the threads of one."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "index.lock")
        self._threads = Lock()
        self._pid = os.getpid()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        if self._pid != os.getpid():  # a thread of the parent may have held it during the fork
            self._threads, self._pid = Lock(), os.getpid()
        with self._threads, _locked_file(self._path):
            yield


def unit_file_name(unit: int) -> str:
    return f"{unit % 256:02x}/{unit}"


def write_cached_unit(folder: str, unit: int, parts: Sequence[bytes]) -> None:
    """Write the file of a unit and rename it into place. Raises OSError."""
    path = os.path.join(folder, unit_file_name(unit))
    sizes = np.array([len(each) for each in parts], "<u8").tobytes()
    checksum = zlib.crc32(sizes)
    for each in parts:
        checksum = zlib.crc32(each, checksum)
    draft = f"{path}-{os.getpid()}{PARTIAL_SUFFIX}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(os.path.dirname(path), 0o700)
    try:
        with open(draft, "wb") as file:
            file.write(_UNIT_HEADER.pack(MAGIC, checksum, len(parts), sum(map(len, parts))))
            file.write(sizes)
            file.writelines(parts)
        os.replace(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def read_unit(folder: str, unit: int, sizes: Sequence[int]) -> list[bytes] | None:
    """The parts of a unit, which must have these sizes; None for a damaged file. Raises OSError."""
    start = _UNIT_HEADER.size + 8 * len(sizes)
    with open(os.path.join(folder, unit_file_name(unit)), "rb") as file:
        data = file.read(start + sum(sizes) + 1)
    if len(data) != start + sum(sizes):
        return None
    magic, checksum, count, _ = _UNIT_HEADER.unpack_from(data)
    recorded = data[_UNIT_HEADER.size : start]
    if magic != MAGIC or count != len(sizes) or recorded != np.array(sizes, "<u8").tobytes():
        return None
    if zlib.crc32(memoryview(data)[_UNIT_HEADER.size :]) != checksum:
        return None
    parts = []
    for size in sizes:
        parts.append(data[start : start + size])
        start += size
    return parts


def unit_file_bytes(sizes: Sequence[int]) -> int:
    """The disk space of a unit's file."""
    return bytes_on_disk(_UNIT_HEADER.size + 8 * len(sizes) + sum(sizes))


def write_lanes(folder: str, rank: int, lanes: Any) -> None:
    """Record the lanes of a rank for the other processes. Raises OSError."""
    path = os.path.join(folder, "lanes", str(rank))
    with open(f"{path}{PARTIAL_SUFFIX}", "w", encoding="utf-8") as file:
        json.dump(lanes, file)
    os.replace(f"{path}{PARTIAL_SUFFIX}", path)


def read_lanes(folder: str) -> tuple[int, list[Any]]:
    """(a number that changes with them, the lanes of all ranks of this machine). Raises OSError, ValueError."""
    lanes: list[Any] = []
    version = lanes_version(folder)
    for name in sorted(os.listdir(os.path.join(folder, "lanes"))):
        if name.isdecimal():
            with open(os.path.join(folder, "lanes", name), encoding="utf-8") as file:
                lanes += read_json(file.read())
    return version, lanes


def lanes_version(folder: str) -> int:
    return os.stat(os.path.join(folder, "lanes")).st_mtime_ns


def remove_unit(folder: str, unit: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, unit_file_name(unit)))


def used_bytes(sizes: Int64Array) -> int:
    return int(sizes.sum())
