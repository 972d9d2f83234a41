"""An ordered pool of stateful workers: each runs its own tasks in order, and its deaths are invisible to the caller.

    pool = WorkerPool(runner_factory, resume_state_of, worker_count=2)
    pool.submit(0, task); pool.submit(1, other); pool.send()
    result = pool.peek(0)
    pool.accept(0, 0)

A worker that dies or hangs is replaced: the new one starts from `resume_state_of(worker)` and repeats what was not
accepted. One thread at a time may use a pool.
"""

from __future__ import annotations

import os
import pickle
import select
import time
import weakref
from collections.abc import Sequence
from typing import Any

from typing_extensions import Self

from wdsctl.core.errors import UsageError
from wdsctl.loader.workers import wire
from wdsctl.loader.workers.channel import Channel, ReceivedReply
from wdsctl.loader.workers.failure import describe_exit, died_twice_error, with_worker_traceback, without_parent_frames
from wdsctl.loader.workers.launch import Launcher, open_launcher
from wdsctl.loader.workers.lifeline import send_signal
from wdsctl.loader.workers.options import PoolOptions, TaskRunnerFactory
from wdsctl.loader.workers.process import DUMP_SIGNAL
from wdsctl.loader.workers.slot import ResumeStateOf, WorkerSlot
from wdsctl.loader.workers.spawn import check_not_preparing
from wdsctl.loader.workers.status_page import read_stack_dump

#: How often `peek` checks its worker while nothing arrives, in seconds.
_POLL_SECONDS = 0.25
#: How long a hung worker may take to write its stack, in seconds.
_DUMP_SECONDS = 1.0
#: How long workers may take to end by themselves when the pool is closed, in seconds.
_EXIT_SECONDS = 2.0
#: Workers that one task may end.
_MAX_DEATHS_PER_TASK = 2


