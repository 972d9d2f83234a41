"""What is chosen where a recipe says nothing, and what a dataset of a recipe means."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from tests.loader.datasets import a_shard
from wdsctl.core.blend import Blender
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.loader import get_train_dataset, get_val_dataset, get_val_datasets
from wdsctl.loader.recipe.dataset import read_blend_plan

pytestmark = pytest.mark.usefixtures("unopened")


def test_what_is_left_out_is_chosen_later() -> None:
    dataset = get_train_dataset("data")

    assert (dataset.batch_size, dataset.lanes, dataset.max_samples_per_sequence) == (None, None, None)
    assert (dataset.split_part, dataset.shuffle_buffer_size, dataset.parallel_shard_iters) == ("train", 1000, 1)


def test_a_dataset_is_a_blend_of_one() -> None:
    (arm,) = read_blend_plan(get_train_dataset(Path("data"), split_part="test")).components

    (stretch,) = arm.repeated_leaves
    assert (arm.weight, stretch.leaf.split_part) == (Fraction(1), "test")


@pytest.mark.parametrize("use", [len, list, lambda dataset: dataset[0], lambda dataset: [*DataLoader(dataset)]])
@pytest.mark.parametrize("make", [get_train_dataset, get_val_dataset])
def test_who_takes_a_dataset_for_its_samples_is_told_of_get_loader(make: Any, use: Any) -> None:
    with pytest.raises(TypeError, match=r"iterate get_loader\(dataset\), which replaces torch's DataLoader"):
        use(make("data"))


@pytest.mark.parametrize("make", [get_train_dataset, get_val_dataset, get_val_datasets])
@pytest.mark.parametrize("path", ["dta", Path("dta"), {"path": "dta"}, Blender([("data", 1), ("dta", 1)]), "dta@view"])
def test_a_path_that_is_not_there_is_told_when_the_dataset_is_made(make: Any, path: Any) -> None:
    with pytest.raises(InputError, match="the dataset does not exist") as raised:
        make(path)

    assert "dta" in raised.value.where


def test_the_line_of_a_blend_file_that_names_what_is_not_there_is_told(unopened: Path) -> None:
    texts = {
        "join.yaml": "join:\n  - {path: ../data}\n  - {path: ../dta}\n",
        "blend.yaml": "blend:\n  - {path: ../data}\n  - {path: ../dta}\n",
        "aux.yaml": "path: ../data\naux:\n  media: dta\n",
        "never.yaml": "blend:\n  - {path: ../data}\n  - {path: ../dta, weight: 0}\n",
        "schedule.yaml": "blend:\n  - {path: ../data}\n  - {path: ../dta, weight: 0}\n"
        "schedule: [{step: 9, weights: [1, 1]}]\n",
    }
    (unopened / "blends").mkdir()
    for name, text in texts.items():
        (unopened / "blends" / name).write_text(text)
    for name in ("join.yaml", "blend.yaml", "aux.yaml", "schedule.yaml"):
        with pytest.raises(InputError, match="does not exist") as raised:
            get_train_dataset(f"blends/{name}")
        assert "dta" in raised.value.where
        assert name in raised.value.where

    assert get_train_dataset("blends/never.yaml")


def test_a_dataset_without_a_catalog_is_told_when_it_is_made_unless_energon_prepared_it(unopened: Path) -> None:
    folder = unopened / "raw"
    a_shard(folder / "shard-0.tar", [("000", {"txt": b"text"})])
    with pytest.raises(CatalogError) as raised:
        get_train_dataset(folder)
    assert raised.value.code == "WDS301"

    with pytest.raises(CatalogError, match="no catalog"):
        get_train_dataset(folder, catalog="elsewhere")
    (folder / ".nv-meta").mkdir()
    (folder / ".nv-meta" / ".info.yaml").write_text("shard_counts: {shard-0.tar: 1}\n")
    assert get_train_dataset(folder)
    assert get_train_dataset(f"memory://{unopened.name}/shards")


def test_a_plan_is_its_own_plan() -> None:
    plan = read_blend_plan(get_train_dataset(Blender([("one", 1), ("two", 3)])))

    assert [arm.weight for arm in plan.components] == [Fraction(1, 4), Fraction(3, 4)]
    assert read_blend_plan(get_val_dataset(plan)) is plan


def test_a_blend_is_validated_dataset_by_dataset() -> None:
    found = get_val_datasets(Blender([("one", 1), ("two", 3)]), batch_size=2)

    assert [reference.path for _, reference in found] == [read_blend_plan(each).leaves[0].path for each, _ in found]
    assert len(found) == 2
