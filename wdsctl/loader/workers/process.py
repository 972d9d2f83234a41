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
from wdsctl.loader.workers.failure import to_picklable, unpicklable_result_error
from wdsctl.loader.workers.options import TaskRunner, TaskRunnerFactory
from wdsctl.loader.workers.pickling import ByteSegment, ResultEncoder, segment_bytes
from wdsctl.loader.workers.ring import BlockPlacement, RingWriter, close_sent_descriptors, set_own_ring
from wdsctl.loader.workers.status_page import StatusPage, set_own_page

#: The signal that asks a worker for the stacks of its threads: a real-time signal, which programs seldom use.
DUMP_SIGNAL = signal.SIGRTMIN + 5 if sys.platform == "linux" else signal.SIGUSR2
#: Results up to this many bytes go through the socket in one piece.
_MAX_INLINE_BYTES = 8192


class WorkerDescriptors(NamedTuple):
    """The descriptors that a worker inherits."""

    channel: int
    page: int
    lifeline: int


def run_worker(
    index: int, runner_factory: TaskRunnerFactory, descriptors: WorkerDescriptors, ring_bytes: int | None
) -> None:
    """Serve commands until the consumer closes the channel or ends. The process should exit afterwards."""
    lifeline.die_with_writer(descriptors.lifeline)
    reset_signal_handlers()
    faulthandler.enable(descriptors.page, all_threads=True)
    faulthandler.register(DUMP_SIGNAL, descriptors.page, all_threads=True)
    page = StatusPage(descriptors.page)
    set_own_page(page)
    with socket.socket(fileno=descriptors.channel) as channel:
        channel.setblocking(True)
        ring = RingWriter(page, ring_bytes)
        set_own_ring(ring)
        server = _CommandLoop(index, runner_factory, page, channel, ring)
        try:
            server.serve()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            server.close()


class _CommandLoop:
    """Reads commands, runs tasks and sends replies."""

    def __init__(
        self,
        index: int,
        runner_factory: TaskRunnerFactory,
        status_page: StatusPage,
        channel: socket.socket,
        ring: RingWriter,
    ) -> None:
        self._index = index
        self._runner_factory = runner_factory
        self._status_page = status_page
        self._channel = channel
        self._ring = ring
        self._runner: TaskRunner | None = None
        self._is_stopped = False
        self._encode = ResultEncoder().encode

    def serve(self) -> NoReturn:
        """Run commands, one after the other. After an error, ignore them until the next OPEN_COMMAND."""
        while True:
            order = wire.parse_command(wire.read_exactly(self._channel, wire.COMMAND_BYTES))
            raw = wire.read_exactly(self._channel, order.payload_bytes)
            if order.epoch != self._status_page.epoch:
                continue
            if order.kind == wire.OPEN_COMMAND:
                self._open_runner(order, raw)
            elif self._runner is not None and not self._is_stopped:
                self._run_task(order, raw, self._runner)

    def close(self) -> None:
        work, self._runner = self._runner, None
        if work is not None:
            work.close()

    def _open_runner(self, command: wire.Command, raw: bytearray) -> None:
        try:
            self.close()
            self._is_stopped = False
            _use_one_thread()
            self._runner = self._runner_factory(self._index, pickle.loads(raw))  # noqa: S301 - from our own consumer
            _use_one_thread()
        except BaseException as error:  # noqa: BLE001 - the work is anybody's code; the consumer raises it
            self._send_error(command, error)
        self._status_page.mark_open()

    def _run_task(self, command: wire.Command, raw: bytearray, runner: TaskRunner) -> None:
        self._status_page.begin_task(command.number)
        try:
            segments = self._encode_result(runner.run_task(pickle.loads(raw)))  # noqa: S301 - from our own consumer
        except BaseException as error:  # noqa: BLE001 - the work is anybody's code; the consumer raises it
            self._status_page.end_task()
            self._send_error(command, error)
        else:
            # Before the reply: a worker that is killed right after the reply must not seem to have died of this task.
            self._status_page.end_task()
            self._send_reply(wire.RESULT_REPLY, command, segments)

    def _encode_result(self, result: Any) -> list[ByteSegment]:
        try:
            return self._encode(result)
        except Exception as error:
            raise unpicklable_result_error(error) from error

    def _send_error(self, command: wire.Command, error: BaseException) -> None:
        self._is_stopped = True
        self._send_reply(wire.ERROR_REPLY, command, self._encode(to_picklable(error, self._index)))

    def _send_reply(self, kind: int, command: wire.Command, segments: Sequence[ByteSegment]) -> None:
        sizes = [segment_bytes(segment) for segment in segments]
        placement = None
        if wire.total_aligned_bytes(sizes) > _MAX_INLINE_BYTES:
            placement = self._ring.write_result(segments, sizes)
        if placement is None:
            self._send_inline(kind, command, segments, sizes)
            self._ring.cancel_reservation()
        else:
            head = _reply_header(kind, command, placement, len(sizes)) + wire.pack_sizes(sizes)
            wire.send_with_descriptors(self._channel, head, placement.descriptors)
            close_sent_descriptors(placement)

    def _send_inline(
        self, kind: int, command: wire.Command, segments: Sequence[ByteSegment], sizes: Sequence[int]
    ) -> None:
        pieces: list[Any] = [
            _reply_header(kind, command, BlockPlacement(wire.INLINE_BLOCK), len(sizes)) + wire.pack_sizes(sizes)
        ]
        for segment, size in zip(segments, sizes, strict=True):
            pieces += [*segment, bytes(-size % 64)]
        if wire.total_aligned_bytes(sizes) <= _MAX_INLINE_BYTES:
            pieces = [b"".join(pieces)]
        for piece in pieces:
            self._channel.sendall(piece)


def _reply_header(kind: int, command: wire.Command, placement: BlockPlacement, segment_count: int) -> bytes:
    return wire.Reply(
        kind, command.epoch, command.number, placement.new_bytes, placement.block, segment_count
    ).to_bytes()


def reset_signal_handlers() -> None:
    """Ignore signals that have handlers. Ctrl-C reaches the whole process group, and schedulers warn every process, but
    only the training process should react."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _use_one_thread() -> None:
    """Set torch to one thread: parallelism comes from the number of workers, and more threads would only compete."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


def run_forked(serve: Callable[[], None]) -> NoReturn:
    """Run the rest of a forked process, which exits without the parent's cleanup."""
    code = 1
    try:
        with open(os.devnull) as null_device:
            os.dup2(null_device.fileno(), 0)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for the life of the process
        gc.freeze()
        serve()
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may reach the frames of the parent
        traceback.print_exc()
    finally:
        flush_output()
        os._exit(code)


def flush_output() -> None:
    """Flush the output buffers, so that a forked child does not print its parent's text again."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