class WorkerPool:
    """An ordered pool of workers, which it starts immediately. Closes itself when it is freed and at program exit.

    Raises LoaderError if the runner factory must be pickled and cannot (WDS531).
    """

    def __init__(
        self,
        runner_factory: TaskRunnerFactory,
        resume_state_of: ResumeStateOf,
        *,
        worker_count: int,
        options: PoolOptions | None = None,
    ) -> None:
        if worker_count < 1:
            raise UsageError(f"worker_count is {worker_count}, expected 1 or more", hint="pass 1 or more")
        check_not_preparing()
        #: Bytes of the largest result that came.
        self.largest_result_bytes = 0
        self._options = options or PoolOptions()
        self._resume_state_of = resume_state_of
        self._slots = [WorkerSlot(index, self._options.ring_bytes) for index in range(worker_count)]
        self._launcher = open_launcher(runner_factory, self._options)
        self._finalizer = weakref.finalize(self, _close_pool, self._slots, self._launcher, os.getpid())
        for slot in self._slots:
            slot.start(self._launcher, resume_state_of(slot.index))

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers, by index."""
        return [slot.pid for slot in self._slots]

    @property
    def fork_server_pid(self) -> int | None:
        """Process id of the fork server; None if there is none."""
        return getattr(self._launcher, "pid", None)

    @property
    def submitted_count(self) -> int:
        """How many tasks were ever submitted, to all workers together."""
        return sum(slot.next_number for slot in self._slots)

    def accepted_count(self, worker: int) -> int:
        """How many results of a worker were accepted: the number of the task whose result is next."""
        return self._slots[worker].accepted_count

    def submit(self, worker: int, task: Any) -> None:
        """Queue a task for a worker. The task must be picklable.

        The next `send` sends it: waking a worker once for several tasks costs less.
        """
        self._check_open()
        self._slots[worker].add_task(pickle.dumps(task, protocol=5))

    def send(self) -> None:
        """Send all submitted tasks. Never waits."""
        for slot in self._slots:
            slot.dispatch()

    def peek(self, worker: int) -> Any:
        """The result of the worker's oldest task that was not accepted, the same at every call. The caller owns the
        result. An interrupt loses nothing.

        Raises what the task raised, with the worker's traceback as its cause; the worker then waits for `restart`.
        Raises LoaderError (WDS530) if a task ended two workers.
        """
        arrived = self._wait_for_reply(worker)
        value = arrived.decode_value()
        if arrived.kind == wire.ERROR_REPLY:
            raise with_worker_traceback(*value)
        return value

    def accept(self, worker: int, number: int) -> None:
        """Accept the worker's results up to this one, unless they are accepted already: they are never made again."""
        slot = self._slots[worker]
        slot.accepted_count = max(slot.accepted_count, number + 1)

    def _wait_for_reply(self, worker: int) -> ReceivedReply:
        self._check_open()
        slot = self._slots[worker]
        if not slot.pending_count:
            raise UsageError(f"worker {worker} has no task to wait for", hint="submit a task first")
        while (arrived := slot.oldest_reply) is None:
            if slot.failure is not None:
                raise slot.failure
            self._advance(slot)
        self.largest_result_bytes = max(self.largest_result_bytes, arrived.memory.size)
        return arrived

    def restart(self, worker: int) -> None:
        """Let the worker start again from `resume_state_of(worker)`, and repeat what was not accepted.

        A process that still runs is reused.
        """
        self._check_open()
        slot = self._slots[worker]
        slot.failure = None
        slot.deaths.clear()
        resumed = self._resume_state_of(worker)
        if slot.channel and not slot.channel.is_mid_frame and not slot.channel.is_ended:
            slot.reopen(resumed)
        else:
            self._end_process(slot)
            slot.start(self._launcher, resumed)

    def close(self) -> None:
        """End the workers and the fork server. Results that `peek` returned stay valid."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        return not self._finalizer.alive

    def _check_open(self) -> None:
        if self.is_closed:
            raise UsageError("the pool is closed", hint="create a new pool")

    def _advance(self, slot: WorkerSlot) -> None:
        """Make one step towards the next reply: read, start or replace the process, or wait a little."""
        channel = slot.channel
        if channel is None or channel.is_mid_frame:
            self._end_process(slot)
            slot.start(self._launcher, self._resume_state_of(slot.index))
            return
        slot.dispatch()
        if arrived := channel.receive():
            channel.is_mid_frame = True
            if not slot.take_reply(arrived):
                slot.kill()
                self._handle_death(
                    slot, channel, f"returned task {arrived.number}, expected task {slot.expected_number}"
                )
                return
            channel.is_mid_frame = False
        elif channel.is_ended:
            self._handle_death(slot, channel)
        else:
            self._wait(slot, channel)

    def _wait(self, slot: WorkerSlot, channel: Channel) -> None:
        timeout_seconds = self._options.hang_timeout_seconds(is_open=channel.status_page.is_open)
        longest = _POLL_SECONDS if timeout_seconds is None else min(_POLL_SECONDS, timeout_seconds / 4)
        start = time.monotonic()
        has_news = channel.wait(longest)
        if has_news or channel.status_page.heartbeats != slot.heartbeats:
            slot.heartbeats, slot.silent_seconds = channel.status_page.heartbeats, 0.0
            return
        # Only waiting time counts, not time in which this process was stopped or busy with training.
        slot.silent_seconds += min(time.monotonic() - start, longest)
        if timeout_seconds is not None and slot.silent_seconds >= timeout_seconds:
            self._replace_hung(slot, channel, timeout_seconds)

    def _replace_hung(self, slot: WorkerSlot, channel: Channel, timeout_seconds: float) -> None:
        send_signal(slot.pid, channel.process_handle, DUMP_SIGNAL)
        until = time.monotonic() + _DUMP_SECONDS
        text = ""
        while time.monotonic() < until and (not text or text != read_stack_dump(channel.page_descriptor)):
            text = read_stack_dump(channel.page_descriptor)
            time.sleep(0.1)  # the text is complete if nothing is added in this time
        slot.kill()
        self._handle_death(slot, channel, f"hung (no result for {timeout_seconds:g} s)")

    def _handle_death(self, slot: WorkerSlot, channel: Channel, exit_description: str = "") -> None:
        """Release a dead process so that another one is started, or record why none will be."""
        code = self._launcher.exit_code(slot.pid)
        exit_description = exit_description or describe_exit(code)
        at, doing = slot.current_task, channel.status_page.activity
        stack = without_parent_frames(read_stack_dump(channel.page_descriptor))
        slot.release_process()
        slot.deaths[at] += 1
        if slot.deaths[at] >= _MAX_DEATHS_PER_TASK:
            slot.failure = died_twice_error(slot.index, exit_description, doing, stack)
            return
        where = f", at {doing}" if doing else ""
        self._options.log_line(
            f"worker {slot.index} {exit_description}{where}; starting a new worker in its "
            f"place{f'{chr(10)}{stack}' if stack else ''}"
        )

    def _end_process(self, slot: WorkerSlot) -> None:
        """End a process whose channel is no longer usable."""
        if slot.channel:
            slot.kill()
            self._launcher.exit_code(slot.pid)
            slot.release_process()


def _close_pool(slots: Sequence[WorkerSlot], launcher: Launcher, owner_pid: int) -> None:
    """Ask the workers to end, wait for all together, and kill those that are left; the fork server comes last."""
    if os.getpid() != owner_pid:
        return
    try:
        _wait_for_exits([slot.channel for slot in slots if slot.channel])
    finally:  # after an interrupt here, close is not called again
        for slot in slots:
            slot.kill()
            slot.release_process()
            slot.drop_replies()
        launcher.close()


def _wait_for_exits(channels: Sequence[Channel]) -> None:
    for channel in channels:
        channel.hang_up()
    until = time.monotonic() + _EXIT_SECONDS
    for channel in channels:
        if channel.process_handle is not None:
            poll = select.poll()
            poll.register(channel.process_handle, select.POLLIN)
            poll.poll(max(0.0, until - time.monotonic()) * 1000)
