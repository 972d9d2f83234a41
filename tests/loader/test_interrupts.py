"""Ctrl-C in a training: the next loop continues with exactly the batch that was due."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.running import make_training_loader
from tests.loader.workers.interrupts import interrupt_within
from wdsctl import loader as package
from wdsctl.loader import Loader, WorkerConfig
from wdsctl.loader.run import range_turns


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), 120, shard_samples=25, parts=numbered)


class Grouped(Raw):
    def batch_group_criterion(self, sample: Any) -> Any:
        return int(sample["__key__"]) % 3, None


def loader_of(path: str, kind: str, workers: int, **config: Any) -> Loader:
    """Return an endless loader, or a finite one with passes of some 30 batches."""
    encoder = Grouped() if kind == "groups" else Raw()
    settings: dict[str, Any] = {"lanes": 4, "repeat": kind == "endless"}
    return make_training_loader(path, encoder=encoder, worker_config=WorkerConfig(0, 1, workers, **config), **settings)


def digests_of_passes(loader: Loader) -> Iterator[str]:
    while True:
        yield from map(digest, loader)


# A socket created just before the interrupt is closed by its finalizer, which emits a ResourceWarning.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("kind", "prefetch"), [("endless", None), ("endless", 3), ("finite", None), ("groups", None)])
def test_interrupts_at_any_moment_neither_lose_nor_repeat_batches(
    dataset: str, kind: str, prefetch: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Interrupts also hit between two bytecodes, for example after a result arrives and before it is recorded."""
    caplog.set_level(logging.CRITICAL)
    actual: list[str] = []
    interrupts = 0
    with loader_of(dataset, kind, 2, prefetch_factor=prefetch) as loader:
        batches = iter(loader)
        with interrupt_within(Loader._draw_or_begin_pass, package):
            while len(actual) < 200 or interrupts < 5:
                try:
                    batch = next(batches)
                except (KeyboardInterrupt, StopIteration) as stop:
                    interrupts += isinstance(stop, KeyboardInterrupt)
                    batches = iter(loader)
                else:
                    actual.append(digest(batch))
    assert actual == list(islice(digests_of_passes(loader_of(dataset, kind, 0)), len(actual)))


def test_interrupt_while_starting_new_workers_for_next_pass_loses_no_batch(
    dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uninterrupted = loader_of(dataset, "finite", 0)
    first, second = ([*map(digest, uninterrupted)] for _ in range(2))
    with loader_of(dataset, "finite", 1, persistent_workers=False) as loader:
        batches = iter(loader)
        assert [digest(next(batches)) for _ in first] == first
        with monkeypatch.context() as patch:
            patch.setattr(range_turns, "epoch_of_pass", raise_interrupt)
            with pytest.raises(KeyboardInterrupt):
                next(batches)
        assert [digest(batch) for batch in loader] == second


def raise_interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
