"""Other processes and threads that draw from a loader: what they may not, and what they leave as it was."""

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
from tests.loader.running import digests, taken, training_of
from wdsctl.core.errors import LoaderError
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_val_dataset
from wdsctl.loader.workers import WorkerPool


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), 240, shard_samples=60, parts=numbered)


def of(path: str, workers: int, **options: Any) -> Loader:
    return training_of(path, worker_config=WorkerConfig(0, 1, workers), **options)


def in_a_fork(do: Callable[[], Any]) -> str:
    """What a forked child says that it got, or the code of the error that it got."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = repr(do())
        except LoaderError as error:
            said = error.code
        except BaseException as error:  # noqa: BLE001 - nothing may reach the frames of the tests
            said = repr(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


def restored(loader: Loader, state: Any) -> Loader:
    loader.load_state_dict(state)
    return loader


@contextmanager
def threads_in_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("repeat", [True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_forked_child_cannot_draw_and_the_parents_stream_is_as_without_it(
    dataset: str, workers: int, repeat: bool
) -> None:
    with of(dataset, 0, repeat=repeat) as undisturbed:
        truth = digests(undisturbed, 40)
    with of(dataset, workers, repeat=repeat) as loader:
        batches = iter(loader)
        got = [digest(next(batches)) for _ in range(5)]

        assert in_a_fork(lambda: next(batches)) == "WDS517"
        assert in_a_fork(lambda: taken(loader, 3)) == "WDS517"
        assert in_a_fork(loader.start) == "WDS517"
        assert in_a_fork(loader.close) == "None"
        assert got + [digest(batch) for batch in islice(batches, 35)] == truth


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_a_child_opens_is_the_childs(dataset: str, workers: int) -> None:
    with of(dataset, workers) as loader, of(dataset, workers) as unopened:
        truth = digests(loader, 6)
        state = loader.state_dict()

        assert in_a_fork(lambda: digests(unopened, 6)) == repr(truth)
        assert in_a_fork(lambda: loader.state_dict() == state) == "True"
        following = in_a_fork(lambda: digests(restored(loader, state), 3))
        assert following == repr(digests(loader, 3))


def test_a_child_writes_nothing_into_the_trace_of_its_parent(dataset: str, tmp_path: Path) -> None:
    with of(dataset, 2, trace=tmp_path / "trace") as loader:
        state = loader.state_dict()
        taken(loader, 3)
        (file,) = (tmp_path / "trace").iterdir()
        before = file.read_bytes()

        assert in_a_fork(loader.close) == "None"
        assert in_a_fork(lambda: restored(loader, state).close()) == "None"
        assert file.read_bytes() == before


@pytest.mark.parametrize("workers", [0, 2])
def test_threads_share_the_batches_of_a_loader(dataset: str, workers: int) -> None:
    with of(dataset, 0) as undisturbed:
        truth = digests(undisturbed, 40)
    got: list[str] = []
    with of(dataset, workers) as loader, threads_in_turns():
        threads = [threading.Thread(target=lambda: got.extend(digests(loader, 20))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(got) == sorted(truth)
        assert loader.state_dict()["batches_drawn"] == 40


def test_of_two_loops_that_take_one_batch_apart_the_slower_one_is_told(dataset: str) -> None:
    with of(dataset, 0) as loader:
        first, second = (loader.unbatched(lambda batch: batch["__key__"]) for _ in range(2))
        keys = [next(first), next(second)]
        keys += islice(second, 3)

        assert keys[0] == keys[1]
        with pytest.raises(LoaderError, match="this loop is splitting") as caught:
            taken(first, 3)  # type: ignore[arg-type]
    assert caught.value.code == "WDS518"


def test_a_result_of_another_task_is_not_handed_out(dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with of(dataset, 0) as undisturbed:
        truth = digests(undisturbed, 80)
    with of(dataset, 2) as loader:
        batches = iter(loader)
        got = [digest(next(batches)) for _ in range(4)]
        submit = WorkerPool.submit

        def shifted(pool: Any, worker: int, task: Any) -> None:
            submit(pool, worker, task._replace(number=task.number + 1))

        with monkeypatch.context() as patch:
            patch.setattr(WorkerPool, "submit", shifted)
            with pytest.raises(LoaderError, match="returned the result of") as caught:
                got.extend(map(digest, batches))
        loader.close()
        got += digests(loader, 80 - len(got))

    assert caught.value.code == "WDS518"
    assert got == truth


class Wrapped(IterableDataset[Any]):
    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        return islice(iter(self.loader), 3)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_several_workers_of_torchs_loader_cannot_all_give_the_same_batches(dataset: str, context: str) -> None:
    with of(dataset, 0) as loader, pytest.raises(RuntimeError, match="WDS517: each of 2 workers"):
        next(iter(DataLoader(Wrapped(loader), batch_size=None, num_workers=2, multiprocessing_context=context)))
    with of(dataset, 0) as loader:
        one = DataLoader(Wrapped(loader), batch_size=None, num_workers=1, multiprocessing_context=context)

        assert len(list(one)) == 3


def test_a_loader_that_is_open_is_not_pickled(dataset: str) -> None:
    loader = get_loader(get_val_dataset(dataset, split_part="train", batch_size=4, worker_config=WorkerConfig(0, 1)))
    again = pickle.loads(pickle.dumps(loader))  # noqa: S301 - our own

    assert digests(again, 3) == digests(loader, 3)
    with pytest.raises(LoaderError, match="get_loader"):
        pickle.dumps(loader)
