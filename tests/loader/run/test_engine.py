"""Whatever happens to the workers of a loader, its batches are those that a single process would produce."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.running import digests
from wdsctl.core.errors import LoaderError, WdsctlError
from wdsctl.loader import (
    FatalSampleError,
    Loader,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    reraise_exception,
)
from wdsctl.loader.runtime.logs import logger

SAMPLES = 120


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=25, parts=numbered)


def loader_of(path: str, workers: int, encoder: Any = None, *, loader_options: Any = None, **options: Any) -> Loader:
    config = {"start_method": "fork", **options.pop("config", {})}
    dataset_options = {
        "batch_size": 4,
        "lanes": 4,
        "shuffle_buffer_size": 8,
        "task_encoder": encoder or Raw(),
        **options,
    }
    return get_loader(
        get_train_dataset(path, worker_config=WorkerConfig(0, 1, workers, **config), **dataset_options),
        **(loader_options or {}),
    )


def workers_of(loader: Loader) -> list[int]:
    """Returns the process ids of the workers: the children of this process's fork server."""
    own = os.getpid()
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    children = {pid for pid, parent in parents.items() if parent == own}
    return [pid for pid, parent in parents.items() if parent in children]


class Once(Raw):
    """Acts in the worker at one sample, the first time that it is encoded."""

    def __init__(self, folder: Path, key: str) -> None:
        self.mark = folder / "was-here"
        self.key = key

    def act(self) -> None:
        raise NotImplementedError

    def encode_sample(self, sample: Any) -> Any:
        if sample["__key__"] == self.key and not self.mark.exists():
            self.mark.write_text("")
            self.act()
        return sample


