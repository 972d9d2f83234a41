"""Every input that fuzzing begins with, and every finding that was mended, holds."""

from __future__ import annotations

import pytest

from tests.fuzz.targets import SEEDS, TARGETS, inputs_of


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_hold(name: str) -> None:
    inputs = inputs_of(name)
    assert len(inputs) > 1
    for data in inputs:
        TARGETS[name].run(data)


def test_every_folder_of_seeds_is_of_a_target() -> None:
    assert {path.name for path in SEEDS.iterdir() if path.is_dir()} <= TARGETS.keys()
