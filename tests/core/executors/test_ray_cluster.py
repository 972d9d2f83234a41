from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.build import RecordingProgress, some_shards
from tests.core.executors.commands import COMMANDS, everything, fresh_input, run_locally
from wdsctl.cli.main import main
from wdsctl.core.dataset.root_spec import RootSpec
from wdsctl.core.errors import DatasetError, StorageError, UsageError
from wdsctl.core.executors import ray_cluster
from wdsctl.core.executors.ray_cluster import PathProbe, RayExecutor, check_paths, probe_paths, using_ray
from wdsctl.core.index.index import index_dataset
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.jobs import UnitBatch, make_executor

ray = pytest.importorskip("ray")

SHARDS = 60


class TwoNodes:
    """A cluster of two nodes with one CPU each, on this machine."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # Workers import the same modules as the tests.
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        self._node = self._cluster.add_node(num_cpus=1)
        self.address = str(self._cluster.address)

    def kill_node(self) -> None:
        self._cluster.remove_node(self._node, allow_graceful=False)

    def replace_node(self) -> None:
        self._node = self._cluster.add_node(num_cpus=1)

    def close(self) -> None:
        self._cluster.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def nodes() -> Iterator[TwoNodes]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = TwoNodes()
        yield cluster
        cluster.close()


@pytest.fixture
def executor(nodes: TwoNodes, notes: list[str]) -> Iterator[RayExecutor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with using_ray(nodes.address, None, notes.append):
            ray_executor = make_executor(1)
            assert isinstance(ray_executor, RayExecutor)
            yield ray_executor


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMMANDS)
def test_two_nodes_write_same_files_as_local_run(
    name: str, nodes: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, root = COMMANDS[name], tmp_path / "root"
    fresh_input(command, root)
    monkeypatch.chdir(root)
    expected = run_locally(command), everything(root)
    fresh_input(command, root)
    monkeypatch.chdir(root)
    with using_ray(nodes.address, None, print):
        code = run_locally(command)
    actual = everything(root)
    assert actual.keys() == expected[1].keys()
    for file in actual:
        assert actual[file] == expected[1][file], file
    assert code == expected[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_killed_node_does_not_change_result(nodes: TwoNodes, tmp_path: Path) -> None:
    roots = [some_shards(tmp_path / where / "data", SHARDS) for where in ("local", "ray")]
    for root in roots:
        for path in Path(root).iterdir():
            os.utime(path, (1_700_000_000, 1_700_000_000))
    index_dataset(RootSpec(roots[0]), IndexRequest(workers=1))
    killed: list[str] = []

    def kill() -> None:
        if not killed:
            killed.append("node")
            nodes.kill_node()

    progress = RecordingProgress(at_advance=kill)
    with using_ray(nodes.address, None, print):
        index_dataset(RootSpec(roots[1]), IndexRequest(workers=1), progress=progress)
    nodes.replace_node()
    assert killed
    assert everything(tmp_path / "local") == everything(tmp_path / "ray")


def make_batches(*units: Any) -> list[UnitBatch[Any]]:
    return [UnitBatch([unit], f"unit-{unit}") for unit in units]


@pytest.mark.slow
def test_unit_of_killed_worker_is_run_again(executor: RayExecutor, tmp_path: Path) -> None:
    marks = str(tmp_path)

    def die_once(batch: UnitBatch[int]) -> int:
        mark = os.path.join(marks, f"{batch.units[0]}")
        if not os.path.exists(mark):
            with open(mark, "w", encoding="ascii"):
                os.kill(os.getpid(), signal.SIGKILL)
        return batch.units[0]

    assert sorted(executor.run(die_once, make_batches(1, 2, 3))) == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.slow
def test_unit_that_always_kills_worker_raises_error_with_its_name(executor: RayExecutor) -> None:
    def die(batch: UnitBatch[int]) -> int:
        if batch.units[0] == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return batch.units[0]

    with pytest.raises(StorageError) as caught:
        list(executor.run(die, make_batches(1, 2)))
    assert (caught.value.code, caught.value.where) == ("WDS405", "unit-2")


@pytest.mark.slow
def test_error_of_unit_is_raised_unchanged(executor: RayExecutor) -> None:
    def fail(batch: UnitBatch[int]) -> int:
        raise DatasetError("no", hint="yes", where="here", code="WDS202")

    with pytest.raises(DatasetError) as caught:
        list(executor.run(fail, make_batches(1)))
    assert (caught.value.message, caught.value.where, caught.value.code) == ("no", "here", "WDS202")


@pytest.mark.slow
def test_at_most_two_units_per_worker_are_in_flight(executor: RayExecutor) -> None:
    started_units: list[int] = []

    def units() -> Iterator[UnitBatch[int]]:
        for i in range(20):
            started_units.append(i)
            yield UnitBatch([i], "")

    running = executor.run(lambda batch: batch.units[0], units())
    next(running)
    assert len(started_units) <= 2 * executor.workers
    running.close()


@pytest.mark.slow
def test_straggler_is_named_and_started_again(
    executor: RayExecutor, notes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_cluster, "_STRAGGLER_SECONDS", 2.0)
    mark = str(tmp_path / "mark")

    def slow_once(batch: UnitBatch[int]) -> int:
        if batch.units[0] == 9 and not os.path.exists(mark):
            with open(mark, "w", encoding="ascii"):
                time.sleep(120)
        return batch.units[0]

    started = time.monotonic()
    assert sorted(executor.run(slow_once, make_batches(1, 2, 9))) == [(0, 1), (1, 2), (2, 9)]
    assert time.monotonic() - started < 60
    assert [note for note in notes if "unit-9 has run for" in note]


@pytest.mark.slow
def test_closing_executor_cancels_units_and_they_clean_up(executor: RayExecutor, tmp_path: Path) -> None:
    folder = str(tmp_path)

    def wait(batch: UnitBatch[int]) -> int:
        if batch.units[0]:
            try:
                with open(os.path.join(folder, "started"), "w", encoding="ascii"):
                    for _ in range(1200):
                        time.sleep(0.1)
            finally:
                with open(os.path.join(folder, "cleaned"), "w", encoding="ascii"):
                    pass
        return batch.units[0]

    running = executor.run(wait, make_batches(0, 1))
    next(running)
    wait_for((tmp_path / "started").exists)
    running.close()
    wait_for((tmp_path / "cleaned").exists)


def wait_for(is_true: Callable[[], bool]) -> None:
    for _ in range(2000):
        if is_true():
            return
        time.sleep(0.1)
    raise AssertionError("this did not happen within 200 s")


def processes_with(variable: str) -> list[str]:
    """The names of all processes with this `NAME=value` in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to somebody else
            if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "comm").read_text().strip())
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ctrl_c_stops_command_and_local_cluster(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "data", 400)
    command = [sys.executable, "-m", "wdsctl", "index", root, "--executor", "ray", "--column", "n=sleeping:slow"]
    started = tmp_path / "started"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "STARTED_FILE": str(started),
    }
    (tmp_path / "sleeping.py").write_text(
        "import os, time\n\n\ndef slow(sample):\n"
        '    open(os.environ["STARTED_FILE"], "w").close()\n    time.sleep(60)\n    return 1\n'
    )
    with open(tmp_path / "errors", "wb") as errors:
        process = subprocess.Popen(command, env=environment, stderr=errors, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: started.exists() or process.poll() is not None)
        assert "raylet" in processes_with(f"STARTED_FILE={started}"), (tmp_path / "errors").read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130, (tmp_path / "errors").read_text()
    finally:
        process.kill()
    wait_for(lambda: not processes_with(f"STARTED_FILE={started}"))


