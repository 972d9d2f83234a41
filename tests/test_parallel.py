"""Tests in several processes: the same reports as in one, also if a test ends its process or Ctrl-C ends the run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import children

ROOT = Path(__file__).parents[1]
FIRST = """
import os, pytest
@pytest.mark.parametrize("i", range(20))
def test_passes(i, tmp_path): assert tmp_path.exists()
def test_fails(): assert 1 == 2
def test_is_skipped(): pytest.skip("no reason")
"""
SECOND = """
import os, pytest, time
def test_dies(): os._exit(7)
def test_runs_after_it(): pass
@pytest.mark.timeout(0.2)
def test_waits():
    try: time.sleep(60)
    except Exception: pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_first.py").write_text(FIRST)
    return tmp_path


def command(*arguments: str) -> list[str]:
    plugins = ["-p", "tests.parallel", "-p", "no:randomly", "-p", "no:cacheprovider"]
    return [sys.executable, "-m", "pytest", *plugins, "-q", "-rs", *arguments]


def run(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DEBUG_TEMPROOT": str(folder)}
    done = children.run(command(*arguments), cwd=folder, env=environment, capture_output=True, text=True)
    return f"{done.returncode} {done.stdout}"


def count_outcomes(output: str) -> set[str]:
    return set(re.findall(r"\d+ (?:passed|failed|skipped)", output))


def test_several_processes_report_what_one_reports(folder: Path) -> None:
    one, several = run(folder), run(folder, "--processes", "3")

    assert count_outcomes(several) == count_outcomes(one) == {"20 passed", "1 failed", "1 skipped"}
    assert one[0] == several[0] == "1"
    assert "assert 1 == 2" in several
    assert "no reason" in several


def test_test_that_ends_its_process_or_waits_too_long_has_failed_and_others_still_run(folder: Path) -> None:
    (folder / "test_second.py").write_text(SECOND)

    output = run(folder, "--processes", "2")

    assert count_outcomes(output) == {"21 passed", "3 failed", "1 skipped"}
    assert "Timeout (>0.2s)" in output
    assert "the process of this test has ended with exit code 7" in output


def test_option_x_ends_run_at_first_failure(folder: Path) -> None:
    (folder / "test_first.py").write_text(
        "import pytest\ndef test_fails(): assert 0\n@pytest.mark.parametrize('i', range(500))\ndef test_passes(i): pass"
    )

    output = run(folder, "--processes", "2", "-x")

    assert "stopping after 1 failures" in output
    assert "500 passed" not in output


def test_ctrl_c_ends_all_processes_and_closes_their_fixtures(folder: Path) -> None:
    (folder / "test_first.py").write_text(
        "import os, pathlib, pytest, time\n"
        "@pytest.fixture(scope='session')\n"
        "def opened():\n"
        "    path = pathlib.Path(f'open-{os.getpid()}')\n"
        "    path.touch()\n"
        "    yield\n"
        "    path.unlink()\n"
        "@pytest.mark.parametrize('i', range(2))\n"
        "def test_waits(opened, i): time.sleep(60)\n"
        "@pytest.mark.parametrize('i', range(20))\n"
        "def test_passes(i): pass\n"
    )
    (folder / "test_second.py").write_text((folder / "test_first.py").read_text())
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DEBUG_TEMPROOT": str(folder)}
    with children.Popen(
        command("--processes", "2"), cwd=folder, env=environment, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        while len(list(folder.glob("open-*"))) < 2:
            assert process.poll() is None
            time.sleep(0.01)
        pids = [int(path.name.removeprefix("open-")) for path in folder.glob("open-*")]
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)

    assert process.returncode == 2
    assert "KeyboardInterrupt" in output
    assert not list(folder.glob("open-*"))
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
