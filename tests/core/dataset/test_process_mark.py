from __future__ import annotations

import json
import subprocess
import sys

from wdsctl.core.dataset.lock import is_process_running, process_identity

MARK = "import json; from wdsctl.core.dataset.lock import process_identity; print(json.dumps(process_identity()))"


def test_this_process_runs() -> None:
    assert is_process_running(process_identity()) is True


def test_a_process_that_ended_does_not() -> None:
    ended = subprocess.run([sys.executable, "-c", MARK], capture_output=True, text=True, check=True)
    told = json.loads(ended.stdout)
    assert is_process_running(told) is False


def test_a_pid_that_was_given_out_again_is_another_process() -> None:
    assert is_process_running({**process_identity(), "born": "1"}) is False


def test_of_another_machine_nothing_can_be_told() -> None:
    assert is_process_running({**process_identity(), "host": "elsewhere"}) is None
    assert is_process_running({}) is None
