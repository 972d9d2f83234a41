from __future__ import annotations

import json
import subprocess
import sys

from wdsctl.core.dataset.lock import is_process_running, process_identity

IDENTITY_SCRIPT = (
    "import json; from wdsctl.core.dataset.lock import process_identity; print(json.dumps(process_identity()))"
)


def test_is_process_running_is_true_for_current_process() -> None:
    assert is_process_running(process_identity()) is True


def test_is_process_running_is_false_for_ended_process() -> None:
    ended = subprocess.run([sys.executable, "-c", IDENTITY_SCRIPT], capture_output=True, text=True, check=True)
    identity = json.loads(ended.stdout)
    assert is_process_running(identity) is False


def test_is_process_running_is_false_for_reused_pid() -> None:
    assert is_process_running({**process_identity(), "born": "1"}) is False


def test_is_process_running_is_unknown_for_other_machines() -> None:
    assert is_process_running({**process_identity(), "host": "elsewhere"}) is None
    assert is_process_running({}) is None
