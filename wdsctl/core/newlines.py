"""Where the line feeds of a file are: its blocks, each with the places of its newlines.

Reading and searching leave Python's lock alone most of the time, so that two threads take little more than half as
long as one. Blocks come in the order of the file whatever the number of threads. Cost: about 0.4 ns a byte; memory: two
blocks a thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from wdsctl.core.plain_members import Ints

Read = Callable[[int, int], bytes]

BLOCK = 1 << 20  # bytes searched at a time: they stay in the processor's cache

_IN_FLIGHT = 2  # blocks a thread: one to work on, one to go on with
_LF = ord("\n")


class Block(NamedTuple):
    data: bytes
    base: int  # its place in the file
    ends: Ints  # where its line feeds are, from its own start


def searched(
    read: Read, start: int, size: int, *, block: int = BLOCK, threads: int = 1
) -> Generator[Block, None, None]:
    """The blocks of a file of `size` bytes from `start` on. Raises what `read` raises.

    With several threads, `read` is called by all of them.
    """
    search = partial(_searched, read, size, block)
    places = iter(range(start, size, block))
    if threads <= 1 or size - start <= block:
        yield from map(search, places)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="wdsctl-lines")
    try:
        yield from _in_order(pool, search, places, _IN_FLIGHT * threads)
    finally:
        pool.shutdown(cancel_futures=True)


def _in_order(
    pool: ThreadPoolExecutor, search: Callable[[int], Block], places: Iterator[int], in_flight: int
) -> Iterator[Block]:
    waiting: deque[Future[Block]] = deque(pool.submit(search, at) for at in islice(places, in_flight))
    while waiting:
        found = waiting.popleft().result()
        waiting.extend(pool.submit(search, at) for at in islice(places, 1))
        yield found


def _searched(read: Read, size: int, block: int, at: int) -> Block:
    data = read(at, min(block, size - at))
    return Block(data, at, newlines(data))


def newlines(data: bytes) -> Ints:
    """Where the line feeds are. By words of eight bytes: most have none, and of those that do most have one."""
    hits = np.frombuffer(data, np.uint8) == _LF
    whole = len(hits) // 8 * 8
    words = hits[:whole].view("<u8")
    filled = np.flatnonzero(words != 0)
    found = words[filled]
    if (found & (found - np.uint64(1))).any():
        return np.flatnonzero(hits)
    # A word with one is a power of two. Its exponent stands in the upper bits of a float; the byte is an eighth of it.
    exponents = (found.astype(np.float64).view(np.int64) >> 52) - 1023
    places = (filled << 3) + (exponents >> 3)
    rest = np.flatnonzero(hits[whole:]) + whole
    return np.concatenate([places, rest]) if len(rest) else places
