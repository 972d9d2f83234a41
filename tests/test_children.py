"""Children of warm parents run programs as a fresh Python does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import wdsctl
from tests import children


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    result: subprocess.CompletedProcess[str] = children.run(
        [sys.executable, *arguments], capture_output=True, text=True, **options
    )
    return result


DESCRIBE = """
import json, os, signal, sys, warnings
json.dump([__name__, sys.argv, sys.path[0], os.getcwd(), dict(os.environ), sys.stdin.read(), sys.stdout.name,
           signal.getsignal(signal.SIGINT) is signal.default_int_handler, os.getpid() == os.getsid(0),
           sorted(int(each) for each in os.listdir("/proc/self/fd"))[:-1],
           [sys.stdout.encoding, sys.stderr.errors, sys.stdout.line_buffering]], sys.stdout)
"""


@pytest.mark.parametrize("way", ["-c", "-m", "script"])
def test_child_finds_what_fresh_python_finds(way: str, tmp_path: Path) -> None:
    (tmp_path / "described.py").write_text(DESCRIBE)
    arguments = {"-c": ["-c", DESCRIBE], "-m": ["-m", "described"], "script": [str(tmp_path / "described.py")]}[way]
    command = [sys.executable, *arguments, "one", "--two"]
    environment = {**os.environ, "ONE": "1", "PYTHONPATH": str(tmp_path)}

    fresh, forked = (
        starter(
            command, input="typed", capture_output=True, text=True, check=True,
            env=environment, cwd=tmp_path, start_new_session=True,
        ).stdout
        for starter in (subprocess.run, children.run)
    )  # fmt: skip

    assert forked == fresh


@pytest.mark.parametrize(
    "program",
    [
        "pass",
        "import sys; sys.exit(3)",
        "import sys; sys.exit('no')",
        "1 / 0",
        "import os, signal; os.kill(os.getpid(), 9)",
    ],
)
def test_child_ends_as_fresh_python_ends(program: str) -> None:
    fresh = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    forked = run("-c", program)

    assert (forked.returncode, forked.stdout, forked.stderr) == (fresh.returncode, fresh.stdout, fresh.stderr)


def test_child_runs_the_package_that_the_tests_import() -> None:
    """Another checkout may be installed in the virtual environment."""
    assert run("-c", "import wdsctl; print(wdsctl.__file__)").stdout.strip() == wdsctl.__file__


def test_child_starts_from_state_that_no_other_child_has_changed() -> None:
    change = "import os, wdsctl.core.urls; wdsctl.core.urls.is_url = None; os.environ['CHANGED'] = '1'; os.umask(0o77)"
    ask = "import os, wdsctl.core.urls; print(wdsctl.core.urls.is_url is None, 'CHANGED' in os.environ, os.umask(0))"

    before = run("-c", ask).stdout
    assert run("-c", change).returncode == 0
    assert run("-c", ask).stdout == before
    assert before.startswith("False False ")


def test_child_gets_signals_and_reports_its_process_id() -> None:
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    with children.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == -signal.SIGTERM


def test_child_that_takes_too_long_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run("-c", "import time; time.sleep(60)", timeout=0.1)


def test_child_runs_command_line_with_its_modules_imported() -> None:
    program = "import sys; imported = 'wdsctl.core.convert.convert' in sys.modules; print(imported)"

    assert run("-c", program).stdout == "True\n"
    assert run("-m", "wdsctl", "--version").returncode == 0


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "PYTHONUTF8", "LC_ALL"])
def test_variable_that_python_reads_at_start_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is read when Python starts"):
        run("-c", "pass", env={**os.environ, name: "1"})
