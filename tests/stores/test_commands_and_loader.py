"""Commands and the loader give the same results on every kind of store as for the same dataset on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import split_by_ratios
from tests.core.dumps import split_of
from tests.loader.datasets import a_dataset, at_place
from tests.loader.running import digests, make_training_loader, save_state_after
from tests.places import other_stores
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.validate.validate import validate
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.views import create_view


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("places")
    return a_dataset(folder / "local", 60, shard_samples=20)


@other_stores
def test_commands_and_loader_give_same_results_on_every_store(local: str, place: str) -> None:
    root = at_place(local)
    assert root != local
    assert inspect(root, samples=3).first == inspect(local, samples=3).first
    for each in (local, root):
        split_by_ratios(each, {"train": 2, "val": 1}, by="sample", seed=3, allow_split_changes=True)
        create_view(each, "half", ViewDefinition(sample="50%"), replace=True)
    assert split_of(root) == split_of(local)
    assert validate(root).findings == validate(local).findings
    assert digests(make_training_loader(f"{root}@half"), 12) == digests(make_training_loader(f"{local}@half"), 12)

    state = save_state_after(make_training_loader(local), 3)
    resumed = make_training_loader(root)
    resumed.load_state_dict(state)
    assert digests(resumed, 10) == digests(make_training_loader(local), 13)[3:]
