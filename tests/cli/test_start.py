from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import a_dataset
from wdsctl.cli import start
from wdsctl.cli.interrupts import INTERRUPTED_MESSAGE


def test_interrupt_during_startup_prints_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == "wdsctl.cli.main":
                raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["wdsctl", "index", "shards"])
    monkeypatch.delitem(sys.modules, "wdsctl.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])

    with pytest.raises(SystemExit) as result:
        start.run()
    assert result.value.code == 130
    assert capsys.readouterr().err == f"{INTERRUPTED_MESSAGE}\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_stream_is_no_bug(tmp_path: Path, closed: str) -> None:
    root = a_dataset(tmp_path / "d", {"0.tar": {"x.txt": b"x"}})
    command = f'"{sys.executable}" -m wdsctl prepare "{root}" --workers 1 {closed}'
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, "bug" in result.stderr) == (0, False)
    assert ("0.tar" in result.stdout or "1 shard" in result.stdout) == (">&-" not in closed.replace("2>&-", ""))


# In the second case, stdin is closed too, and the next opened file gets its number.
@pytest.mark.parametrize("closed", [">&-", "<&- >&-"])
def test_child_processes_have_streams_that_were_closed(closed: str) -> None:
    check = 'import os, sys; sys.exit([i for i in range(3) if not os.path.exists(f"/proc/self/fd/{i}")] or 0)'
    program = (
        "import os, sys; from wdsctl.cli.start import open_closed_streams; open_closed_streams();"
        f"os.execv(sys.executable, [sys.executable, '-c', {check!r}])"
    )
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} {closed}"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux tells them")
@pytest.mark.parametrize(("setting", "expected"), [(None, "1"), ("3", "3")])
def test_numpy_starts_no_unneeded_threads(tmp_path: Path, setting: str | None, expected: str) -> None:
    root = a_dataset(tmp_path, {"a.jsonl": b'{"a": 1}\n'})
    program = """
import os, sys, time
from wdsctl.cli.start import run
try:
    run()
except SystemExit:
    used = os.environ["OPENBLAS_NUM_THREADS"]
    until_s = time.monotonic() + 10  # threads of wdsctl that were asked to end stay in the list until they have ended
    while len(os.listdir("/proc/self/task")) > int(used) and time.monotonic() < until_s:
        time.sleep(0.01)
    print(used, "numpy" in sys.modules, len(os.listdir("/proc/self/task")))
"""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    if setting is not None:
        environment["OPENBLAS_NUM_THREADS"] = setting
    done = subprocess.run(
        [sys.executable, "-c", program, "index", root], env=environment, capture_output=True, text=True, check=True
    )

    actual, imported, threads = done.stdout.splitlines()[-1].split()
    assert (actual, imported) == (expected, "True")
    assert int(threads) <= int(expected)


def test_command_in_removed_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "removed"
    folder.mkdir()
    run = (
        f"cd {shlex.quote(str(folder))} && rmdir {shlex.quote(str(folder))} && {shlex.quote(sys.executable)} -m wdsctl"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    done = subprocess.run(
        ["sh", "-c", f"{run} inspect shards"], capture_output=True, text=True, timeout=60, check=False, env=environment
    )

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error[WDS002]: the current folder has been removed\n  help: change into")
