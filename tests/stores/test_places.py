"""The verbs and the loader on every kind of store: what they give for the same dataset on a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.dumps import split_of
from tests.loader.datasets import a_dataset, at_place
from tests.loader.running import digests, saved_after, training_of
from tests.places import other_stores
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.split.split import split_by_ratios
from wdsctl.core.validate.validate import validate
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.views import create_view


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("places")
    return a_dataset(folder / "local", 60, shard_samples=20)


@other_stores
def test_a_dataset_is_inspected_split_checked_and_trained_on_as_on_a_disk(local: str, place: str) -> None:
    root = at_place(local)
    assert root != local
    assert inspect(root, samples=3).first == inspect(local, samples=3).first
    for each in (local, root):
        split_by_ratios(each, {"train": 2, "val": 1}, by="sample", seed=3, may_move=True)
        create_view(each, "half", ViewDefinition(sample="50%"), replace=True)
    assert split_of(root) == split_of(local)
    assert validate(root).findings == validate(local).findings
    assert digests(training_of(f"{root}@half"), 12) == digests(training_of(f"{local}@half"), 12)

    state = saved_after(training_of(local), 3)
    resumed = training_of(root)
    resumed.load_state_dict(state)
    assert digests(resumed, 10) == digests(training_of(local), 13)[3:]
