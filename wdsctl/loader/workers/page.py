"""A page that a worker and its consumer share: what the worker is doing, and which blocks of its ring are in use.

Everything is written by one side only, in stores of one word or byte, so that no lock is needed. Behind the page, in
the same file, comes what faulthandler writes: the stack of a worker that crashed or was asked for it.
"""

from __future__ import annotations

import mmap
import os
import struct

from wdsctl.loader.workers.memory import new_memory

#: Blocks a ring may have. Each costs a file descriptor on either side.
BLOCKS = 32
_BYTES = 4096
_EPOCH, _OPENED, _TASK, _SIGNS, _TEXT, _TEXT_AT, _FLAGS = 0, 4, 8, 16, 24, 64, _BYTES - BLOCKS
_TEXT_BYTES = 2048
_FREE, _USED, _DROPPED, _RETIRED = 0, 1, 2, 3
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


class Page:
    """Over a descriptor, which stays the caller's."""

    def __init__(self, descriptor: int) -> None:
        self.map = mmap.mmap(descriptor, _BYTES)

    @property
    def epoch(self) -> int:
        """Written by the consumer: tasks of another epoch are not to be done any more."""
        return int(_U32.unpack_from(self.map, _EPOCH)[0])

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        _U32.pack_into(self.map, _EPOCH, epoch)

    @property
    def is_open(self) -> bool:
        return bool(self.map[_OPENED])

    @property
    def task(self) -> int | None:
        """The number of the task that the worker is at; None between tasks."""
        number: int = _U64.unpack_from(self.map, _TASK)[0]
        return number - 1 if number else None

    @property
    def signs(self) -> int:
        """Grows whenever the worker opens its work, begins a task or ends one, or says that it waits for others."""
        return int(_U64.unpack_from(self.map, _SIGNS)[0])

    @property
    def text(self) -> str:
        """What the work said last that it was doing."""
        (size,) = _U32.unpack_from(self.map, _TEXT)
        return self.map[_TEXT_AT : _TEXT_AT + min(size, _TEXT_BYTES)].decode(errors="replace")

    def begin(self, number: int) -> None:
        self.say("")
        _U64.pack_into(self.map, _TASK, number + 1)
        self.sign()

    def end(self) -> None:
        _U64.pack_into(self.map, _TASK, 0)
        self.sign()

    def opened(self) -> None:
        self.map[_OPENED] = 1
        self.sign()

    def say(self, text: str) -> None:
        raw = text.encode(errors="replace")[:_TEXT_BYTES]
        self.map[_TEXT_AT : _TEXT_AT + len(raw)] = raw
        _U32.pack_into(self.map, _TEXT, len(raw))

    def is_free(self, block: int) -> bool:
        return self.map[_FLAGS + block] == _FREE

    def is_dropped(self, block: int) -> bool:
        return self.map[_FLAGS + block] == _DROPPED

    def use(self, block: int) -> None:
        """The worker writes into the block, or has."""
        self.map[_FLAGS + block] = _USED

    def release(self, block: int) -> None:
        """Nothing that the consumer made from the block is left."""
        self.map[_FLAGS + block] = _FREE

    def is_retired(self, block: int) -> bool:
        return self.map[_FLAGS + block] == _RETIRED

    def retire(self, block: int) -> None:
        """Nothing that the consumer made from the block is left here, but in a process that was forked from it there
        may be: the worker never writes there again."""
        self.map[_FLAGS + block] = _RETIRED

    def drop(self, block: int) -> None:
        """The worker let go of a free or retired block: the consumer need not keep it either."""
        self.map[_FLAGS + block] = _DROPPED

    def sign(self) -> None:
        _U64.pack_into(self.map, _SIGNS, self.signs + 1)


def new_page() -> int:
    """The descriptor of a page; its offset stands behind the page, where faulthandler is to write."""
    descriptor = new_memory(_BYTES)
    os.lseek(descriptor, _BYTES, os.SEEK_SET)
    return descriptor


def dumped(descriptor: int) -> str:
    """What faulthandler wrote behind the page so far; empty where nothing."""
    return os.pread(descriptor, 64 << 10, _BYTES).decode(errors="replace").strip()


#: The page of the worker that this process is.
_mine: list[Page] = []


def become(page: Page) -> None:
    """From here on this process is the worker of this page."""
    _mine[:] = [page]


def status(text: str) -> None:
    """Says what the work is doing, such as "dataset X, shard Y, key Z, in encode_sample": under a microsecond.

    It is part of the error when the worker dies or hangs. Outside of a worker it does nothing.
    """
    for page in _mine:
        page.say(text)


def sign_of_life() -> None:
    """Says that what the work is doing takes long, and goes on: the worker does not count as hung. For code that waits
    for somebody else, and will not wait for ever.
    """
    for page in _mine:
        page.sign()
