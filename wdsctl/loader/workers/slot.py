"""One worker's place in a pool: its tasks that were not accepted, and its current process."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple

from wdsctl.loader.workers import wire
from wdsctl.loader.workers.channel import Channel, ReceivedReply
from wdsctl.loader.workers.launch import Launcher
from wdsctl.loader.workers.lifeline import send_signal
from wdsctl.loader.workers.process import WorkerDescriptors
from wdsctl.loader.workers.ring_reader import RingReader
from wdsctl.loader.workers.status_page import StatusPage, new_status_page


class QueuedTask(NamedTuple):
    number: int
    pickled_task: bytes


class WorkerSlot:
    """`accepted_count`: the number of results that the consumer accepted; later ones can be repeated."""

    def __init__(self, index: int, ring_bytes: int | None) -> None:
        self.index = index
        self.accepted_count = 0
        self.channel: Channel | None = None
        self.pid = 0
        #: The error that ended this worker for good.
        self.failure: Exception | None = None
        self.deaths: Counter[int] = Counter()
        self.silent_seconds = 0.0
        self.heartbeats = 0
        self._ring_bytes = ring_bytes
        self._tasks: deque[QueuedTask] = deque()
        self._replies: deque[ReceivedReply] = deque()
        #: The number of the first task that was not sent to the process.
        self._first_unsent = 0
        self._epoch = 0
        self._lifeline = -1

    @property
    def pending_count(self) -> int:
        self._drop_accepted()
        return len(self._tasks)

    @property
    def oldest_reply(self) -> ReceivedReply | None:
        """The reply to the oldest task that was not accepted."""
        self._drop_accepted()
        return self._replies[0] if self._replies else None

    @property
    def current_task(self) -> int:
        """The number of the task that the process runs, or would run next."""
        task = self.channel.status_page.task if self.channel else None
        return self.accepted_count + len(self._replies) if task is None else task

    @property
    def next_number(self) -> int:
        """The number of the next task, which is the number of tasks so far."""
        self._drop_accepted()
        return self._tasks[-1].number + 1 if self._tasks else self.accepted_count

    def add_task(self, pickled_task: bytes) -> None:
        self._tasks.append(QueuedTask(self.next_number, pickled_task))

    def take_reply(self, reply: ReceivedReply) -> bool:
        """Store a reply; drop one of an earlier epoch. False: the reply is not the expected one, nor will later ones
        be."""
        if reply.epoch != self._epoch:
            return True
        if reply.number != self.expected_number:
            return False
        self._replies.append(reply)
        return True

    @property
    def expected_number(self) -> int:
        """The number of the task whose reply comes next."""
        self._drop_accepted()
        return self.accepted_count + len(self._replies)

    def start(self, launcher: Launcher, resume_state: Any) -> None:
        """Start a new process at this state."""
        raw = pickle.dumps(resume_state, protocol=5)
        launcher.prepare()
        with contextlib.ExitStack() as undo:
            consumer_end, worker_end = socket.socketpair()
            undo.callback(consumer_end.close)
            page_at = new_status_page()
            undo.callback(os.close, page_at)
            reading, writing = os.pipe()
            undo.callback(os.close, writing)
            page = StatusPage(page_at)
            page.epoch = self._epoch + 1
            try:
                pid = launcher.launch(self.index, WorkerDescriptors(worker_end.fileno(), page_at, reading))
            finally:
                worker_end.close()
                os.close(reading)
            channel = Channel(consumer_end, page_at, RingReader(page, self._ring_bytes), page)
            channel.watch_process(pid)
            self.pid, self._lifeline, self.heartbeats = pid, writing, 0
            self.channel = channel
            undo.pop_all()
        self._open(channel, raw)

    def reopen(self, resume_state: Any) -> None:
        """Restart the runner in the same process, at this state."""
        if self.channel:
            self._open(self.channel, pickle.dumps(resume_state, protocol=5))

    def dispatch(self) -> None:
        """Queue new tasks, and send as much as possible."""
        channel = self.channel
        if channel is None or channel.is_mid_frame:
            return
        if self._tasks and self._tasks[-1].number >= self._first_unsent:
            channel.is_mid_frame = True
            for task in self._tasks:
                if task.number >= self._first_unsent:
                    channel.queue_command(
                        wire.Command(wire.TASK_COMMAND, self._epoch, task.number, len(task.pickled_task)),
                        task.pickled_task,
                    )
                    self._first_unsent = task.number + 1
        channel.send()

    def kill(self) -> None:
        if self.channel:
            send_signal(self.pid, self.channel.process_handle, signal.SIGKILL)

    def release_process(self) -> None:
        """Release the process, which is dead or about to end."""
        channel, self.channel = self.channel, None
        lifeline, self._lifeline = self._lifeline, -1
        if channel:
            channel.close()
        if lifeline >= 0:
            os.close(lifeline)

    def drop_replies(self) -> None:
        """Release all replies: memory that the consumer still uses stays."""
        self._tasks.clear()
        self._replies.clear()

    def _open(self, channel: Channel, pickled_state: bytes) -> None:
        channel.is_mid_frame = True
        self._drop_accepted()
        self._epoch += 1
        channel.status_page.epoch = self._epoch
        self._replies.clear()
        self._first_unsent = self.accepted_count
        self.silent_seconds = 0.0
        channel.queue_command(
            wire.Command(wire.OPEN_COMMAND, self._epoch, self.accepted_count, len(pickled_state)), pickled_state
        )
        channel.is_mid_frame = False
        self.dispatch()

    def _drop_accepted(self) -> None:
        while self._tasks and self._tasks[0].number < self.accepted_count:
            self._tasks.popleft()
        while self._replies and self._replies[0].number < self.accepted_count:
            self._replies.popleft()


#: The state from which a worker starts, by its index.
ResumeStateOf = Callable[[int], Any]
