from __future__ import annotations

import json
import subprocess
import sys

from wdsctl.core.process_mark import is_running, mark

MARK = "import json; from wdsctl.core.process_mark import mark; print(json.dumps(mark()))"


def test_this_process_runs() -> None:
    assert is_running(mark()) is True


def test_a_process_that_ended_does_not() -> None:
    ended = subprocess.run([sys.executable, "-c", MARK], capture_output=True, text=True, check=True)
    told = json.loads(ended.stdout)
    assert is_running(told) is False


def test_a_pid_that_was_given_out_again_is_another_process() -> None:
    assert is_running({**mark(), "born": "1"}) is False


def test_of_another_machine_nothing_can_be_told() -> None:
    assert is_running({**mark(), "host": "elsewhere"}) is None
    assert is_running({}) is None
