"""Workers of a real loader: whatever happens to them, the stream is the one that this process alone would have made."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
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

SAMPLES = 120


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=25, parts=numbered)


def loader_of(path: str, workers: int, encoder: Any = None, *, running: Any = None, **options: Any) -> Loader:
    config = {"start_method": "fork", **options.pop("config", {})}
    given = {"batch_size": 4, "lanes": 4, "shuffle_buffer_size": 8, "task_encoder": encoder or Raw(), **options}
    return get_loader(
        get_train_dataset(path, worker_config=WorkerConfig(0, 1, workers, **config), **given), **(running or {})
    )


def workers_of(loader: Loader) -> list[int]:
    """Process ids of all descendants that draw: those whose parent is the nursery."""
    own = os.getpid()
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    nurseries = {pid for pid, parent in parents.items() if parent == own}
    return [pid for pid, parent in parents.items() if parent in nurseries]


class Once(Raw):
    """Does something in the worker at one sample, the first time that anybody comes there."""

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


class Always(Raw):
    def __init__(self, key: str) -> None:
        self.key = key

    def encode_sample(self, sample: Any) -> Any:
        if sample["__key__"] == self.key:
            os._exit(3)
        return sample


class Exits(Raw):
    def encode_sample(self, sample: Any) -> Any:
        raise SystemExit(4)


def test_a_worker_that_dies_is_replaced_and_the_stream_is_unchanged(dataset: str, tmp_path: Path) -> None:
    truth = digests(loader_of(dataset, 0), 60)
    with loader_of(dataset, 2, Dies(tmp_path, "000037")) as loader:
        assert digests(loader, 60) == truth
    assert (tmp_path / "was-here").exists()


def test_a_worker_that_hangs_is_replaced_and_the_stream_is_unchanged(dataset: str, tmp_path: Path) -> None:
    truth = digests(loader_of(dataset, 0), 60)
    running = {"watchdog_timeout_seconds": 3, "watchdog_initial_timeout_seconds": 60}
    with loader_of(dataset, 2, Hangs(tmp_path, "000037"), running=running) as loader:
        assert digests(loader, 60) == truth
    assert (tmp_path / "was-here").exists()


def test_a_sample_that_ends_its_worker_twice_is_named(dataset: str) -> None:
    with loader_of(dataset, 1, Always("000037")) as loader:
        with pytest.raises(LoaderError, match="WDS530") as caught:
            digests(loader, 60)
        assert "000037" in str(caught.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_hook_that_asks_its_process_to_exit_is_an_error_that_names_the_sample(dataset: str, workers: int) -> None:
    with loader_of(dataset, workers, Exits()) as loader, pytest.raises(LoaderError, match="encode_sample") as caught:
        next(iter(loader))
    assert "key 0" in str(caught.value)


def test_workers_that_are_killed_from_outside_are_replaced(dataset: str) -> None:
    truth = digests(loader_of(dataset, 0), 40)
    with loader_of(dataset, 2) as loader:
        got = digests(loader, 10)
        for pid in workers_of(loader):
            os.kill(pid, signal.SIGKILL)
        got += digests(loader, 30)
    assert got == truth


class Broken(Raw):
    """One sample in seven fails."""

    def encode_sample(self, sample: Any) -> Any:
        if int(sample["__key__"]) % 7 == 3:
            raise ValueError("no good")
        return sample


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_that_fail_are_left_out_and_counted_exactly(dataset: str, workers: int) -> None:
    with loader_of(dataset, workers, Broken()) as loader:
        batches = list(islice(loader, 48))
        assert all(int(key) % 7 != 3 for batch in batches for key in batch["__key__"])
        assert loader.stats.samples == 48 * 4
        with loader_of(dataset, 0, Broken()) as alone:
            assert [digest(batch) for batch in islice(alone, 48)] == [digest(batch) for batch in batches]
            assert alone.stats.failed == loader.stats.failed > 20


@pytest.mark.parametrize("workers", [0, 2])
def test_a_handler_that_raises_ends_the_run_and_it_can_be_asked_again(dataset: str, workers: int) -> None:
    with loader_of(dataset, workers, Broken(), config={"global_error_handler": reraise_exception}) as loader:
        got, failures = [], []
        for _ in range(12):
            try:
                got.append(digest(next(iter(loader))))
            except WdsctlError as error:
                failures.append(str(error))
        assert failures, "a sample fails"
        assert len(set(failures)) == 1, "the same batch is tried again"
        assert "no good" in failures[0]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_hook_that_always_fails_ends_the_run_with_the_cause(dataset: str, workers: int) -> None:
    class Wrong(Raw):
        def encode_sample(self, sample: Any) -> Any:
            return sample["nothing"]

    with loader_of(dataset, workers, Wrong()) as loader, pytest.raises(FatalSampleError, match="KeyError"):
        next(iter(loader))


@pytest.mark.parametrize("how", [shutil.move, shutil.copyfile], ids=["by another file", "in place"])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_shard_that_is_replaced_by_one_of_its_size_is_told_and_skipped(
    tmp_path: Path, workers: int, how: Callable[[Path, Path], Any]
) -> None:
    """Tars are of few sizes: another one would be read without a word."""
    root = tmp_path / "data"
    path = a_dataset(root, 300, shard_samples=100, parts=numbered)
    other, second, third = tmp_path / "other.tar", root / "shard-001.tar", root / "shard-002.tar"
    shutil.copyfile(third, other)
    assert other.stat().st_size == second.stat().st_size
    with loader_of(path, workers, lanes=1) as loader:
        digests(loader, 1)  # shards are open
        how(other, second)
        batches = list(islice(loader, 60))
        with loader_of(path, workers, lanes=1, changed_shards="skip") as again:
            again.load_state_dict(loader.state_dict())
            batches += islice(again, 20)
            failed = loader.stats.failed + again.stats.failed
    texts = {(key, text) for batch in batches for key, text in zip(batch["__key__"], batch["txt"], strict=True)}
    assert all(text == f"text {int(key)}".encode() for key, text in texts)
    assert failed >= 20


@pytest.mark.parametrize("workers", [0, 2])
def test_a_shard_that_is_replaced_under_a_training_is_told_and_skipped_not_read(tmp_path: Path, workers: int) -> None:
    root = tmp_path / "data"
    path = a_dataset(root, 60, shard_samples=20, parts=numbered)
    (root / "shard-001.tar").write_bytes(b"not what it was")
    with loader_of(path, workers) as loader:
        keys = {key for batch in islice(loader, 40) for key in batch["__key__"]}
        assert keys == {f"{i:06}" for i in range(60) if not 20 <= i < 40}
        assert loader.stats.failed >= 20


def test_validation_gives_the_same_passes_with_workers(dataset: str) -> None:
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
def test_workers_of_fresh_interpreters_make_the_same_stream(dataset: str, start: str) -> None:
    truth = digests(loader_of(dataset, 0), 30)
    with loader_of(dataset, 2, config={"start_method": start}) as loader:
        assert digests(loader, 30) == truth
