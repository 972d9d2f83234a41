"""One worker's place in a pool: its tasks that were not accepted, and the process that does them at present."""

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
from wdsctl.loader.workers.channel import Arrived, Channel
from wdsctl.loader.workers.landing import Landing
from wdsctl.loader.workers.launch import Launcher
from wdsctl.loader.workers.lifeline import send_signal
from wdsctl.loader.workers.page import Page, new_page
from wdsctl.loader.workers.process import Ends


class Task(NamedTuple):
    number: int
    raw: bytes


class Seat:
    """`accepted` counts the results that the consumer has; all else can be done again from there."""

    def __init__(self, index: int, ring_bytes: int | None) -> None:
        self.index = index
        self.accepted = 0
        self.channel: Channel | None = None
        self.pid = 0
        #: Why there is no process any more and none will be started.
        self.failure: Exception | None = None
        self.deaths: Counter[int] = Counter()
        self.silence = 0.0
        self.signs = 0
        self._ring_bytes = ring_bytes
        self._tasks: deque[Task] = deque()
        self._arrived: deque[Arrived] = deque()
        #: The first task that the process was not told of: a number and no count, so that nothing is to keep in step.
        self._unordered = 0
        self._epoch = 0
        self._lifeline = -1

    @property
    def pending(self) -> int:
        self._trim()
        return len(self._tasks)

    @property
    def head(self) -> Arrived | None:
        """The answer to the oldest task that was not accepted."""
        self._trim()
        return self._arrived[0] if self._arrived else None

    @property
    def at(self) -> int:
        """The number of the task that the process is at, or would have come to next."""
        task = self.channel.page.task if self.channel else None
        return self.accepted + len(self._arrived) if task is None else task

    @property
    def next_number(self) -> int:
        """The number that the next task will have: how many there were."""
        self._trim()
        return self._tasks[-1].number + 1 if self._tasks else self.accepted

    def add(self, raw: bytes) -> None:
        self._tasks.append(Task(self.next_number, raw))

    def take(self, arrived: Arrived) -> bool:
        """Keeps an answer; one to a question that nobody asks any more is let go. False: it is not the one that is due,
        and what comes after it will not be, either."""
        if arrived.epoch != self._epoch:
            return True
        if arrived.number != self.due:
            return False
        self._arrived.append(arrived)
        return True

    @property
    def due(self) -> int:
        """The number of the task whose answer comes next."""
        self._trim()
        return self.accepted + len(self._arrived)

    def start(self, launcher: Launcher, resumed: Any) -> None:
        """A new process, which begins from what `resume` gave."""
        raw = pickle.dumps(resumed, protocol=5)
        launcher.ready()
        with contextlib.ExitStack() as undo:
            mine, theirs = socket.socketpair()
            undo.callback(mine.close)
            page_at = new_page()
            undo.callback(os.close, page_at)
            reading, writing = os.pipe()
            undo.callback(os.close, writing)
            page = Page(page_at)
            page.epoch = self._epoch + 1
            try:
                pid = launcher.launch(self.index, Ends(theirs.fileno(), page_at, reading))
            finally:
                theirs.close()
                os.close(reading)
            channel = Channel(mine, page_at, Landing(page, self._ring_bytes), page)
            channel.watch(pid)
            self.pid, self._lifeline, self.signs = pid, writing, 0
            self.channel = channel
            undo.pop_all()
        self._open(channel, raw)

    def begin_again(self, resumed: Any) -> None:
        """The same process, from what `resume` gave."""
        if self.channel:
            self._open(self.channel, pickle.dumps(resumed, protocol=5))

    def dispatch(self) -> None:
        """Orders what was not ordered yet, and sends as much as goes."""
        channel = self.channel
        if channel is None or channel.is_torn:
            return
        if self._tasks and self._tasks[-1].number >= self._unordered:
            channel.is_torn = True
            for task in self._tasks:
                if task.number >= self._unordered:
                    channel.order(wire.Order(wire.TASK, self._epoch, task.number, len(task.raw)), task.raw)
                    self._unordered = task.number + 1
        channel.send()

    def kill(self) -> None:
        if self.channel:
            send_signal(self.pid, self.channel.handle, signal.SIGKILL)

    def leave(self) -> None:
        """Lets go of the process, which is dead or is to end."""
        channel, self.channel = self.channel, None
        lifeline, self._lifeline = self._lifeline, -1
        if channel:
            channel.close()
        if lifeline >= 0:
            os.close(lifeline)

    def clear(self) -> None:
        """Lets go of all answers: memory that the consumer has something in stays."""
        self._tasks.clear()
        self._arrived.clear()

    def _open(self, channel: Channel, raw: bytes) -> None:
        channel.is_torn = True
        self._trim()
        self._epoch += 1
        channel.page.epoch = self._epoch
        self._arrived.clear()
        self._unordered = self.accepted
        self.silence = 0.0
        channel.order(wire.Order(wire.OPEN, self._epoch, self.accepted, len(raw)), raw)
        channel.is_torn = False
        self.dispatch()

    def _trim(self) -> None:
        while self._tasks and self._tasks[0].number < self.accepted:
            self._tasks.popleft()
        while self._arrived and self._arrived[0].number < self.accepted:
            self._arrived.popleft()


#: What a worker is to begin from, by its index.
Resume = Callable[[int], Any]
