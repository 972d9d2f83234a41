from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from wdsctl.loader.runtime.randomness import preserve_generators, seed_all

Draws = tuple[float, ...]


def draw() -> Draws:
    """Draws a number of every kind, including those with hidden state such as the second normal of a pair."""
    return (
        random.random(),
        random.gauss(0, 1),
        float(np.random.rand()),  # noqa: NPY002 - the global generator is what hooks draw from
        float(np.random.randn()),  # noqa: NPY002 - see above
        float(torch.rand(1)),
        float(torch.randn(1)),
    )


@pytest.mark.parametrize("key", [0, 1, 2**32, 2**63, 2**64 - 1])
def test_seed_all_determines_numbers_by_key(key: int) -> None:
    seed_all(key)
    first = [draw(), draw()]
    draw()

    seed_all(key)

    assert [draw(), draw()] == first


def test_seed_all_with_different_keys_differs_in_every_generator() -> None:
    seed_all(1)
    first = draw()
    seed_all(2)

    assert all(a != b for a, b in zip(first, draw(), strict=True))


def test_preserve_generators_restores_generators_of_caller() -> None:
    seed_all(9)
    draw()
    undisturbed = [draw() for _ in range(3)]
    seed_all(9)
    draw()

    with preserve_generators():
        seed_all(77)
        draw()

    assert [draw() for _ in range(3)] == undisturbed


def test_preserve_generators_restores_generators_after_error() -> None:
    seed_all(9)
    undisturbed = draw()
    seed_all(9)

    with pytest.raises(RuntimeError, match="in a hook"), preserve_generators():  # noqa: PT012 - the draw is before it
        draw()
        raise RuntimeError("in a hook")

    assert draw() == undisturbed
