"""A state whose generation wdsctl no longer keeps: it resumes if the data is the same, and only then."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_shard, digest, numbered
from tests.loader.running import digests, make_training_loader, save_state_after, take_batches
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import StateMismatch
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.loader import WorkerConfig, get_loader, get_val_dataset

UNSURE = PrepareRequest(sample_type="CrudeSample")


def add_shard(root: Path, split: str, number: int, samples: int = 20) -> None:
    first = number * 100
    a_shard(root / f"{split}-{number:03d}.tar", ((f"{i:06}", numbered(i)) for i in range(first, first + samples)))


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Shards whose names say their split, so that new shards of `val` do not change `train`."""
    root = tmp_path / "data"
    for number in range(3):
        add_shard(root, "train", number)
    add_shard(root, "val", 3)
    prepare(str(root), None, UNSURE)
    return root


def grow_until_gone(root: Path, split: str) -> None:
    """Add shards to a split until the first generation is gone."""
    for number in range(4, 8):
        add_shard(root, split, number)
        index(str(root))
    assert not os.path.exists(locate(str(root)).offsets_path(1))


def index_again(root: Path) -> None:
    """Index from scratch: a new catalog, whose generations begin at 1."""
    grow_until_gone(root, "val")
    shutil.rmtree(root / ".wdsctl")
    prepare(str(root), None, UNSURE)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("change", [lambda root: grow_until_gone(root, "val"), index_again], ids=["grown", "again"])
def test_state_of_gone_generation_continues_on_equal_data(
    dataset: Path, change: Callable[[Path], None], workers: int
) -> None:
    loader = make_training_loader(str(dataset))
    state = save_state_after(loader, 5)
    expected = digests(loader, 30)
    if change is index_again:  # the state of a generation that the new catalog has not reached
        state["generations"] = [5]
    change(dataset)

    resumed = make_training_loader(str(dataset), worker_config=WorkerConfig(0, 1, num_workers=workers))
    resumed.load_state_dict(state)
    assert digests(resumed, 30) == expected
    assert resumed.state_dict()["generations"] != state["generations"]


def test_pass_of_gone_generation_continues_on_equal_data(dataset: Path) -> None:
    loader = get_loader(get_val_dataset(str(dataset), batch_size=4, split_part="train", task_encoder=Raw()))
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    state = loader.state_dict()
    expected = [digest(batch) for batch in batches]
    grow_until_gone(dataset, "val")

    resumed = get_loader(get_val_dataset(str(dataset), batch_size=4, split_part="train", task_encoder=Raw()))
    resumed.load_state_dict(state)
    assert [digest(batch) for batch in resumed] == expected


@pytest.mark.parametrize("options", [{}, {"adopt": "next_epoch"}])
def test_state_of_gone_generation_is_refused_on_other_data(dataset: Path, options: Any) -> None:
    state = save_state_after(make_training_loader(str(dataset), lanes=2, **options), 5)
    grow_until_gone(dataset, "train")

    with pytest.raises(StateMismatch, match=r"generation 1 .* no longer kept, and the samples have changed"):
        make_training_loader(str(dataset), lanes=2, **options).load_state_dict(state)


def test_state_of_gone_generation_names_dataset_that_has_changed(dataset: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(dataset, other)
    blend = tmp_path / "blend.yaml"
    blend.write_text("splits: {train: {blend: [{path: data, weight: 1}, {path: other, weight: 1}]}}")
    state = save_state_after(make_training_loader(str(blend)), 5)
    grow_until_gone(dataset, "val")
    grow_until_gone(other, "train")

    with pytest.raises(StateMismatch, match="no longer kept") as caught:
        make_training_loader(str(blend)).load_state_dict(state)
    assert str(other) in str(caught.value.where)


def test_state_of_gone_generation_is_refused_if_subset_is_gone(dataset: Path, tmp_path: Path) -> None:
    blend = tmp_path / "blend.yaml"
    blend.write_text("splits: {train: {path: data, subset: {range: [50, 60]}}}")
    state = save_state_after(make_training_loader(str(blend)), 2)
    take_batches(make_training_loader(str(blend)), 1)
    grow_until_gone(dataset, "val")
    (dataset / "train-002.tar").unlink()
    index(str(dataset), missing="drop")

    with pytest.raises(StateMismatch, match="no longer kept"):
        make_training_loader(str(blend)).load_state_dict(state)
