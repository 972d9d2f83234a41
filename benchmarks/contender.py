"""What takes part in a row: a command, what must be so before each run, and what its result is checked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.measure import Cost


def _nothing() -> None:
    """For contenders that need no clean start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    name: str
    command: tuple[str, ...]
    #: Runs before every start, off the clock.
    before: Callable[[], None] = _nothing
    #: Reads what a run left behind and gives further figures by name. Raises ContenderError if the work was not done.
    after: Callable[[Cost], dict[str, float]]
