from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests import children
from wdsctl.core.errors import DatasetError, StorageError
from wdsctl.core.jobs import LocalProcesses
from wdsctl.core.processes import warm_up_workers
from wdsctl.core.safe_open import ALLOW_PATH_VARIABLE, allow_path
from wdsctl.core.waits import current_wait, end_wait, note_wait


def square(n: int) -> int:
    return n * n


def process_of(_: int) -> int:
    return os.getpid()


def wait_for_other_process(folder: str) -> int:
    """Waits until another process runs, too."""
    with open(f"{folder}/{os.getpid()}", "w", encoding="ascii"):
        while len(os.listdir(folder)) < 2:
            time.sleep(0.01)
    return os.getpid()


def wait_for_store(n: int) -> int:
    note_wait(f"s3://{n}", f"waiting for s3://{n} (retry 3)", 60.0)
    return n


def fail_at_three(n: int) -> int:
    if n == 3:
        raise DatasetError("three", hint="not three", where="unit 3", code="WDS202")
    return n


def die_at_three(n: int) -> int:
    if n == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def mark_and_wait(folder: str) -> None:
    """Creates a file, waits until it is stopped, and removes the file."""
    path = f"{folder}/{os.getpid()}"
    try:
        with open(path, "x", encoding="ascii"):
            time.sleep(600)
    finally:
        os.unlink(path)


def allowed_folders(_: int) -> str | None:
    return os.environ.get(ALLOW_PATH_VARIABLE)


def test_allowed_paths_apply_to_next_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ALLOW_PATH_VARIABLE, raising=False)
    assert dict(LocalProcesses(2).run(allowed_folders, range(2))) == {0: None, 1: None}
    monkeypatch.setenv(ALLOW_PATH_VARIABLE, "")
    allow_path(str(tmp_path))
    assert dict(LocalProcesses(2).run(allowed_folders, range(2))) == {0: str(tmp_path), 1: str(tmp_path)}
    monkeypatch.delenv(ALLOW_PATH_VARIABLE)
    assert dict(LocalProcesses(2).run(allowed_folders, range(2))) == {0: None, 1: None}


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 2, 20])
def test_every_unit_yields_its_result_once(workers: int, n: int) -> None:
    assert sorted(LocalProcesses(workers).run(square, range(n))) == [(i, i * i) for i in range(n)]


@pytest.mark.parametrize(("workers", "n"), [(1, 5), (4, 1)])
def test_one_worker_or_one_unit_runs_in_this_process(workers: int, n: int) -> None:
    assert {pid for _, pid in LocalProcesses(workers).run(process_of, range(n))} == {os.getpid()}


def test_several_workers_are_several_processes(tmp_path: Path) -> None:
    pids = {pid for _, pid in LocalProcesses(2).run(wait_for_other_process, [str(tmp_path)] * 8)}

    assert len(pids) == 2
    assert os.getpid() not in pids


def test_warmed_up_pool_works_normally() -> None:
    before = signal.getsignal(signal.SIGINT)

    warm_up_workers(["wdsctl.core.shards.write"])

    assert sorted(LocalProcesses(2).run(square, range(3))) == [(0, 0), (1, 1), (2, 4)]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("workers", [1, 2])
def test_unit_error_is_raised_unchanged(workers: int) -> None:
    with pytest.raises(DatasetError) as caught:
        list(LocalProcesses(workers).run(fail_at_three, range(10)))

    error = caught.value
    assert (error.message, error.hint, error.where, error.code) == ("three", "not three", "unit 3", "WDS202")


def test_dead_worker_is_reported_with_hint() -> None:
    with pytest.raises(StorageError) as caught:
        list(LocalProcesses(2).run(die_at_three, range(10)))

    assert caught.value.code == "WDS405"
    assert "--workers" in caught.value.hint


