"""Training in a notebook with a real kernel: classes defined in cells, interrupted cells, and exact resumption."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager
from jupyter_core.utils import ensure_event_loop

from tests.loader.datasets import a_dataset

pytestmark = pytest.mark.slow

CELL_TIMEOUT = 120  # seconds that a cell may take: an upper bound, not a measurement
FIRST_CELL = """
import json, os, threading, time
from itertools import islice
from wdsctl.loader import DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset

class Lengths(DefaultTaskEncoder):
    decoder = None

    def encode_sample(self, sample):
        open("reached", "w").close()
        while os.path.exists("gate"):
            time.sleep(0.01)
        return {**sample, "length": len(sample["txt"])}

def a_loader(workers=2, state=None, **options):
    config = WorkerConfig(0, 1, workers, **options)
    loader = get_loader(get_train_dataset("data", batch_size=4, task_encoder=Lengths(), worker_config=config))
    if state is not None:
        loader.load_state_dict(json.loads(state))
    return loader

def taken(loader, count):
    return [(batch["__key__"], list(batch["length"])) for batch in islice(loader, count)]

truth = taken(a_loader(0), 30)
"""


class Kernel:
    """A Jupyter kernel, as a notebook starts it."""

    def __init__(self, folder: Path) -> None:
        self._manager = KernelManager(connection_file=str(folder / "kernel.json"))
        folders = {name: str(folder / name) for name in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR")}
        self._manager.start_kernel(cwd=str(folder), env={**os.environ, **folders})
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=CELL_TIMEOUT)

    def run(self, cell: str, stop_at: str = "") -> tuple[str, str]:
        """Return what a cell prints, and the error that it ends with, or "". When it prints `stop_at`, the cell is
        interrupted as the stop button does it: SIGINT to the process group of the kernel."""
        printed: list[str] = []

        def on_output(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])
                if stop_at and stop_at in printed[-1]:
                    self._manager.interrupt_kernel()

        content = self._client.execute_interactive(cell, timeout=CELL_TIMEOUT, output_hook=on_output)["content"]
        error = f"{content['ename']}: {content['evalue']}" if content["status"] == "error" else ""
        return "".join(printed), error

    def check(self, cell: str) -> None:
        """Run a cell that must not fail."""
        printed, error = self.run(cell)
        assert not error, f"{error}\n{printed}"

    def end(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        ensure_event_loop().close()  # jupyter_client creates a loop and leaves it open


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("notebook")
    a_dataset(folder / "data", 100)
    kernel = Kernel(folder)
    try:
        kernel.check(FIRST_CELL)
        yield kernel
    finally:
        kernel.end()


def test_forked_workers_use_notebook_classes_and_states_resume_exactly(kernel: Kernel) -> None:
    kernel.check("""
with a_loader() as loader:
    assert taken(loader, 10) == truth[:10]
    state = json.dumps(loader.state_dict())
    assert taken(loader, 10) == truth[10:20]
with a_loader(state=state) as resumed:
    assert taken(resumed, 20) == truth[10:]
""")


def test_cell_interrupted_in_step_continues_with_next_batch(kernel: Kernel) -> None:
    kernel.check("loader, seen = a_loader(), []")
    _, error = kernel.run(
        """
for batch in loader:
    seen.append((batch["__key__"], list(batch["length"])))
    if len(seen) == 5:
        print("in a step", flush=True)
        time.sleep(600)
""",
        stop_at="in a step",
    )

    assert error.startswith("KeyboardInterrupt")
    kernel.check("""
state = json.dumps(loader.state_dict())
assert seen + taken(loader, 10) == truth[:15]
loader.close()
with a_loader(state=state) as resumed:
    assert taken(resumed, 10) == truth[5:15]
""")


def test_cell_interrupted_while_waiting_gets_same_batch_later(kernel: Kernel) -> None:
    kernel.check("""
loader = a_loader()
assert taken(loader, 3) == truth[:3]
state = json.dumps(loader.state_dict())
loader.close()
waiting = a_loader(state=state)
open("gate", "w").close()
os.remove("reached")
""")
    _, error = kernel.run(
        """
def tell():
    while not os.path.exists("reached"):
        time.sleep(0.01)
    print("a worker waits", flush=True)

threading.Thread(target=tell).start()
taken(waiting, 1)
""",
        stop_at="a worker waits",
    )

    assert error.startswith("KeyboardInterrupt")
    kernel.check("""
os.remove("gate")
assert json.dumps(waiting.state_dict()) == state
assert taken(waiting, 10) == truth[3:13]
waiting.close()
""")


def test_spawn_with_notebook_hook_class_reports_that_fork_is_needed(kernel: Kernel) -> None:
    printed, error = kernel.run("""
try:
    taken(a_loader(1, start_method="spawn"), 1)
except Exception as error:
    print(error.code, "|", error.message, "|", error.hint)
""")

    assert not error
    code, message, hint = printed.split(" | ")
    assert code == "WDS531"
    assert "Lengths" in message
    assert 'start_method="fork"' in hint
