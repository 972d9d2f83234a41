"""Other processes and threads that draw from a loader: what is rejected, and what they leave unchanged."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, IterableDataset

from tests.loader.datasets import a_dataset, digest, numbered
from tests.loader.running import digests, make_training_loader, take_batches
from wdsctl.core.errors import LoaderError
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_val_dataset
from wdsctl.loader.workers.pool import WorkerPool


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), 240, shard_samples=60, parts=numbered)


def loader_of(path: str, workers: int, **options: Any) -> Loader:
    return make_training_loader(path, worker_config=WorkerConfig(0, 1, workers), **options)


def run_in_fork(function: Callable[[], Any]) -> str:
    """Returns the repr of the function's result in a forked child, or the code of its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            result = repr(function())
        except LoaderError as error:
            result = error.code
        except BaseException as error:  # noqa: BLE001 - nothing may reach the frames of the tests
            result = repr(error)
        os.write(writing, result.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        result = answer.read()
    os.waitpid(child, 0)
    return result


def restore(loader: Loader, state: Any) -> Loader:
    loader.load_state_dict(state)
    return loader


@contextmanager
def frequent_thread_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("repeat", [True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_forked_child_cannot_draw_and_parent_is_undisturbed(dataset: str, workers: int, repeat: bool) -> None:
    with loader_of(dataset, 0, repeat=repeat) as undisturbed:
        expected = digests(undisturbed, 40)
    with loader_of(dataset, workers, repeat=repeat) as loader:
        batches = iter(loader)
        actual = [digest(next(batches)) for _ in range(5)]

        assert run_in_fork(lambda: next(batches)) == "WDS517"
        assert run_in_fork(lambda: take_batches(loader, 3)) == "WDS517"
        assert run_in_fork(loader.start) == "WDS517"
        assert run_in_fork(loader.close) == "None"
        assert actual + [digest(batch) for batch in islice(batches, 35)] == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_child_can_use_loader_that_it_opens_itself(dataset: str, workers: int) -> None:
    with loader_of(dataset, workers) as loader, loader_of(dataset, workers) as unopened_datasets:
        expected = digests(loader, 6)
        state = loader.state_dict()

        assert run_in_fork(lambda: digests(unopened_datasets, 6)) == repr(expected)
        assert run_in_fork(lambda: loader.state_dict() == state) == "True"
        following = run_in_fork(lambda: digests(restore(loader, state), 3))
        assert following == repr(digests(loader, 3))


def test_child_does_not_write_to_trace_of_parent(dataset: str, tmp_path: Path) -> None:
    with loader_of(dataset, 2, trace=tmp_path / "trace") as loader:
        state = loader.state_dict()
        take_batches(loader, 3)
        (file,) = (tmp_path / "trace").iterdir()
        before = file.read_bytes()

        assert run_in_fork(loader.close) == "None"
        assert run_in_fork(lambda: restore(loader, state).close()) == "None"
        assert file.read_bytes() == before


@pytest.mark.parametrize("workers", [0, 2])
def test_threads_share_batches_of_loader(dataset: str, workers: int) -> None:
    with loader_of(dataset, 0) as undisturbed:
        expected = digests(undisturbed, 40)
    actual: list[str] = []
    with loader_of(dataset, workers) as loader, frequent_thread_switches():
        threads = [threading.Thread(target=lambda: actual.extend(digests(loader, 20))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(actual) == sorted(expected)
        assert loader.state_dict()["batches_drawn"] == 40


def test_slower_of_two_unbatched_loops_raises(dataset: str) -> None:
    with loader_of(dataset, 0) as loader:
        first, second = (loader.unbatched(lambda batch: batch["__key__"]) for _ in range(2))
        keys = [next(first), next(second)]
        keys += islice(second, 3)

        assert keys[0] == keys[1]
        with pytest.raises(LoaderError, match="this loop is splitting") as caught:
            take_batches(first, 3)  # type: ignore[arg-type]
    assert caught.value.code == "WDS518"


def test_result_of_another_task_is_rejected(dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with loader_of(dataset, 0) as undisturbed:
        expected = digests(undisturbed, 80)
    with loader_of(dataset, 2) as loader:
        batches = iter(loader)
        actual = [digest(next(batches)) for _ in range(4)]
        submit = WorkerPool.submit

        def submit_next_task(pool: Any, worker: int, task: Any) -> None:
            submit(pool, worker, task._replace(number=task.number + 1))

        with monkeypatch.context() as patch:
            patch.setattr(WorkerPool, "submit", submit_next_task)
            with pytest.raises(LoaderError, match="returned the result of") as caught:
                actual.extend(map(digest, batches))
        loader.close()
        actual += digests(loader, 80 - len(actual))

    assert caught.value.code == "WDS518"
    assert actual == expected


class Wrapped(IterableDataset[Any]):
    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        return islice(iter(self.loader), 3)


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_several_torch_dataloader_workers_are_rejected(dataset: str, context: str) -> None:
    with loader_of(dataset, 0) as loader, pytest.raises(RuntimeError, match="WDS517: each of 2 workers"):
        next(iter(DataLoader(Wrapped(loader), batch_size=None, num_workers=2, multiprocessing_context=context)))
    with loader_of(dataset, 0) as loader:
        one = DataLoader(Wrapped(loader), batch_size=None, num_workers=1, multiprocessing_context=context)

        assert len(list(one)) == 3


def test_open_loader_cannot_be_pickled(dataset: str) -> None:
    loader = get_loader(get_val_dataset(dataset, split_part="train", batch_size=4, worker_config=WorkerConfig(0, 1)))
    unpickled = pickle.loads(pickle.dumps(loader))  # noqa: S301 - our own

    assert digests(unpickled, 3) == digests(loader, 3)
    with pytest.raises(LoaderError, match="get_loader"):
        pickle.dumps(loader)
