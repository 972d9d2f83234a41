"""What hooks draw depends on the seed and the sample alone, and the caller's random numbers are nobody else's."""

from __future__ import annotations

import random
from itertools import islice

import numpy as np
import pytest
import torch

from tests.loader.datasets import a_dataset, numbered
from tests.loader.hooked import Draws, loader_of
from tests.loader.running import taken

SAMPLES = 60


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=20, parts=numbered)


def draw() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(1))  # noqa: NPY002 - as training loops do


def test_the_callers_random_numbers_are_untouched(dataset: str) -> None:
    loader = loader_of(dataset, Draws())
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - as training loops do
    undisturbed = [draw() for _ in range(8)]
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - as training loops do

    drawn = [draw() for _ in islice(loader, 7)]
    loader.load_state_dict(loader.state_dict())

    assert [*drawn, draw()] == undisturbed


def test_hooks_draw_the_same_whatever_the_training_draws(dataset: str) -> None:
    truth = [(batch["noise"], batch["cut"], batch["level"]) for batch in islice(loader_of(dataset, Draws()), 12)]
    loader = loader_of(dataset, Draws())
    found = []
    for batch in islice(loader, 12):
        found.append((batch["noise"], batch["cut"], batch["level"]))
        draw()
        torch.manual_seed(len(found))

    assert found == truth
    flat = [number for noise, cut, level in truth for numbers in (*noise, cut, level) for number in numbers]
    assert len(set(flat)) == len(flat), "every sample, copy and batch draws numbers of its own"


def test_hooks_draw_the_same_after_a_restore_between_two_outputs_of_a_sample(dataset: str) -> None:
    loader = loader_of(dataset, Draws(), batch_size=3)
    taken(loader, 1)
    state = loader.state_dict()
    truth = [(batch["copy"], batch["noise"], batch["cut"]) for batch in islice(loader, 6)]
    resumed = loader_of(dataset, Draws(), batch_size=3)
    resumed.load_state_dict(state)

    assert state["cursors"]["0"]["stream"]["upstream"] == [1, 1], "one of the two that are made of pick 1 has left"
    assert [(batch["copy"], batch["noise"], batch["cut"]) for batch in islice(resumed, 6)] == truth


def test_another_seed_draws_other_numbers(dataset: str) -> None:
    def numbers(seed: int) -> set[float]:
        batches = islice(loader_of(dataset, Draws(), seed=seed), 30)
        return {number for batch in batches for noise in batch["noise"] for number in noise}

    one, two = numbers(1), numbers(2)

    assert not one & two
