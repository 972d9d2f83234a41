from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from wdsctl.loader.runtime.randomness import preserve_generators, seed_all

Draws = tuple[float, ...]


def draw() -> Draws:
    """A number of every kind that keeps something between calls: the second normal of a pair, for one."""
    return (
        random.random(),
        random.gauss(0, 1),
        float(np.random.rand()),  # noqa: NPY002 - the global generator is what hooks draw from
        float(np.random.randn()),  # noqa: NPY002 - see above
        float(torch.rand(1)),
        float(torch.randn(1)),
    )


@pytest.mark.parametrize("key", [0, 1, 2**32, 2**63, 2**64 - 1])
def test_the_same_key_gives_the_same_numbers_whatever_was_drawn_before(key: int) -> None:
    seed_all(key)
    first = [draw(), draw()]
    draw()

    seed_all(key)

    assert [draw(), draw()] == first


def test_keys_differ_in_every_generator() -> None:
    seed_all(1)
    one = draw()
    seed_all(2)

    assert all(a != b for a, b in zip(one, draw(), strict=True))


def test_the_caller_draws_on_as_if_nothing_had_happened() -> None:
    seed_all(9)
    draw()
    undisturbed = [draw() for _ in range(3)]
    seed_all(9)
    draw()

    with preserve_generators():
        seed_all(77)
        draw()

    assert [draw() for _ in range(3)] == undisturbed


def test_the_caller_gets_them_back_after_an_error_too() -> None:
    seed_all(9)
    undisturbed = draw()
    seed_all(9)

    with pytest.raises(RuntimeError, match="in a hook"), preserve_generators():  # noqa: PT012 - the draw is before it
        draw()
        raise RuntimeError("in a hook")

    assert draw() == undisturbed
