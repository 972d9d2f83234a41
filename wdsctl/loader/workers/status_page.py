"""A page of memory that a worker and its consumer share: what the worker is doing, and which blocks of its ring are in
use.

Only one side writes each field, in stores of one word or byte, so that no lock is needed. Behind the page, in the same
file, is what faulthandler writes: the stack of a worker that crashed or was asked for it. Shared memory has no name
here: nothing in /dev/shm, and nothing is left behind if a process is killed.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import tempfile

from wdsctl.loader.runtime.logs import logger


def new_shared_memory(size: int) -> int:
    """A file descriptor of zeroed memory, to be mapped and passed on. Takes space only where it is written."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("wdsctl", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def align_up(size: int, step: int = 64) -> int:
    return -(-size // step) * step


#: Blocks a ring may have. Each costs a file descriptor on either side.
MAX_RING_BLOCKS = 32
_PAGE_BYTES = 4096
(
    _EPOCH_OFFSET,
    _OPENED_OFFSET,
    _TASK_OFFSET,
    _HEARTBEATS_OFFSET,
    _ACTIVITY_SIZE_OFFSET,
    _ACTIVITY_OFFSET,
    _BLOCK_FLAGS_OFFSET,
) = 0, 4, 8, 16, 24, 64, _PAGE_BYTES - MAX_RING_BLOCKS
_MAX_ACTIVITY_BYTES = 2048
_FREE, _USED, _DROPPED, _RETIRED = 0, 1, 2, 3
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


class StatusPage:
    """A page over a descriptor, which the caller keeps."""

    def __init__(self, descriptor: int) -> None:
        self.memory = mmap.mmap(descriptor, _PAGE_BYTES)

    @property
    def epoch(self) -> int:
        """The current epoch, which the consumer writes: tasks of another epoch are obsolete."""
        return int(_U32.unpack_from(self.memory, _EPOCH_OFFSET)[0])

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        _U32.pack_into(self.memory, _EPOCH_OFFSET, epoch)

    @property
    def is_open(self) -> bool:
        return bool(self.memory[_OPENED_OFFSET])

    @property
    def task(self) -> int | None:
        """The number of the task that the worker runs; None between tasks."""
        number: int = _U64.unpack_from(self.memory, _TASK_OFFSET)[0]
        return number - 1 if number else None

    @property
    def heartbeats(self) -> int:
        """Grows whenever the worker opens its runner, begins or ends a task, or reports that it waits for something
        else."""
        return int(_U64.unpack_from(self.memory, _HEARTBEATS_OFFSET)[0])

    @property
    def activity(self) -> str:
        """What the runner last reported that it was doing."""
        (size,) = _U32.unpack_from(self.memory, _ACTIVITY_SIZE_OFFSET)
        return self.memory[_ACTIVITY_OFFSET : _ACTIVITY_OFFSET + min(size, _MAX_ACTIVITY_BYTES)].decode(
            errors="replace"
        )

    def begin_task(self, number: int) -> None:
        self.set_activity("")
        _U64.pack_into(self.memory, _TASK_OFFSET, number + 1)
        self.beat()

    def end_task(self) -> None:
        _U64.pack_into(self.memory, _TASK_OFFSET, 0)
        self.beat()

    def mark_open(self) -> None:
        self.memory[_OPENED_OFFSET] = 1
        self.beat()

    def set_activity(self, text: str) -> None:
        raw = text.encode(errors="replace")[:_MAX_ACTIVITY_BYTES]
        self.memory[_ACTIVITY_OFFSET : _ACTIVITY_OFFSET + len(raw)] = raw
        _U32.pack_into(self.memory, _ACTIVITY_SIZE_OFFSET, len(raw))

    def is_block_free(self, block: int) -> bool:
        return self.memory[_BLOCK_FLAGS_OFFSET + block] == _FREE

    def is_block_dropped(self, block: int) -> bool:
        return self.memory[_BLOCK_FLAGS_OFFSET + block] == _DROPPED

    def use_block(self, block: int) -> None:
        """Mark the block as used: the worker writes into it, or the consumer uses its result."""
        self.memory[_BLOCK_FLAGS_OFFSET + block] = _USED

    def release_block(self, block: int) -> None:
        """Mark the block as free: the consumer no longer uses its result."""
        self.memory[_BLOCK_FLAGS_OFFSET + block] = _FREE

    def is_block_retired(self, block: int) -> bool:
        return self.memory[_BLOCK_FLAGS_OFFSET + block] == _RETIRED

    def retire_block(self, block: int) -> None:
        """Mark the block as retired: the consumer no longer uses its result, but a process forked from the consumer
        may. The worker never writes into the block again."""
        self.memory[_BLOCK_FLAGS_OFFSET + block] = _RETIRED

    def drop_block(self, block: int) -> None:
        """Mark a free or retired block as dropped: the worker has dropped it, and the consumer may drop it too."""
        self.memory[_BLOCK_FLAGS_OFFSET + block] = _DROPPED

    def beat(self) -> None:
        _U64.pack_into(self.memory, _HEARTBEATS_OFFSET, self.heartbeats + 1)


def new_status_page() -> int:
    """The descriptor of a page; its file offset is behind the page, where faulthandler writes."""
    descriptor = new_shared_memory(_PAGE_BYTES)
    os.lseek(descriptor, _PAGE_BYTES, os.SEEK_SET)
    return descriptor


def read_stack_dump(descriptor: int) -> str:
    """The text that faulthandler has written behind the page; empty if there is none."""
    return os.pread(descriptor, 64 << 10, _PAGE_BYTES).decode(errors="replace").strip()


#: The page of the worker that this process is.
_own_pages: list[StatusPage] = []


def set_own_page(status_page: StatusPage) -> None:
    """Make this process the worker of this page."""
    _own_pages[:] = [status_page]


def report_activity(activity: str) -> None:
    """Report what the runner is doing, such as "dataset X, shard Y, key Z, in encode_sample": under a microsecond.

    The report is part of the error if the worker dies or hangs. Outside of a worker this does nothing.
    """
    for page in _own_pages:
        page.set_activity(activity)


def heartbeat() -> None:
    """Report that the current work is slow but continues: the worker does not count as hung. For code that waits for
    something else, and will not wait forever."""
    for page in _own_pages:
        page.beat()


def heartbeat_on_retry(request: str, attempts: int) -> None:
    """Send a heartbeat: a worker that retries a request does not hang. Logs from the third attempt on, because most
    requests that fail succeed on the second.
    """
    heartbeat()
    if attempts > 1:
        logger.warning("the store does not respond; retrying (attempt %d): %s", attempts + 1, request)


def log_silence(store: str, seconds: float) -> None:
    """Log that a read has waited for a store. Sends no heartbeat: a driver that hangs looks the same."""
    logger.warning("no answer for %.0f s: %s; its driver may be retrying", seconds, store)
