"""Hooks of a loader that is used in a thread run in a worker process: they share no random generators with other
threads, and the batches stay the same."""

from __future__ import annotations

import logging
import os
import random
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
import torch

from tests.loader.datasets import Raw, a_dataset, numbered
from tests.loader.running import json_round_trip, take_batches
from wdsctl.core.errors import SampleFailed
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_train_dataset
from wdsctl.loader.run.own_worker import log_own_worker
from wdsctl.loader.runtime.failures import reraise_exception

SAMPLES = 24


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=9, parts=numbered)


class Draws(Raw):
    """Draws from all generators, and notes the process."""

    def encode_sample(self, sample: Any) -> Any:
        numbers = (float(torch.rand(1)), float(np.random.rand()), random.random())  # noqa: NPY002 - as hooks do
        return {**sample, "numbers": numbers, "process": os.getpid()}


class Grouped(Draws):
    def batch_group_criterion(self, sample: Any) -> tuple[int, None]:
        return int(sample["__key__"]) % 2, None


class Splits(Draws):
    def batch(self, samples: list[Any]) -> Iterator[Any]:
        for sample in samples:
            yield super().batch([sample])


class StartsThreads(Draws):
    """Draws in a thread, and leaves another one behind that never ends."""

    def encode_sample(self, sample: Any) -> Any:
        Thread(target=Event().wait, daemon=True).start()
        return in_thread(lambda: super(StartsThreads, self).encode_sample(sample))


def loader_of(path: str, encoder: Any = None, **options: Any) -> Loader:
    options = {"batch_size": 3, "shuffle_buffer_size": 8, "task_encoder": encoder or Draws(), **options}
    return get_loader(get_train_dataset(path, **options))


def in_thread(call: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def content(batches: list[Any]) -> list[Any]:
    return [(batch["__restore_key__"], batch["numbers"]) for batch in batches]


def processes(batches: list[Any]) -> set[int]:
    return {each for batch in batches for each in batch["process"]}


def generators() -> tuple[bytes, bytes, Any]:
    of_numpy: Any = np.random.get_state()  # noqa: NPY002 - as hooks do
    return torch.random.get_rng_state().numpy().tobytes(), of_numpy[1].tobytes(), random.getstate()


@pytest.mark.parametrize(
    "encoder", [Draws(), Grouped(), Splits(), StartsThreads()], ids=lambda each: type(each).__name__
)
@pytest.mark.parametrize("repeat", [True, False])
def test_hooks_run_in_worker_process_while_loader_is_used_in_a_thread(encoder: Any, repeat: bool, dataset: str) -> None:
    expected = take_batches(loader_of(dataset, encoder, repeat=repeat), 7)
    with loader_of(dataset, encoder, repeat=repeat) as loader:
        first = take_batches(loader, 2)
        before = generators()
        second = in_thread(lambda: take_batches(loader, 3))
        state = json_round_trip(loader.state_dict())
        third = take_batches(loader, 2)
        assert generators() == before

    assert processes(expected) == processes(first) == {os.getpid()}
    assert os.getpid() not in processes(second + third)
    assert content(first + second + third) == content(expected)
    resumed = loader_of(dataset, encoder, repeat=repeat)
    resumed.load_state_dict(state)
    assert content(take_batches(resumed, 2)) == content(third)


def test_passes_in_a_thread_are_those_of_main_thread(dataset: str) -> None:
    whole = loader_of(dataset, repeat=False)
    expected = [content(list(whole)) for _ in range(3)]

    with loader_of(dataset, repeat=False) as loader:
        assert [content(list(loader)), *in_thread(lambda: [content(list(loader)) for _ in range(2)])] == expected


def test_loader_that_starts_in_a_thread_starts_its_worker(dataset: str) -> None:
    with loader_of(dataset) as loader:
        in_thread(loader.start)

        assert os.getpid() not in processes(take_batches(loader, 1))


def test_thread_gets_batch_that_main_thread_has_not_accepted(dataset: str) -> None:
    expected = content(take_batches(loader_of(dataset), 3))
    with loader_of(dataset) as loader:
        parts = loader.unbatched(lambda batch: [batch, batch])
        assert content([next(parts)]) == expected[:1]  # the loader is still before this batch

        assert content(in_thread(lambda: take_batches(loader, 3))) == expected


def test_restored_sample_and_padding_run_hooks_in_worker_process_in_a_thread(dataset: str) -> None:
    loader = loader_of(dataset)
    (batch,) = take_batches(loader, 1)
    key = batch["__restore_key__"][0]
    before = generators()

    restored = in_thread(lambda: loader.restore_sample(key))
    padding = in_thread(lambda: loader_of(dataset, repeat=False)._open_stream().make_padding_batch())

    assert generators() == before
    assert (restored["__key__"], restored["numbers"]) == (batch["__key__"][0], batch["numbers"][0])
    assert os.getpid() not in {restored["process"], *padding["process"]}


def test_error_of_hook_in_a_thread_names_sample(dataset: str) -> None:
    class Fails(Raw):
        def encode_sample(self, sample: Any) -> Any:
            raise ValueError("no such word")

    loader = loader_of(dataset, Fails(), worker_config=WorkerConfig(global_error_handler=reraise_exception))
    with loader, pytest.raises(SampleFailed, match="no such word"):
        in_thread(lambda: take_batches(loader, 1))


def test_loader_without_hooks_stays_in_process_in_a_thread(dataset: str, caplog: pytest.LogCaptureFixture) -> None:
    log_own_worker.cache_clear()
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        in_thread(lambda: take_batches(loader_of(dataset, Raw()), 2))
        assert not caplog.records
        for _ in range(2):
            with loader_of(dataset) as loader:
                in_thread(lambda: take_batches(loader, 1))

    assert [record.getMessage()[:33] for record in caplog.records] == ["a loader is used in a thread, so "]


class DrawsFromLoader(Draws):
    """Draws from another loader in each hook."""

    def __init__(self, inner: Loader) -> None:
        super().__init__()
        self.inner = inner

    def encode_sample(self, sample: Any) -> Any:
        index = self.current_sample_index
        take_batches(self.inner, 1)
        assert self.current_sample_index == index
        return super().encode_sample(sample)


def test_hook_may_draw_from_another_loader(dataset: str) -> None:
    expected = content(take_batches(loader_of(dataset), 3))
    encoder = DrawsFromLoader(loader_of(dataset))

    batches = take_batches(
        loader_of(dataset, encoder, worker_config=WorkerConfig(global_error_handler=reraise_exception)), 3
    )

    assert content(batches) == expected


def test_worker_that_starts_in_a_thread_leaves_warning_filters_alone(dataset: str) -> None:
    with loader_of(dataset) as loader, warnings.catch_warnings():
        warnings.simplefilter("error")
        own = warnings.filters
        in_thread(lambda: take_batches(loader, 1))

        assert warnings.filters is own
        with pytest.raises(DeprecationWarning):
            warnings.warn("of somebody else", DeprecationWarning, stacklevel=1)