def test_failure_to_start_workers_is_reported() -> None:
    program = """
import os, resource
from wdsctl.core.errors import StorageError
from wdsctl.core.errors import translate_os_errors
from wdsctl.core.jobs import LocalProcesses
used = len(os.listdir("/dev/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (used + int(os.environ["FREE"]), used + 40))
try:
    with translate_os_errors("a catalog"):
        list(LocalProcesses(4).run(abs, range(9)))
except StorageError as error:
    print(error.code, error.where == "", error.message)
"""
    for free in ("0", "3", "8"):  # too few for the server, for its pipes, for the workers
        completed = children.run(
            [sys.executable, "-c", program],
            env=os.environ | {"FREE": free},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert completed.stdout.startswith("WDS407 True cannot start worker processes: Too many open files"), completed


def test_units_are_consumed_lazily() -> None:
    taken: list[int] = []

    def units() -> Iterator[int]:
        for i in range(1_000):
            taken.append(i)
            yield i

    with closing(LocalProcesses(2).run(square, units())) as results:
        next(results)
        assert len(taken) <= 2 * 2


def test_closing_results_stops_running_units_and_lets_them_clean_up(tmp_path: Path) -> None:
    with closing(LocalProcesses(2).run(mark_first, [str(tmp_path)] * 3)) as results:
        next(results)
        while not os.listdir(tmp_path):
            time.sleep(0.01)

    assert os.listdir(tmp_path) == []


def mark_first(folder: str) -> None:
    """The first call returns at once, the others wait for ever."""
    try:
        os.mkdir(f"{folder}.first")
    except FileExistsError:
        mark_and_wait(folder)


SCRIPT = """
from __future__ import annotations
import sys
sys.path.insert(0, {tests!r})
from test_processes import mark_and_wait
from wdsctl.core.jobs import LocalProcesses
print("main", flush=True)
list(LocalProcesses(2).run(mark_and_wait, [{folder!r}] * 4))
"""


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process whose two workers are at work, each of which has a file in the folder. It has no `__main__` guard."""
    folder = tmp_path / "marks"
    folder.mkdir()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=os.path.dirname(__file__), folder=str(folder)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with children.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    ) as process:
        while len(os.listdir(folder)) < 2:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        yield process, folder
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_workers_exit_when_parent_is_killed(busy: tuple[subprocess.Popen[bytes], Path]) -> None:
    process, folder = busy
    workers = [int(name) for name in os.listdir(folder)]
    assert all(map(is_alive, workers))

    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.01)

    assert not any(map(is_alive, workers))


def test_ctrl_c_is_reported_by_parent_only_and_leaves_no_files(busy: tuple[subprocess.Popen[bytes], Path]) -> None:
    process, folder = busy

    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert os.listdir(folder) == []
    assert err.count(b"Traceback") == 1, err.decode()
    assert err.rstrip().endswith(b"KeyboardInterrupt")
    assert out == b"main\n"


@pytest.mark.parametrize(
    "moment", ["return _launch", "return _spawn_process", "call _start_executor_manager_thread", "return submit"]
)
def test_ctrl_c_during_worker_start_leaves_no_traceback(moment: str) -> None:
    script = """
import os, signal, sys
from wdsctl.core.jobs import LocalProcesses

def interrupt(frame, event, _):
    if (event, frame.f_code.co_name) == (sys.argv[1], sys.argv[2]):
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)

sys.setprofile(interrupt)
try:
    list(LocalProcesses(2).run(abs, range(9)))
except KeyboardInterrupt:
    print("interrupted")
"""
    command = [sys.executable, "-c", script, *moment.split()]
    completed = children.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (completed.stdout, completed.stderr) == ("interrupted\n", "")


def test_worker_stopped_in_destructor_exits_silently() -> None:
    program = """
import os, signal, sys, time
from wdsctl.core import processes

class Busy:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)

def unit(seconds):
    busy = Busy()
    del busy
    time.sleep(seconds)

sys.unraisablehook = processes._stop_after_destructor
processes._run_in_worker(unit, 30)
"""
    completed = children.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False)

    assert (completed.returncode, completed.stderr) == (1, "")


def test_waits_of_workers_are_those_of_their_parent() -> None:
    assert sorted(result for _, result in LocalProcesses(2).run(wait_for_store, range(2))) == [0, 1]

    shown = current_wait()
    end_wait("s3://0")
    end_wait("s3://1")

    assert shown in ("waiting for s3://0 (retry 3)", "waiting for s3://1 (retry 3)")
    assert current_wait() == ""
