"""What crosses the socket between a consumer and a worker: headers, small results, descriptors.

To the worker: ORDER header, then a pickle. From the worker: ANSWER header, a table of segment sizes (uint64 each), then
the segments themselves unless they lie in a block. Segments begin at multiples of 64 bytes, in a block and here.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

from wdsctl.loader.workers.memory import aligned

# what an order asks for
OPEN, TASK = 1, 2
# what an answer is
RESULT, ERROR = 1, 2
INLINE = -1
_ORDER = struct.Struct("<B3xIQQ")
_ANSWER = struct.Struct("<B3xIQQiI")
ORDER_BYTES, ANSWER_BYTES = _ORDER.size, _ANSWER.size
#: Descriptors that come along at most, in one read.
_DESCRIPTORS = 8
_LENGTH = struct.Struct("<Q")


class Order(NamedTuple):
    kind: int
    epoch: int
    number: int
    #: Bytes of the pickle that follows.
    size: int

    def packed(self) -> bytes:
        return _ORDER.pack(*self)


class Answer(NamedTuple):
    kind: int
    epoch: int
    number: int
    #: Bytes of a block that is new and whose descriptor comes along; 0: the consumer knows the block.
    new_bytes: int
    #: The block with the segments, or INLINE.
    block: int
    segments: int

    def packed(self) -> bytes:
        return _ANSWER.pack(*self)


def order_of(header: bytes | bytearray) -> Order:
    return Order(*_ORDER.unpack(header))


def answer_of(header: bytes | bytearray) -> Answer:
    return Answer(*_ANSWER.unpack(header))


def table(sizes: Sequence[int]) -> bytes:
    return array.array("Q", sizes).tobytes()


def sizes_of(raw: bytes | bytearray | memoryview) -> list[int]:
    sizes = array.array("Q")
    sizes.frombytes(raw)
    return sizes.tolist()


def total_bytes(sizes: Sequence[int]) -> int:
    return sum(map(aligned, sizes))


def read_exactly(channel: socket.socket, size: int) -> bytearray:
    """Blocks. Raises EOFError where the other side is gone."""
    raw = bytearray(size)
    view = memoryview(raw)
    at = 0
    while at < size:
        count = channel.recv_into(view[at:])
        if not count:
            raise EOFError
        at += count
    return raw


def send_with(channel: socket.socket, raw: bytes, descriptors: Sequence[int]) -> None:
    """All of the bytes; the descriptors with the first of them. Blocks."""
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    sent = channel.sendmsg([raw], ancillary)
    channel.sendall(raw[sent:])


def receive_into(channel: socket.socket, view: memoryview) -> tuple[int, list[int]]:
    """One read, as much as there is: how many bytes, and the descriptors that came along (not inheritable)."""
    flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    count, ancillary, _, _ = channel.recvmsg_into([view], socket.CMSG_SPACE(4 * _DESCRIPTORS), flags)
    descriptors = array.array("i")
    for level, kind, raw in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(raw[: len(raw) // 4 * 4])
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return count, descriptors.tolist()


def hang_up(channel: socket.socket) -> None:
    """Close it, and tell the other side: processes that were forked meanwhile, for another pool say, hold copies of
    this end, and with one of them open the other side would not see that it is closed."""
    with contextlib.suppress(OSError):  # the other side is gone, or this one was closed before
        channel.shutdown(socket.SHUT_RDWR)
    channel.close()


def send_parcel(channel: socket.socket, raw: bytes, descriptors: Sequence[int] = ()) -> None:
    """Bytes with their length, for the talk with a nursery. Blocks."""
    send_with(channel, _LENGTH.pack(len(raw)) + raw, descriptors)


def receive_parcel(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Blocks. Raises EOFError where the other side is gone."""
    head = bytearray(_LENGTH.size)
    count, descriptors = receive_into(channel, memoryview(head))
    if not count:
        raise EOFError
    head[count:] = read_exactly(channel, _LENGTH.size - count)
    return bytes(read_exactly(channel, _LENGTH.unpack(head)[0])), descriptors
