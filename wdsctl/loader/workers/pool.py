"""An ordered pool of stateful workers: each does its own tasks in order, and nothing that happens to it shows.

    pool = Pool(open_work, resume, workers=2)
    pool.submit(0, task); pool.submit(1, other); pool.send()
    result = pool.look(0)
    pool.accept(0, 0)

A worker that dies or hangs is replaced: the new one begins from `resume(worker)` and does again what was not accepted.
One thread at a time may use a pool.
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
from wdsctl.loader.workers.channel import Arrived, Channel
from wdsctl.loader.workers.failure import died_twice, how_it_ended, raised
from wdsctl.loader.workers.fresh import refuse_while_preparing
from wdsctl.loader.workers.launch import Launcher, launcher_for
from wdsctl.loader.workers.lifeline import send_signal
from wdsctl.loader.workers.options import PoolOptions
from wdsctl.loader.workers.page import dumped
from wdsctl.loader.workers.process import DUMP_SIGNAL
from wdsctl.loader.workers.seat import Resume, Seat
from wdsctl.loader.workers.work import OpenWork

#: How often `look` looks at its worker while nothing comes, in seconds.
_LOOK_EVERY = 0.25
#: How long a hung worker may take to tell its stack, in seconds.
_DUMP = 1.0
#: How long workers may take to end by themselves when the pool is closed, in seconds.
_END = 2.0
#: A task may end so many workers.
_DEATHS = 2


class Pool:
    """Starts its workers at once. Closes itself when it is no longer used and at the end of the program.

    Raises LoaderError where the work cannot be pickled and has to be (WDS531).
    """

    def __init__(
        self, open_work: OpenWork, resume: Resume, *, workers: int, options: PoolOptions | None = None
    ) -> None:
        if workers < 1:
            raise UsageError(f"a pool of {workers} workers", hint="give 1 or more")
        refuse_while_preparing()
        #: Bytes of the largest result that came.
        self.largest = 0
        self._options = options or PoolOptions()
        self._resume = resume
        self._seats = [Seat(index, self._options.ring_bytes) for index in range(workers)]
        self._launcher = launcher_for(open_work, self._options)
        self._closing = weakref.finalize(self, _close, self._seats, self._launcher, os.getpid())
        for seat in self._seats:
            seat.start(self._launcher, resume(seat.index))

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers, by index."""
        return [seat.pid for seat in self._seats]

    @property
    def nursery_pid(self) -> int | None:
        """Process id of the nursery; None where there is none."""
        return getattr(self._launcher, "pid", None)

    @property
    def submitted(self) -> int:
        """How many tasks were ever submitted, to all workers together."""
        return sum(seat.next_number for seat in self._seats)

    def accepted(self, worker: int) -> int:
        """How many results of a worker were accepted: the number of the task that is the next to be."""
        return self._seats[worker].accepted

    def submit(self, worker: int, task: Any) -> None:
        """One more task for a worker, after those it has. The task must pickle.

        The worker is told by the next `send`: to be woken once for several tasks costs less.
        """
        self._check_open()
        self._seats[worker].add(pickle.dumps(task, protocol=5))

    def send(self) -> None:
        """Tell all workers of what was submitted. Never waits."""
        for seat in self._seats:
            seat.dispatch()

    def look(self, worker: int) -> Any:
        """The result of the worker's oldest task that was not accepted, as often as it is asked for. It is the caller's
        own: nothing changes it. An interrupt loses nothing.

        What the task raised is raised here, with the worker's traceback as its cause; the worker then waits until
        `restart`. Raises LoaderError (WDS530) when a task ended two workers.
        """
        arrived = self._head(worker)
        value = arrived.value()
        if arrived.kind == wire.ERROR:
            raise raised(*value)
        return value

    def accept(self, worker: int, number: int) -> None:
        """The worker's results up to this one are the caller's, if they were not yet: they are not made again."""
        seat = self._seats[worker]
        seat.accepted = max(seat.accepted, number + 1)

    def _head(self, worker: int) -> Arrived:
        self._check_open()
        seat = self._seats[worker]
        if not seat.pending:
            raise UsageError(f"worker {worker} has nothing to do", hint="submit a task first")
        while (arrived := seat.head) is None:
            if seat.failure is not None:
                raise seat.failure
            self._advance(seat)
        self.largest = max(self.largest, arrived.memory.size)
        return arrived

    def restart(self, worker: int) -> None:
        """The worker begins again from `resume(worker)`, and does again what was not accepted.

        A process that can go on does.
        """
        self._check_open()
        seat = self._seats[worker]
        seat.failure = None
        seat.deaths.clear()
        resumed = self._resume(worker)
        if seat.channel and not seat.channel.is_torn and not seat.channel.is_ended:
            seat.begin_again(resumed)
        else:
            self._dismiss(seat)
            seat.start(self._launcher, resumed)

    def close(self) -> None:
        """Ends the workers and the nursery. Results that were looked at stay as they are."""
        self._closing()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        return not self._closing.alive

    def _check_open(self) -> None:
        if self.is_closed:
            raise UsageError("the pool is closed", hint="make a new one")

    def _advance(self, seat: Seat) -> None:
        """One step towards the next answer: read, start, replace, or wait a little."""
        channel = seat.channel
        if channel is None or channel.is_torn:
            self._dismiss(seat)
            seat.start(self._launcher, self._resume(seat.index))
            return
        seat.dispatch()
        if arrived := channel.receive():
            channel.is_torn = True
            if not seat.take(arrived):
                seat.kill()
                self._died(seat, channel, f"answered task {arrived.number} where task {seat.due} was due")
                return
            channel.is_torn = False
        elif channel.is_ended:
            self._died(seat, channel)
        else:
            self._wait(seat, channel)

    def _wait(self, seat: Seat, channel: Channel) -> None:
        patience = self._options.patience(is_open=channel.page.is_open)
        longest = _LOOK_EVERY if patience is None else min(_LOOK_EVERY, patience / 4)
        start = time.monotonic()
        has_news = channel.wait(longest)
        if has_news or channel.page.signs != seat.signs:
            seat.signs, seat.silence = channel.page.signs, 0.0
            return
        # Only what was waited here counts: not the time that this whole process was stopped, or trained.
        seat.silence += min(time.monotonic() - start, longest)
        if patience is not None and seat.silence >= patience:
            self._hung(seat, channel, patience)

    def _hung(self, seat: Seat, channel: Channel, patience: float) -> None:
        send_signal(seat.pid, channel.handle, DUMP_SIGNAL)
        until = time.monotonic() + _DUMP
        text = ""
        while time.monotonic() < until and (not text or text != dumped(channel.page_at)):
            text = dumped(channel.page_at)
            time.sleep(0.1)  # so long a pause and nothing more came: it is whole
        seat.kill()
        self._died(seat, channel, f"hung (no result for {patience:g} s)")

    def _died(self, seat: Seat, channel: Channel, how: str = "") -> None:
        """Makes room for another process, or keeps why there will be none."""
        code = self._launcher.exit_code(seat.pid)
        how = how or how_it_ended(code)
        at, doing, stack = seat.at, channel.page.text, dumped(channel.page_at)
        seat.leave()
        seat.deaths[at] += 1
        if seat.deaths[at] >= _DEATHS:
            seat.failure = died_twice(seat.index, how, doing, stack)
            return
        where = f", at {doing}" if doing else ""
        self._options.say(f"worker {seat.index} {how}{where}; it is replaced{f'{chr(10)}{stack}' if stack else ''}")

    def _dismiss(self, seat: Seat) -> None:
        """Ends a process whose channel is of no use any more."""
        if seat.channel:
            seat.kill()
            self._launcher.exit_code(seat.pid)
            seat.leave()


def _close(seats: Sequence[Seat], launcher: Launcher, owner: int) -> None:
    """Workers are asked, waited for together, and killed; the nursery comes last."""
    if os.getpid() != owner:
        return
    try:
        _wait_for_the_end([seat.channel for seat in seats if seat.channel])
    finally:  # who is interrupted here will not be asked to close again
        for seat in seats:
            seat.kill()
            seat.leave()
            seat.clear()
        launcher.close()


def _wait_for_the_end(channels: Sequence[Channel]) -> None:
    for channel in channels:
        channel.hang_up()
    until = time.monotonic() + _END
    for channel in channels:
        if channel.handle is not None:
            poll = select.poll()
            poll.register(channel.handle, select.POLLIN)
            poll.poll(max(0.0, until - time.monotonic()) * 1000)
