"""The consumer's end of one worker process: sends commands, receives replies, never blocks and never stops halfway."""

from __future__ import annotations

import os
import select
import socket
from collections import deque
from dataclasses import dataclass
from typing import Any

from wdsctl.loader.workers import wire
from wdsctl.loader.workers.lifeline import open_process_handle
from wdsctl.loader.workers.pickling import decode_result
from wdsctl.loader.workers.ring_reader import ByteArray, RingReader, new_aligned_array, split_segments
from wdsctl.loader.workers.status_page import StatusPage

#: An epoch that no task has.
_NO_EPOCH = (1 << 32) - 1


@dataclass(slots=True)
class ReceivedReply:
    """A reply in memory that belongs to the consumer until the reply is released."""

    kind: int
    epoch: int
    number: int
    memory: ByteArray
    sizes: list[int]
    #: The owner of the memory; None for a reply that came through the socket.
    ring_reader: RingReader | None

    def decode_value(self) -> Any:
        """The value, the same at every call: the memory stays as it is until the reply is released."""
        memory = self.ring_reader.own_or_copy(self.memory) if self.ring_reader else self.memory
        return decode_result(split_segments(memory, self.sizes))


class Channel:
    """`is_mid_frame`: a message is being written or read. After an interrupt then, it cannot be used again."""

    def __init__(
        self, consumer_socket: socket.socket, page_descriptor: int, ring_reader: RingReader, status_page: StatusPage
    ) -> None:
        consumer_socket.setblocking(False)
        self.status_page = status_page
        self.page_descriptor = page_descriptor
        self.is_mid_frame = False
        self.is_ended = False
        self._socket = consumer_socket
        self._ring_reader = ring_reader
        self._unsent: deque[memoryview] = deque()
        self._received_descriptors: deque[int] = deque()
        self._partial_reply = _PartialReply()
        self._process_handle: int | None = None
        self._poll = select.poll()

    def watch_process(self, pid: int) -> None:
        self._process_handle = open_process_handle(pid)
        if self._process_handle is not None:
            self._poll.register(self._process_handle, select.POLLIN)

    @property
    def process_handle(self) -> int | None:
        return self._process_handle

    def queue_command(self, command: wire.Command, raw: bytes) -> None:
        self._unsent.append(memoryview(command.to_bytes() + raw))

    def send(self) -> None:
        """Send as much as possible without waiting."""
        self.is_mid_frame = True
        # One write wakes the worker once.
        if len(self._unsent) > 1:
            self._unsent = deque([memoryview(b"".join(self._unsent))])
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent[0])
                if sent == len(self._unsent[0]):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = self._unsent[0][sent:]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            # The worker is gone; what it sent before is still in the socket, and reading reaches its end.
            self._unsent.clear()
        self.is_mid_frame = False

    def receive(self) -> ReceivedReply | None:
        """The next reply, if all of it has arrived. Sets `is_ended` when no more can come."""
        self.is_mid_frame = True
        try:
            arrived = self._read_reply()
        except BlockingIOError:
            arrived = None
        except (EOFError, ConnectionResetError):
            arrived, self.is_ended = None, True
        self.is_mid_frame = False
        return arrived

    def wait(self, seconds: float) -> bool:
        """Wait until there is something to read or write, or the process ended. Returns whether anything happened."""
        events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
        self._poll.register(self._socket, events)
        ready = dict(self._poll.poll(seconds * 1000))
        has_ended = self._process_handle in ready
        # A process that the worker started may hold its end of the socket: only then does it not signal the end.
        if has_ended and not ready.get(self._socket.fileno(), 0) & (select.POLLIN | select.POLLHUP):
            self.is_ended = True
        return bool(ready)

    def hang_up(self) -> None:
        """Make the worker end at its next read or write."""
        self.status_page.epoch = _NO_EPOCH
        wire.hang_up(self._socket)

    def close(self) -> None:
        """Close all descriptors; blocks that are lent out stay mapped."""
        self.hang_up()
        for descriptor in (self.page_descriptor, self._process_handle, *self._received_descriptors):
            if descriptor is not None:
                os.close(descriptor)
        self._process_handle = None
        self._received_descriptors.clear()
        self.page_descriptor = -1

    def _read_reply(self) -> ReceivedReply:
        reading = self._partial_reply
        while True:
            while reading.unread:
                if reading.reply is None:
                    count, descriptors = wire.receive_into(self._socket, reading.unread)
                    self._received_descriptors += descriptors
                else:
                    count = self._socket.recv_into(reading.unread)
                if not count:
                    raise EOFError
                reading.unread = reading.unread[count:]
            if arrived := self._parse_next_section(reading):
                self._partial_reply = _PartialReply()
                return arrived

    def _parse_next_section(self, partial_reply: _PartialReply) -> ReceivedReply | None:
        """Parse the header, table or segments that have arrived, and prepare to read the next section."""
        if partial_reply.reply is None:
            partial_reply.reply = answer = wire.parse_reply(partial_reply.raw)
            if answer.new_bytes:
                self._ring_reader.add(answer.block, self._received_descriptors.popleft(), answer.new_bytes)
            partial_reply.expect(bytearray(8 * answer.segment_count))
            return None
        answer = partial_reply.reply
        if partial_reply.memory is None:
            partial_reply.sizes = wire.parse_sizes(partial_reply.raw)
            total = wire.total_aligned_bytes(partial_reply.sizes)
            if answer.block == wire.INLINE_BLOCK:
                partial_reply.memory = new_aligned_array(total)
                partial_reply.unread = partial_reply.memory.data
                return None
            partial_reply.memory = self._ring_reader.lend(answer.block, total)
        ring_reader = None if answer.block == wire.INLINE_BLOCK else self._ring_reader
        return ReceivedReply(
            answer.kind, answer.epoch, answer.number, partial_reply.memory, partial_reply.sizes, ring_reader
        )


class _PartialReply:
    """The reply that is being read."""

    def __init__(self) -> None:
        self.reply: wire.Reply | None = None
        self.sizes: list[int] = []
        self.memory: ByteArray | None = None
        self.expect(bytearray(wire.REPLY_BYTES))

    def expect(self, raw: bytearray) -> None:
        self.raw = raw
        self.unread = memoryview(raw)
