from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from types import FrameType
from typing import Any, cast

from wdsctl.loader.workers import slot as slot_module
from wdsctl.loader.workers.channel import Channel
from wdsctl.loader.workers.slot import WorkerSlot
from wdsctl.loader.workers.wire import Command


class FakeChannel:
    """A fake channel that records the numbers of the tasks sent."""

    def __init__(self) -> None:
        self.is_mid_frame = False
        self.numbers: list[int] = []

    def queue_command(self, order: Command, _raw: bytes) -> None:
        self.numbers.append(order.number)

    def send(self) -> None:
        self.is_mid_frame = False


def test_dispatch_sends_each_task_once() -> None:
    slot, channel = a_slot()
    for number in range(3, 9):
        slot.accepted_count = number - 2
        slot.add_task(b"task")
        slot.dispatch()

    assert channel.numbers == list(range(9))
    assert slot.pending_count == 3


def test_interrupt_between_any_bytecodes_leaves_no_task_unsent() -> None:
    """A message interrupted while being sent marks the channel as torn; if it is not torn, dispatch continues."""
    for place in count():
        slot, channel = a_slot()
        slot.accepted_count = 2
        was_interrupted = is_interrupted_at(partial(trim_and_add, slot), place)
        if slot.pending_count < 2:
            slot.add_task(b"task")
        if not channel.is_mid_frame:
            slot.dispatch()
            assert channel.numbers == [0, 1, 2, 3], place
        if not was_interrupted:
            break

    assert place > 20


def a_slot() -> tuple[WorkerSlot, FakeChannel]:
    """Return a slot with three tasks sent to its process."""
    slot, channel = WorkerSlot(0, None), FakeChannel()
    slot.channel = cast("Channel", channel)
    for _ in range(3):
        slot.add_task(b"task")
    slot.dispatch()
    return slot, channel


def trim_and_add(slot: WorkerSlot) -> None:
    assert slot.pending_count == 1
    slot.add_task(b"task")


def is_interrupted_at(call: Callable[[], Any], place: int) -> bool:
    """Interrupt the call before its `place`-th bytecode in the module of slots; return whether it was interrupted."""
    seen = 0

    def trace(frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename != slot_module.__file__:
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