class Dies(Once):
    def act(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Hangs(Once):
    def act(self) -> None:
        time.sleep(600)


class ExitsAlways(Raw):
    def __init__(self, key: str) -> None:
        self.key = key

    def encode_sample(self, sample: Any) -> Any:
        if sample["__key__"] == self.key:
            os._exit(3)
        return sample


class Exits(Raw):
    def encode_sample(self, sample: Any) -> Any:
        raise SystemExit(4)


def test_killed_worker_is_replaced_without_changing_batches(dataset: str, tmp_path: Path) -> None:
    expected = digests(loader_of(dataset, 0), 60)
    with loader_of(dataset, 2, Dies(tmp_path, "000037")) as loader:
        assert digests(loader, 60) == expected
    assert (tmp_path / "was-here").exists()


def test_hanging_worker_is_replaced_without_changing_batches(dataset: str, tmp_path: Path) -> None:
    expected = digests(loader_of(dataset, 0), 60)
    loader_options = {"watchdog_timeout_seconds": 3, "watchdog_initial_timeout_seconds": 60}
    with loader_of(dataset, 2, Hangs(tmp_path, "000037"), loader_options=loader_options) as loader:
        assert digests(loader, 60) == expected
    assert (tmp_path / "was-here").exists()


def test_sample_that_kills_worker_twice_is_reported(dataset: str) -> None:
    with loader_of(dataset, 1, ExitsAlways("000037")) as loader:
        with pytest.raises(LoaderError, match="WDS530") as caught:
            digests(loader, 60)
        assert "000037" in str(caught.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_system_exit_in_hook_is_reported_with_sample(dataset: str, workers: int) -> None:
    with loader_of(dataset, workers, Exits()) as loader, pytest.raises(LoaderError, match="encode_sample") as caught:
        next(iter(loader))
    assert "key 0" in str(caught.value)


def test_workers_killed_from_outside_are_replaced(dataset: str) -> None:
    expected = digests(loader_of(dataset, 0), 40)
    with loader_of(dataset, 2) as loader:
        actual = digests(loader, 10)
        for pid in workers_of(loader):
            os.kill(pid, signal.SIGKILL)
        actual += digests(loader, 30)
    assert actual == expected


class Broken(Raw):
    """Fails at one sample in seven."""

    def encode_sample(self, sample: Any) -> Any:
        if int(sample["__key__"]) % 7 == 3:
            raise ValueError("no good")
        return sample


@pytest.mark.parametrize("workers", [0, 2])
def test_failing_samples_are_skipped_and_counted_exactly(dataset: str, workers: int) -> None:
    with loader_of(dataset, workers, Broken()) as loader:
        batches = list(islice(loader, 48))
        assert all(int(key) % 7 != 3 for batch in batches for key in batch["__key__"])
        assert loader.stats.samples == 48 * 4
        with loader_of(dataset, 0, Broken()) as inline:
            assert [digest(batch) for batch in islice(inline, 48)] == [digest(batch) for batch in batches]
            assert inline.stats.failed == loader.stats.failed > 20


@pytest.mark.parametrize("workers", [0, 2])
def test_raising_error_handler_repeats_same_batch_at_next_call(dataset: str, workers: int) -> None:
    with loader_of(dataset, workers, Broken(), config={"global_error_handler": reraise_exception}) as loader:
        actual, failures = [], []
        for _ in range(12):
            try:
                actual.append(digest(next(iter(loader))))
            except WdsctlError as error:
                failures.append(str(error))
        assert failures, "a sample fails"
        assert len(set(failures)) == 1, "the same batch is tried again"
        assert "no good" in failures[0]


@pytest.mark.parametrize("workers", [0, 1])
def test_hook_that_always_fails_stops_training_with_cause(dataset: str, workers: int) -> None:
    class Wrong(Raw):
        def encode_sample(self, sample: Any) -> Any:
            return sample["nothing"]

    with loader_of(dataset, workers, Wrong()) as loader, pytest.raises(FatalSampleError, match="KeyError"):
        next(iter(loader))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """The file to which this process and its workers, which inherit the handler, write their log."""
    handler = logging.FileHandler(tmp_path / "log.txt")
    logger.addHandler(handler)
    yield tmp_path / "log.txt"
    logger.removeHandler(handler)
    handler.close()


def lost_shard_warnings(log: Path, shard: str) -> list[str]:
    return [line for line in log.read_text().splitlines() if "cannot be read" in line and shard in line]


@pytest.mark.parametrize("replace_file", [shutil.move, shutil.copyfile], ids=["by another file", "in place"])
@pytest.mark.parametrize("workers", [0, 1])
def test_shard_replaced_by_one_of_equal_size_is_logged_and_skipped(
    tmp_path: Path, log: Path, workers: int, replace_file: Callable[[Path, Path], Any]
) -> None:
    """Many tars have equal sizes, so a replacement could be read unnoticed."""
    root = tmp_path / "data"
    path = a_dataset(root, 300, shard_samples=100, parts=numbered)
    other, second, third = tmp_path / "other.tar", root / "shard-001.tar", root / "shard-002.tar"
    shutil.copyfile(third, other)
    assert other.stat().st_size == second.stat().st_size
    with loader_of(path, workers, lanes=1) as loader:
        digests(loader, 1)  # shards are open
        replace_file(other, second)
        batches = list(islice(loader, 60))
        with loader_of(path, workers, lanes=1, changed_shards="skip") as resumed:
            resumed.load_state_dict(loader.state_dict())
            batches += islice(resumed, 20)
            failed = loader.stats.failed + resumed.stats.failed
            causes = loader.stats.causes.keys() | resumed.stats.causes.keys()
    texts = {(key, text) for batch in batches for key, text in zip(batch["__key__"], batch["txt"], strict=True)}
    assert all(text == f"text {int(key)}".encode() for key, text in texts)
    assert failed >= 20
    assert {cause[: len("load: WDS403")] for cause in causes} == {"load: WDS403"}
    warnings = lost_shard_warnings(log, "shard-001.tar")
    assert len(warnings) == 2, "once a run"
    assert all("100 samples skipped, 33.3% of the split" in line for line in warnings)


@pytest.mark.parametrize("workers", [0, 2])
def test_shard_replaced_before_training_is_logged_and_skipped(tmp_path: Path, log: Path, workers: int) -> None:
    root = tmp_path / "data"
    path = a_dataset(root, 60, shard_samples=20, parts=numbered)
    (root / "shard-001.tar").write_bytes(b"not what it was")
    with loader_of(path, workers) as loader:
        keys = {key for batch in islice(loader, 40) for key in batch["__key__"]}
        assert keys == {f"{i:06}" for i in range(60) if not 20 <= i < 40}
        assert loader.stats.failed >= 20
    assert len(lost_shard_warnings(log, "shard-001.tar")) == max(1, workers), "once in every process that reads"


def test_validation_passes_are_equal_with_and_without_workers(dataset: str) -> None:
    def passes(workers: int) -> list[list[str]]:
        config = WorkerConfig(0, 1, workers)
        validation = get_val_dataset(
            dataset, split_part="train", batch_size=4, task_encoder=Raw(), worker_config=config
        )
        with get_loader(validation) as loader:
            return [[digest(batch) for batch in loader] for _ in range(3)]

    assert passes(2) == passes(0)
    assert len(passes(0)[0]) > 3


@pytest.mark.slow
@pytest.mark.parametrize("start", ["forkserver", "spawn"])
def test_spawned_workers_produce_same_batches(dataset: str, start: str) -> None:
    expected = digests(loader_of(dataset, 0), 30)
    with loader_of(dataset, 2, config={"start_method": start}) as loader:
        assert digests(loader, 30) == expected
