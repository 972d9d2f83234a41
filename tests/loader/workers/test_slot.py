from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from types import FrameType
from typing import Any, cast

from wdsctl.loader.workers import slot as seat_module
from wdsctl.loader.workers.channel import Channel
from wdsctl.loader.workers.slot import WorkerSlot
from wdsctl.loader.workers.wire import Command


class Told:
    """Stands for a channel: keeps the numbers of the tasks that were ordered."""

    def __init__(self) -> None:
        self.is_torn = False
        self.numbers: list[int] = []

    def queue_command(self, order: Command, _raw: bytes) -> None:
        self.numbers.append(order.number)

    def send(self) -> None:
        self.is_torn = False


def test_each_task_is_ordered_once_as_they_come_and_go() -> None:
    seat, told = a_seat()
    for number in range(3, 9):
        seat.accepted_count = number - 2
        seat.add_task(b"task")
        seat.dispatch()

    assert told.numbers == list(range(9))
    assert seat.pending_count == 3


def test_an_interrupt_between_any_two_bytecodes_leaves_no_task_untold() -> None:
    """What was being told is torn and told anew to another process; what was not torn goes on where it was."""
    for place in count():
        seat, told = a_seat()
        seat.accepted_count = 2
        was_interrupted = interrupted(partial(trimmed_and_added, seat), place)
        if seat.pending_count < 2:
            seat.add_task(b"task")
        if not told.is_torn:
            seat.dispatch()
            assert told.numbers == [0, 1, 2, 3], place
        if not was_interrupted:
            break

    assert place > 20


def a_seat() -> tuple[WorkerSlot, Told]:
    """Three tasks, told to the process."""
    seat, told = WorkerSlot(0, None), Told()
    seat.channel = cast("Channel", told)
    for _ in range(3):
        seat.add_task(b"task")
    seat.dispatch()
    return seat, told


def trimmed_and_added(seat: WorkerSlot) -> None:
    assert seat.pending_count == 1
    seat.add_task(b"task")


def interrupted(call: Callable[[], Any], place: int) -> bool:
    """Whether the call was interrupted: before its `place`-th bytecode in the module of seats."""
    seen = 0

    def trace(frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename != seat_module.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen > place:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
