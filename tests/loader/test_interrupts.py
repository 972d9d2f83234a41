"""Ctrl-C in a training: the next loop goes on with the very batch that would have come."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.running import training_of
from tests.loader.workers.interrupts import interrupted_within
from wdsctl import loader as package
from wdsctl.loader import Loader, WorkerConfig
from wdsctl.loader.run import range_turns


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), 120, shard_samples=25, parts=numbered)


class Grouped(Raw):
    def batch_group_criterion(self, sample: Any) -> Any:
        return int(sample["__key__"]) % 3, None


def endless_or_finite(path: str, kind: str, workers: int, **config: Any) -> Loader:
    """A training, without end or in passes of some 30 batches."""
    encoder = Grouped() if kind == "groups" else Raw()
    given: dict[str, Any] = {"lanes": 4, "repeat": kind == "endless"}
    return training_of(path, encoder=encoder, worker_config=WorkerConfig(0, 1, workers, **config), **given)


def pass_after_pass(loader: Loader) -> Iterator[str]:
    while True:
        yield from map(digest, loader)


# A socket that was made a moment before the interrupt is closed by its own end, and says so.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("kind", "prefetch"), [("endless", None), ("endless", 3), ("finite", None), ("groups", None)])
def test_interrupts_at_any_moment_of_a_loop_lose_no_batch_and_repeat_none(
    dataset: str, kind: str, prefetch: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Between two bytecodes, too: after a result came and before it is written down, for one."""
    caplog.set_level(logging.CRITICAL)
    truth = list(islice(pass_after_pass(endless_or_finite(dataset, kind, 0)), 600))
    got: list[str] = []
    interrupts = 0
    with endless_or_finite(dataset, kind, 2, prefetch_factor=prefetch) as loader:
        batches = iter(loader)
        with interrupted_within(Loader._draw_or_begin_pass, package):
            while len(got) < len(truth):
                try:
                    batch = next(batches)
                except (KeyboardInterrupt, StopIteration) as stop:
                    interrupts += isinstance(stop, KeyboardInterrupt)
                    batches = iter(loader)
                else:
                    got.append(digest(batch))
    assert got == truth
    assert interrupts


def test_an_interrupt_while_the_next_pass_is_begun_without_the_last_ones_workers_loses_nothing(
    dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = endless_or_finite(dataset, "finite", 0)
    first, second = ([*map(digest, undisturbed)] for _ in range(2))
    with endless_or_finite(dataset, "finite", 1, persistent_workers=False) as loader:
        batches = iter(loader)
        assert [digest(next(batches)) for _ in first] == first
        with monkeypatch.context() as patch:
            patch.setattr(range_turns, "epoch_of_pass", interrupt)
            with pytest.raises(KeyboardInterrupt):
                next(batches)
        assert [digest(batch) for batch in loader] == second


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