def test_missing_ray_error_has_install_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError) as caught, using_ray(None, None, print):
        pass
    assert (caught.value.code, caught.value.hint) == ("WDS236", "pip install 'wdsctl[ray]'")


@pytest.mark.slow
def test_unreachable_cluster_address_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = some_shards(tmp_path / "data", 2)
    assert main(["index", root, "--executor", "ray", "--ray-address", "127.0.0.1:1"]) == 3
    assert "WDS453" in capsys.readouterr().err


def test_in_place_repair_refuses_ray_executor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = some_shards(tmp_path / "data", 2)
    assert main(["repair", root, "--in-place", "--yes", "--executor", "ray"]) == 2
    assert "--in-place works on this machine only" in capsys.readouterr().err


def test_check_paths_refuses_node_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "entry").touch()
    probes = probe_paths([str(tmp_path / "file"), str(tmp_path / "folder"), "s3://bucket/x", ""])
    assert [each.path for each in probes] == [str(tmp_path / "file"), str(tmp_path / "folder")]
    check_paths(probes)
    for other_probe in (
        PathProbe(str(tmp_path / "file"), 5, ""),
        PathProbe(str(tmp_path / "folder"), -1, "another"),
        PathProbe(str(tmp_path / "absent"), -1, ""),
    ):
        with pytest.raises(StorageError) as caught:
            check_paths((other_probe,))
        assert (caught.value.code, caught.value.where) == ("WDS453", other_probe.path)


def test_node_with_other_version_is_refused() -> None:
    outcome = ray_cluster.run_on_node(ray_cluster._NodeSettings("0.0.0", None, ()), len, [1])
    assert isinstance(outcome.error, UsageError)
    assert outcome.error.code == "WDS453"
