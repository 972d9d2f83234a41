"""Child processes that are killed at moments which depend on their calls and not on the speed of the machine."""

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
from typing import Any

from tests import children

_SITECUSTOMIZE_FOLDER = Path(__file__).parent / "dying"
_TIMEOUT_SECONDS = 60  # for orphans to exit; normally they exit at once


@dataclass(frozen=True, slots=True)
class Moment:
    """Before the `nth` call of a function of `os` in a run, including the calls of its workers; 0 for never.

    All processes get the signal, or only the parent, whose workers must notice its end themselves.
    """

    seam: str
    nth: int
    parent_only: bool = False
    sends: signal.Signals = signal.SIGKILL


def environment(moment: Moment, counted: Path) -> dict[str, str]:
    """The environment that kills a Python program at that moment. `counted` gets one byte for each call."""
    counted.write_bytes(b"")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(_SITECUSTOMIZE_FOLDER), *filter(None, sys.path)]),
        "DIES_AT": f"{moment.seam} {moment.nth} {moment.parent_only} {int(moment.sends)} {counted}",
    }


def run_and_kill(
    command: Sequence[str | Path], moment: Moment, counted: Path, start: type[subprocess.Popen[Any]] = children.Popen
) -> bool:
    """Run the command up to that moment, and until its workers have ended. False if it succeeded before.

    Another exit code fails the test, as do workers that stay alive.
    """
    env = environment(moment, counted)
    process = start(command, env=env, stdout=subprocess.DEVNULL, start_new_session=True)
    code = process.wait()
    assert code in (0, -signal.SIGKILL)
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while _is_group_alive(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return code != 0


def _is_group_alive(group: int) -> bool:
    """Whether a process of this group runs; zombies do not count."""
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with suppress(OSError):
                state, _, process_group = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:3]
                if int(process_group) == group and state not in "ZX":
                    return True
    return False


def kill_moments(command: Sequence[str | Path], seam: str, number: int, counted: Path) -> Iterator[Moment]:
    """`number` moments of a run, including its first and its last call. Runs the command once to the end.

    At every second moment only the parent is killed.
    """
    assert not run_and_kill(command, Moment(seam, 0), counted)
    calls = counted.stat().st_size
    assert calls >= number > 1
    for i in range(number):
        yield Moment(seam, 1 + (calls - 1) * i // (number - 1), parent_only=bool(i % 2))


def kill_after_random_delay(command: Sequence[str | Path], most: float, rng: random.Random) -> None:
    """Kill the command and its workers after at most `most` seconds; nothing can be asserted about the moment."""
    process = children.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    time.sleep(rng.uniform(0, most))
    with suppress(ProcessLookupError):  # it has ended before
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
