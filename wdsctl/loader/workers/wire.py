"""The messages between a consumer and a worker: headers, small results, descriptors.

To the worker: command header, then a pickle. From the worker: reply header, a table of segment sizes (uint64 each),
then the segments themselves unless they are in a block. Segments begin at multiples of 64 bytes, in a block and here.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

from wdsctl.loader.workers.status_page import align_up

# kinds of commands
OPEN_COMMAND, TASK_COMMAND = 1, 2
# kinds of replies
RESULT_REPLY, ERROR_REPLY = 1, 2
INLINE_BLOCK = -1
_COMMAND_STRUCT = struct.Struct("<B3xIQQ")
_REPLY_STRUCT = struct.Struct("<B3xIQQiI")
COMMAND_BYTES, REPLY_BYTES = _COMMAND_STRUCT.size, _REPLY_STRUCT.size
#: Descriptors in one read, at most.
_MAX_DESCRIPTORS = 8
_LENGTH_STRUCT = struct.Struct("<Q")


class Command(NamedTuple):
    kind: int
    epoch: int
    number: int
    #: Bytes of the pickle that follows.
    payload_bytes: int

    def to_bytes(self) -> bytes:
        return _COMMAND_STRUCT.pack(*self)


class Reply(NamedTuple):
    kind: int
    epoch: int
    number: int
    #: Size of a new block, whose descriptor is sent along; 0: the consumer knows the block.
    new_bytes: int
    #: The block with the segments, or INLINE_BLOCK.
    block: int
    segment_count: int

    def to_bytes(self) -> bytes:
        return _REPLY_STRUCT.pack(*self)


def parse_command(header: bytes | bytearray) -> Command:
    return Command(*_COMMAND_STRUCT.unpack(header))


def parse_reply(header: bytes | bytearray) -> Reply:
    return Reply(*_REPLY_STRUCT.unpack(header))


def pack_sizes(sizes: Sequence[int]) -> bytes:
    return array.array("Q", sizes).tobytes()


def parse_sizes(raw: bytes | bytearray | memoryview) -> list[int]:
    sizes = array.array("Q")
    sizes.frombytes(raw)
    return sizes.tolist()


def total_aligned_bytes(sizes: Sequence[int]) -> int:
    return sum(map(align_up, sizes))


def read_exactly(channel: socket.socket, size: int) -> bytearray:
    """Read `size` bytes. Blocks. Raises EOFError if the other side is gone."""
    raw = bytearray(size)
    view = memoryview(raw)
    at = 0
    while at < size:
        count = channel.recv_into(view[at:])
        if not count:
            raise EOFError
        at += count
    return raw


def send_with_descriptors(channel: socket.socket, raw: bytes, descriptors: Sequence[int]) -> None:
    """Send all bytes, the descriptors with the first of them. Blocks."""
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    sent = channel.sendmsg([raw], ancillary)
    channel.sendall(raw[sent:])


def receive_into(channel: socket.socket, view: memoryview) -> tuple[int, list[int]]:
    """Read once, as much as is available. Returns the number of bytes, and the received descriptors, which are not
    inheritable."""
    flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    count, ancillary, _, _ = channel.recvmsg_into([view], socket.CMSG_SPACE(4 * _MAX_DESCRIPTORS), flags)
    descriptors = array.array("i")
    for level, kind, raw in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(raw[: len(raw) // 4 * 4])
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return count, descriptors.tolist()


def hang_up(channel: socket.socket) -> None:
    """Shut down the socket, then close it. Closing alone is not enough: a process that was forked meanwhile has a copy
    of this end, and while the copy is open, the other side does not see the end."""
    with contextlib.suppress(OSError):  # the other side has ended, or this side is closed already
        channel.shutdown(socket.SHUT_RDWR)
    channel.close()


def send_parcel(channel: socket.socket, raw: bytes, descriptors: Sequence[int] = ()) -> None:
    """Send bytes with their length, to or from a fork server. Blocks."""
    send_with_descriptors(channel, _LENGTH_STRUCT.pack(len(raw)) + raw, descriptors)


def receive_parcel(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Receive bytes and descriptors. Blocks. Raises EOFError if the other side is gone."""
    head = bytearray(_LENGTH_STRUCT.size)
    count, descriptors = receive_into(channel, memoryview(head))
    if not count:
        raise EOFError
    head[count:] = read_exactly(channel, _LENGTH_STRUCT.size - count)
    return bytes(read_exactly(channel, _LENGTH_STRUCT.unpack(head)[0])), descriptors
