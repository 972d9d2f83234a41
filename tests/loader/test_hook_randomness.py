"""Random numbers in hooks depend on seed and sample only, and the loader leaves the caller's random state alone."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from tests.loader.datasets import Raw, a_dataset, numbered
from tests.loader.hooked import Draws, loader_of
from tests.loader.running import restore_keys, take_batches
from wdsctl.loader import Buckets, Packing

SAMPLES = 60


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=20, parts=numbered)


def draw_numbers() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(1))  # noqa: NPY002 - as training loops do


def test_loader_leaves_random_state_of_caller_unchanged(dataset: str) -> None:
    loader = loader_of(dataset, Draws())
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - as training loops do
    expected = [draw_numbers() for _ in range(8)]
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - as training loops do

    drawn = [draw_numbers() for _ in islice(loader, 7)]
    loader.load_state_dict(loader.state_dict())

    assert [*drawn, draw_numbers()] == expected


def test_random_numbers_of_hooks_are_independent_of_training_loop(dataset: str) -> None:
    expected = [(batch["noise"], batch["cut"], batch["level"]) for batch in islice(loader_of(dataset, Draws()), 12)]
    loader = loader_of(dataset, Draws())
    actual = []
    for batch in islice(loader, 12):
        actual.append((batch["noise"], batch["cut"], batch["level"]))
        draw_numbers()
        torch.manual_seed(len(actual))

    assert actual == expected
    flat = [number for noise, cut, level in expected for numbers in (*noise, cut, level) for number in numbers]
    assert len(set(flat)) == len(flat), "every sample, copy and batch draws numbers of its own"


def test_hooks_draw_same_numbers_after_restore_between_outputs_of_sample(dataset: str) -> None:
    loader = loader_of(dataset, Draws(), batch_size=3)
    take_batches(loader, 1)
    state = loader.state_dict()
    expected = [(batch["copy"], batch["noise"], batch["cut"]) for batch in islice(loader, 6)]
    resumed = loader_of(dataset, Draws(), batch_size=3)
    resumed.load_state_dict(state)

    assert state["cursors"]["0"]["stream"]["upstream"] == [1, 1], "one of the two that are made of pick 1 has left"
    assert [(batch["copy"], batch["noise"], batch["cut"]) for batch in islice(resumed, 6)] == expected


class Joins(Raw):
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "members": [sample["__restore_key__"] for sample in samples]}


def random_measure(sample: Any) -> int:
    return 1 + int(sum(draw_numbers()) * 2)


MEASURED: list[dict[str, Any]] = [
    {"packing": Packing(length=random_measure, capacity=9, window=16)},
    {"packing": Packing(length={"a": random_measure, "b": random_measure}, capacity={"a": 9, "b": 9})},
    {"buckets": Buckets(of=random_measure, edges=[3, 5])},
]


@pytest.mark.parametrize("options", MEASURED, ids=["packing", "budgets", "buckets"])
def test_random_lengths_are_those_of_their_samples(options: dict[str, Any], dataset: str) -> None:
    loader, again = (loader_of(dataset, Joins(), **options) for _ in range(2))
    before = draw_numbers()
    first, state = restore_keys(take_batches(loader, 3)), loader.state_dict()
    expected = first + restore_keys(take_batches(loader, 5))
    random.seed(7)
    torch.manual_seed(7)
    restored = loader_of(dataset, Joins(), **options)
    restored.load_state_dict(state)

    assert restore_keys(take_batches(again, 8)) == expected
    assert first + restore_keys(take_batches(restored, 5)) == expected
    assert before != draw_numbers()


def test_random_lengths_leave_generators_of_caller_alone(dataset: str) -> None:
    loader = loader_of(dataset, Raw(), buckets=Buckets(of=random_measure, edges=[3, 5]))
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - as training loops do
    expected = draw_numbers()
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - as training loops do

    take_batches(loader, 2)

    assert draw_numbers() == expected


def test_different_seeds_give_hooks_different_numbers(dataset: str) -> None:
    def numbers(seed: int) -> set[float]:
        batches = islice(loader_of(dataset, Draws(), seed=seed), 30)
        return {number for batch in batches for noise in batch["noise"] for number in noise}

    one, two = numbers(1), numbers(2)

    assert not one & two
