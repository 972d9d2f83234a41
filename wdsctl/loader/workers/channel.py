"""The consumer's end of one worker process: orders out, answers in, never blocking and never half done."""

from __future__ import annotations

import os
import select
import socket
from collections import deque
from dataclasses import dataclass
from typing import Any

from wdsctl.loader.workers import wire
from wdsctl.loader.workers.landing import Landing, Memory, fresh, segments_of
from wdsctl.loader.workers.lifeline import process_handle
from wdsctl.loader.workers.page import Page
from wdsctl.loader.workers.pickling import decode

#: No task is of this epoch.
_NO_EPOCH = (1 << 32) - 1


@dataclass(slots=True)
class Arrived:
    """An answer in memory that is the consumer's until it lets go of it."""

    kind: int
    epoch: int
    number: int
    memory: Memory
    sizes: list[int]
    #: Whose memory it is; None where it came through the socket.
    landing: Landing | None

    def value(self) -> Any:
        """What it says, as often as it is asked: the memory stays as it is until the answer is gone."""
        memory = self.landing.owned(self.memory) if self.landing else self.memory
        return decode(segments_of(memory, self.sizes))


class Channel:
    """`is_torn` is True while bytes are on their way: where an interrupt leaves it so, the channel is of no use."""

    def __init__(self, mine: socket.socket, page_at: int, landing: Landing, page: Page) -> None:
        mine.setblocking(False)
        self.page = page
        self.page_at = page_at
        self.is_torn = False
        self.is_ended = False
        self._socket = mine
        self._landing = landing
        self._unsent: deque[memoryview] = deque()
        self._descriptors: deque[int] = deque()
        self._reading = _Reading()
        self._handle: int | None = None
        self._poll = select.poll()

    def watch(self, pid: int) -> None:
        self._handle = process_handle(pid)
        if self._handle is not None:
            self._poll.register(self._handle, select.POLLIN)

    @property
    def handle(self) -> int | None:
        return self._handle

    def order(self, order: wire.Order, raw: bytes) -> None:
        self._unsent.append(memoryview(order.packed() + raw))

    def send(self) -> None:
        """As much as goes without waiting."""
        self.is_torn = True
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
            # The worker is gone; what it sent before stands in the socket, and reading comes to its end.
            self._unsent.clear()
        self.is_torn = False

    def receive(self) -> Arrived | None:
        """The next answer, if it is there as a whole. Sets `is_ended` when no more can come."""
        self.is_torn = True
        try:
            arrived = self._received()
        except BlockingIOError:
            arrived = None
        except (EOFError, ConnectionResetError):
            arrived, self.is_ended = None, True
        self.is_torn = False
        return arrived

    def wait(self, seconds: float) -> bool:
        """Until there is something to read or write, or the process ended. Whether there is something to read."""
        events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
        self._poll.register(self._socket, events)
        ready = dict(self._poll.poll(seconds * 1000))
        has_ended = self._handle in ready
        # Whoever the worker itself started may hold its end of the socket: only then does its end not say so.
        if has_ended and not ready.get(self._socket.fileno(), 0) & (select.POLLIN | select.POLLHUP):
            self.is_ended = True
        return bool(ready)

    def hang_up(self) -> None:
        """The worker's next read or write tells it to end."""
        self.page.epoch = _NO_EPOCH
        wire.hang_up(self._socket)

    def close(self) -> None:
        """Lets go of all descriptors; blocks that are lent out stay mapped."""
        self.hang_up()
        for descriptor in (self.page_at, self._handle, *self._descriptors):
            if descriptor is not None:
                os.close(descriptor)
        self._handle = None
        self._descriptors.clear()
        self.page_at = -1

    def _received(self) -> Arrived:
        reading = self._reading
        while True:
            while reading.missing:
                if reading.answer is None:
                    count, descriptors = wire.receive_into(self._socket, reading.missing)
                    self._descriptors += descriptors
                else:
                    count = self._socket.recv_into(reading.missing)
                if not count:
                    raise EOFError
                reading.missing = reading.missing[count:]
            if arrived := self._stepped(reading):
                self._reading = _Reading()
                return arrived

    def _stepped(self, reading: _Reading) -> Arrived | None:
        """One of header, table and segments is there: on to the next."""
        if reading.answer is None:
            reading.answer = answer = wire.answer_of(reading.raw)
            if answer.new_bytes:
                self._landing.add(answer.block, self._descriptors.popleft(), answer.new_bytes)
            reading.expect(bytearray(8 * answer.segments))
            return None
        answer = reading.answer
        if reading.memory is None:
            reading.sizes = wire.sizes_of(reading.raw)
            total = wire.total_bytes(reading.sizes)
            if answer.block == wire.INLINE:
                reading.memory = fresh(total)
                reading.missing = reading.memory.data
                return None
            reading.memory = self._landing.lend(answer.block, total)
        landing = None if answer.block == wire.INLINE else self._landing
        return Arrived(answer.kind, answer.epoch, answer.number, reading.memory, reading.sizes, landing)


class _Reading:
    """How far the answer is that is being read."""

    def __init__(self) -> None:
        self.answer: wire.Answer | None = None
        self.sizes: list[int] = []
        self.memory: Memory | None = None
        self.expect(bytearray(wire.ANSWER_BYTES))

    def expect(self, raw: bytearray) -> None:
        self.raw = raw
        self.missing = memoryview(raw)
