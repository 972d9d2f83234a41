from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.loader.workers.works import gone, is_alive

_CONSUMER = """
import sys, time
from tests.loader.workers.works import a_pool
with a_pool(workers=2, start_method=sys.argv[1]) as consumer:
    for worker in range(2):
        consumer.submit("next", worker=worker)
        consumer.collect(worker)
    consumer.submit(("always", "hang"))
    print(*consumer.pool.pids, consumer.pool.fork_server_pid or "", flush=True)
    time.sleep(60)
"""


_SLOW = [pytest.param(start, marks=pytest.mark.slow) for start in ("forkserver", "spawn")]


@pytest.mark.parametrize("start", ["fork", *_SLOW])
def test_nothing_is_left_when_the_consumer_is_killed(start: str) -> None:
    consumer, pids = _started(start)

    consumer.kill()
    consumer.wait()

    assert gone(pids)


def test_nothing_is_left_when_the_nursery_and_then_the_consumer_are_killed() -> None:
    """One of the workers hangs: nobody is left who could end it, but for the kernel."""
    consumer, pids = _started("fork")

    os.kill(pids[-1], signal.SIGKILL)
    assert gone(pids[-1:])
    assert all(map(is_alive, pids[:-1]))
    consumer.kill()
    consumer.wait()

    assert gone(pids)


def _started(start: str) -> tuple[subprocess.Popen[str], list[int]]:
    command = [sys.executable, "-c", _CONSUMER, start]
    consumer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert consumer.stdout
    with consumer.stdout:
        pids = [int(word) for word in consumer.stdout.readline().split()]
    assert all(map(is_alive, pids))
    return consumer, pids
