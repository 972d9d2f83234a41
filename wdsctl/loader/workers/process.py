"""A worker process from its first line to its last."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from wdsctl.loader.workers import lifeline, wire
from wdsctl.loader.workers.failure import portable
from wdsctl.loader.workers.page import Page, become
from wdsctl.loader.workers.pickling import Encoder, Segment, size_of
from wdsctl.loader.workers.ring import Placed, Ring, sent
from wdsctl.loader.workers.room import lend_rooms_of
from wdsctl.loader.workers.work import OpenWork, Work

#: Asks a worker for the stack of its threads. Programs leave real-time signals alone.
DUMP_SIGNAL = signal.SIGRTMIN + 5 if sys.platform == "linux" else signal.SIGUSR2
#: Results up to this many bytes go through the socket in one piece.
_INLINE_BYTES = 8192


class Ends(NamedTuple):
    """The descriptors that a worker is given."""

    channel: int
    page: int
    lifeline: int


def be_worker(index: int, open_work: OpenWork, ends: Ends, ring_bytes: int | None) -> None:
    """Serves until the consumer closes or is gone. The process has nothing else to do afterwards."""
    lifeline.hold(ends.lifeline)
    leave_signals_to_the_consumer()
    faulthandler.enable(ends.page, all_threads=True)
    faulthandler.register(DUMP_SIGNAL, ends.page, all_threads=True)
    page = Page(ends.page)
    become(page)
    with socket.socket(fileno=ends.channel) as channel:
        channel.setblocking(True)
        ring = Ring(page, ring_bytes)
        lend_rooms_of(ring)
        server = _Server(index, open_work, page, channel, ring)
        try:
            server.serve()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            server.close()


class _Server:
    def __init__(self, index: int, open_work: OpenWork, page: Page, channel: socket.socket, ring: Ring) -> None:
        self._index = index
        self._open_work = open_work
        self._page = page
        self._channel = channel
        self._ring = ring
        self._work: Work | None = None
        self._is_stopped = False
        self._encode = Encoder().encode

    def serve(self) -> NoReturn:
        """Orders, one after the other. After an error nothing is done until the next OPEN."""
        while True:
            order = wire.order_of(wire.read_exactly(self._channel, wire.ORDER_BYTES))
            raw = wire.read_exactly(self._channel, order.size)
            if order.epoch != self._page.epoch:
                continue
            if order.kind == wire.OPEN:
                self._open(order, raw)
            elif self._work is not None and not self._is_stopped:
                self._do(order, raw, self._work)

    def close(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work.close()

    def _open(self, order: wire.Order, raw: bytearray) -> None:
        try:
            self.close()
            self._is_stopped = False
            _use_one_thread()
            self._work = self._open_work(self._index, pickle.loads(raw))  # noqa: S301 - from our own consumer
            _use_one_thread()
        except BaseException as error:  # noqa: BLE001 - the work is anybody's code; the consumer raises it
            self._failed(order, error)
        self._page.opened()

    def _do(self, order: wire.Order, raw: bytearray, work: Work) -> None:
        self._page.begin(order.number)
        try:
            segments = self._encode(work.do(pickle.loads(raw)))  # noqa: S301 - from our own consumer
        except BaseException as error:  # noqa: BLE001 - the work is anybody's code; the consumer raises it
            self._page.end()
            self._failed(order, error)
        else:
            # Before the answer: a worker that is killed right after it must not seem to have died of this task.
            self._page.end()
            self._send(wire.RESULT, order, segments)

    def _failed(self, order: wire.Order, error: BaseException) -> None:
        self._is_stopped = True
        self._send(wire.ERROR, order, self._encode(portable(error, self._index)))

    def _send(self, kind: int, order: wire.Order, segments: Sequence[Segment]) -> None:
        sizes = [size_of(segment) for segment in segments]
        placed = None
        if wire.total_bytes(sizes) > _INLINE_BYTES:
            placed = self._ring.place(segments, sizes)
        if placed is None:
            self._send_inline(kind, order, segments, sizes)
            self._ring.leave_room()
        else:
            head = _answer(kind, order, placed, len(sizes)) + wire.table(sizes)
            wire.send_with(self._channel, head, placed.descriptors)
            sent(placed)

    def _send_inline(self, kind: int, order: wire.Order, segments: Sequence[Segment], sizes: Sequence[int]) -> None:
        pieces: list[Any] = [_answer(kind, order, Placed(wire.INLINE), len(sizes)) + wire.table(sizes)]
        for segment, size in zip(segments, sizes, strict=True):
            pieces += [*segment, bytes(-size % 64)]
        if wire.total_bytes(sizes) <= _INLINE_BYTES:
            pieces = [b"".join(pieces)]
        for piece in pieces:
            self._channel.sendall(piece)


def _answer(kind: int, order: wire.Order, placed: Placed, segments: int) -> bytes:
    return wire.Answer(kind, order.epoch, order.number, placed.new_bytes, placed.block, segments).packed()


def leave_signals_to_the_consumer() -> None:
    """Ctrl-C goes to the whole group, and schedulers send their warnings to every process: the training decides."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _use_one_thread() -> None:
    """There are as many workers as there is work: threads of torch in each would only be in each other's way."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


def run_forked(serve: Callable[[], None]) -> NoReturn:
    """The rest of a process that was forked: it leaves without running what the parent meant to run at its end."""
    code = 1
    try:
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for the life of the process
        gc.freeze()
        serve()
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may reach the frames of the parent that lie below
        traceback.print_exc()
    finally:
        flush_output()
        os._exit(code)


def flush_output() -> None:
    """What stands in the buffers is written once, by the process that wrote it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
