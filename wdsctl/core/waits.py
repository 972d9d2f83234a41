"""What a process waits for: stores that have not answered, and are asked again. The progress of a command shows it.

Worker processes send their waits to the process of the command (`wdsctl/core/processes.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Waits:
    """`by_store`: the store that is waited for -> (text for the user, from when to when it is shown)."""

    by_store: dict[str, tuple[str, float, float]] = field(default_factory=dict)
    send: Callable[[tuple[str, str, float]], None] | None = None


_WAITS = _Waits()


def note_wait(store: str, text: str, seconds: float) -> None:
    """Show `text` for at most `seconds`. An empty text ends the wait."""
    now = time.monotonic()
    if text:
        _WAITS.by_store[store] = (text, now, now + seconds)
    else:
        _WAITS.by_store.pop(store, None)
    if _WAITS.send is not None:
        _WAITS.send((store, text, seconds))


def expect_answer(store: str, text: str, after_seconds: float) -> None:
    """Show `text` if the store has not answered after some seconds. Workers do not send it: every request expects one.

    A wait that is shown already stays.
    """
    now = time.monotonic()
    if store not in _WAITS.by_store or _WAITS.by_store[store][2] <= now:
        _WAITS.by_store[store] = (text, now + after_seconds, math.inf)


def end_wait(store: str) -> None:
    """The store has answered."""
    text, start, _ = _WAITS.by_store.pop(store, ("", 0.0, 0.0))
    if text and start <= time.monotonic() and _WAITS.send is not None:
        _WAITS.send((store, "", 0.0))


def current_wait() -> str:
    """What the process waits for now; empty for nothing."""
    now = time.monotonic()
    return next((text for text, start, end in list(_WAITS.by_store.values()) if start <= now < end), "")


def send_waits(send: Callable[[tuple[str, str, float]], None]) -> None:
    """Send all waits of this process to another one, which passes them to `note_wait`."""
    _WAITS.send = send
