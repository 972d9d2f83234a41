"""Every initial input of the fuzz targets and every fixed finding passes."""

from __future__ import annotations

import pytest

from tests.fuzz.targets import SEEDS, TARGETS, inputs_of


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_of_target_pass(name: str) -> None:
    inputs = inputs_of(name)
    assert len(inputs) > 1
    for data in inputs:
        TARGETS[name].run(data)


def test_every_seed_folder_belongs_to_target() -> None:
    assert {path.name for path in SEEDS.iterdir() if path.is_dir()} <= TARGETS.keys()
