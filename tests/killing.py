"""Children that end by a signal, at moments that follow from what they do and not from how fast the machine is."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_FIRST_ON_THE_PATH = Path(__file__).parent / "dying"
_LONGEST = 60  # seconds that orphans may take: they need none


@dataclass(frozen=True, slots=True)
class Moment:
    """Before the `nth` call of a function of `os` in a run, its workers' calls counted with its own; 0 for never.

    All its processes get the signal, or its parent alone, whose workers are to see for themselves that it is gone.
    """

    seam: str
    nth: int
    parent_only: bool = False
    sends: signal.Signals = signal.SIGKILL


def environment(moment: Moment, counted: Path) -> dict[str, str]:
    """What makes any Python program end there. In `counted` there is a byte for each of the calls."""
    counted.write_bytes(b"")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(_FIRST_ON_THE_PATH), *filter(None, sys.path)]),
        "DIES_AT": f"{moment.seam} {moment.nth} {moment.parent_only} {int(moment.sends)} {counted}",
    }


def died(command: Sequence[str | Path], moment: Moment, counted: Path) -> bool:
    """Run it up to that moment, and until its workers have ended. False if it ended well before.

    Another end fails the test, as do workers that stay.
    """
    env = environment(moment, counted)
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, start_new_session=True)
    code = process.wait()
    assert code in (0, -signal.SIGKILL)
    patience = time.monotonic() + _LONGEST
    while _lives(process.pid):
        assert time.monotonic() < patience
        time.sleep(0.005)
    return code != 0


def _lives(group: int) -> bool:
    """Whether a process of this group runs; one that waits to be reaped does not."""
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with suppress(OSError):
                state, _, its_group = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:3]
                if int(its_group) == group and state not in "ZX":
                    return True
    return False


def moments(command: Sequence[str | Path], seam: str, number: int, counted: Path) -> Iterator[Moment]:
    """So many moments of a run, its first call and its last one among them. Runs it once, to the end.

    At every second moment the parent alone is killed.
    """
    assert not died(command, Moment(seam, 0), counted)
    calls = counted.stat().st_size
    assert calls >= number > 1
    for i in range(number):
        yield Moment(seam, 1 + (calls - 1) * i // (number - 1), parent_only=bool(i % 2))


def kill_by_the_clock(command: Sequence[str | Path], most: float, rng: random.Random) -> None:
    """Kill it and its workers after at most so many seconds, wherever they are: nothing may be asserted of where."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    time.sleep(rng.uniform(0, most))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
