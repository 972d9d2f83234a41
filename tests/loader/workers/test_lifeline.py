from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests import children
from tests.loader.workers.task_runners import is_alive, wait_until_gone

_CONSUMER = """
import sys, time
from tests.loader.workers.task_runners import a_pool
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
def test_workers_end_when_consumer_is_killed(start: str) -> None:
    consumer, pids = _start_consumer(start)

    consumer.kill()
    consumer.wait()

    assert wait_until_gone(pids)


def test_workers_end_when_fork_server_and_consumer_are_killed() -> None:
    """One of the workers hangs: only the kernel can end it."""
    consumer, pids = _start_consumer("fork")

    os.kill(pids[-1], signal.SIGKILL)
    assert wait_until_gone(pids[-1:])
    assert all(map(is_alive, pids[:-1]))
    consumer.kill()
    consumer.wait()

    assert wait_until_gone(pids)


def _start_consumer(start: str) -> tuple[subprocess.Popen[str], list[int]]:
    command = [sys.executable, "-c", _CONSUMER, start]
    consumer = children.Popen(command, stdout=subprocess.PIPE, text=True, parent="training")
    assert consumer.stdout
    with consumer.stdout:
        pids = [int(word) for word in consumer.stdout.readline().split()]
    assert all(map(is_alive, pids))
    return consumer, pids
