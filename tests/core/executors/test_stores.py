"""Jobs and Ray clusters that write into a store write the shards and the catalog of a local run on a disk."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.core.executors.commands import COMMANDS, Command, catalog_bytes, fresh_input
from tests.core.executors.test_array_job import killed_task
from tests.remote import read_objects, upload_shards
from tests.stores.proxy import Fault, FaultProxy
from tests.stores.servers import Store, in_use
from wdsctl.cli.main import main, run_inner
from wdsctl.core.dataset.location import locate
from wdsctl.core.executors.array_job import JobReport, merge_job, plan_job, report_job
from wdsctl.core.executors.array_task import run_task

#: Commands with a destination, and one that reads a store.
NAMES = ("prepare", "convert", "convert shards", "repair", "index")


def build_arguments(name: str, url: str) -> list[str]:
    """The last command line of a command, with this URL as destination or source."""
    return [url if each == ("data" if name == "index" else "out") else each for each in COMMANDS[name].arguments[-1]]


def read_catalog(root: str) -> bytes:
    """The bytes of a catalog without its uuid and the version numbers that a disk or a store gives to shards."""
    path = locate(root).catalog_path
    return catalog_bytes(path) if os.path.exists(path) else b""


def run_on_disk(command: Command, name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, Any, Any]:
    """Runs the command on a disk; returns exit code, files and catalog."""
    fresh_input(command, root)
    monkeypatch.chdir(root)
    code = [main([*arguments, "--workers", "1"]) for arguments in command.arguments][-1]
    folder = root / ("data" if name == "index" else "out")
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and ".wdsctl" not in path.parts]
    return code, {str(path.relative_to(folder)): path.read_bytes() for path in paths}, read_catalog(str(folder))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("convert", "repair"))) for name in NAMES]
)
def test_job_with_killed_task_writes_same_files_into_store(
    name: str, use_store: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, root, folder = COMMANDS[name], tmp_path / "root", tmp_path / "job"
    url = f"{use_store('moto')}/out"
    expected = run_on_disk(command, name, root, monkeypatch)
    fresh_input(command, root)
    monkeypatch.chdir(root)
    if name == "index":
        upload_shards(root / "data", url)

    def set_node(node: str) -> None:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "nodes" / node))

    set_node("login")
    outcome = plan_job(str(folder), [*build_arguments(name, url), "--workers", "1"], run_inner, tasks=3)
    killed = False
    while isinstance(outcome, JobReport):
        set_node("a")
        run_task(str(folder), 0, trust_code=True)
        if not killed:
            set_node("b")
            killed = killed_task(folder, 1) == -signal.SIGKILL
            set_node("login")
            assert isinstance(plan_job(str(folder), [], run_inner, tasks=5), JobReport)
        for task in range(report_job(str(folder)).tasks):
            set_node(f"c{task}")
            run_task(str(folder), task, trust_code=True)
            run_task(str(folder), task, trust_code=True)
        set_node("login")
        outcome = merge_job(str(folder), run_inner)

    assert killed
    assert expected[2] or name in ("convert", "repair"), "the others make a catalog"
    assert outcome == expected[0]
    assert read_objects(url) == expected[1]
    assert read_catalog(url) == expected[2]


@pytest.fixture(scope="module")
def cluster(running_store: Callable[[str], Store]) -> Iterator[tuple[Any, FaultProxy]]:
    """Two nodes, and the proxy through which their workers reach the store: they have the nodes' environment."""
    pytest.importorskip("ray")
    from tests.core.executors.test_ray_cluster import TwoNodes

    store = running_store("moto")
    with FaultProxy(store.endpoint) as proxy, in_use(store.through(proxy.url)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes = TwoNodes()
        yield nodes, proxy
        nodes.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_ray_cluster_with_killed_node_writes_same_files_into_store(
    name: str,
    cluster: tuple[Any, FaultProxy],
    use_store: Callable[[str], str],
    running_store: Callable[[str], Store],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from wdsctl.core.executors.ray_cluster import using_ray

    command, root = COMMANDS[name], tmp_path / "root"
    nodes, proxy = cluster
    url = f"{use_store('moto')}/out"
    expected = run_on_disk(command, name, root, monkeypatch)
    fresh_input(command, root)
    monkeypatch.chdir(root)
    if name == "index":
        upload_shards(root / "data", url)
    killed: list[str] = []

    def kill() -> None:
        killed.append(name)
        nodes.kill_node()

    method = "GET" if name == "index" else "PUT"
    proxy.set_faults(Fault(method=method, path=r"/out/(?!\.wdsctl)", skip=2, times=1, before=kill))
    with in_use(running_store("moto").through(proxy.url)):
        with using_ray(nodes.address, None, print):
            code = main([*build_arguments(name, url), "--workers", "1"])
        nodes.replace_node()  # with the proxy in its environment
    proxy.set_faults()

    assert killed
    assert code == expected[0]
    assert read_objects(url) == expected[1]
    assert read_catalog(url) == expected[2]
