"""Defaults of a recipe, and how the dataset argument of a recipe is read."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from tests.loader.datasets import a_shard
from wdsctl.core.blend import Blender
from wdsctl.core.errors import CatalogError, InputError, UsageError
from wdsctl.loader import get_train_dataset, get_val_dataset, get_val_datasets
from wdsctl.loader.recipe.dataset import read_blend_plan

pytestmark = pytest.mark.usefixtures("unopened_datasets")


def test_train_dataset_defaults_leave_sizes_unset() -> None:
    dataset = get_train_dataset("data")

    assert (dataset.batch_size, dataset.lanes, dataset.max_samples_per_sequence) == (None, None, None)
    assert (dataset.split_part, dataset.shuffle_buffer_size, dataset.parallel_shard_iters) == ("train", 1000, 1)


def test_read_blend_plan_of_path_has_one_component() -> None:
    (component,) = read_blend_plan(get_train_dataset(Path("data"), split_part="test")).components

    (repeated_leaf,) = component.repeated_leaves
    assert (component.weight, repeated_leaf.leaf.split_part) == (Fraction(1), "test")


@pytest.mark.parametrize("use", [len, list, lambda dataset: dataset[0], lambda dataset: [*DataLoader(dataset)]])
@pytest.mark.parametrize("make", [get_train_dataset, get_val_dataset])
def test_dataset_used_as_sequence_suggests_get_loader(make: Any, use: Any) -> None:
    with pytest.raises(TypeError, match=r"iterate get_loader\(dataset\), which replaces torch's DataLoader"):
        use(make("data"))


@pytest.mark.parametrize("make", [get_train_dataset, get_val_dataset, get_val_datasets])
@pytest.mark.parametrize("path", ["dta", Path("dta"), {"path": "dta"}, Blender([("data", 1), ("dta", 1)]), "dta@view"])
def test_missing_path_is_reported_at_construction(make: Any, path: Any) -> None:
    with pytest.raises(InputError, match="the dataset does not exist") as raised:
        make(path)

    assert "dta" in raised.value.where


def test_missing_path_of_blend_file_is_reported_with_its_file(unopened_datasets: Path) -> None:
    texts = {
        "join.yaml": "join:\n  - {path: ../data}\n  - {path: ../dta}\n",
        "blend.yaml": "blend:\n  - {path: ../data}\n  - {path: ../dta}\n",
        "aux.yaml": "path: ../data\naux:\n  media: dta\n",
        "never.yaml": "blend:\n  - {path: ../data}\n  - {path: ../dta, weight: 0}\n",
        "schedule.yaml": "blend:\n  - {path: ../data}\n  - {path: ../dta, weight: 0}\n"
        "schedule: [{step: 9, weights: [1, 1]}]\n",
    }
    (unopened_datasets / "blends").mkdir()
    for name, text in texts.items():
        (unopened_datasets / "blends" / name).write_text(text)
    for name in ("join.yaml", "blend.yaml", "aux.yaml", "schedule.yaml"):
        with pytest.raises(InputError, match="does not exist") as raised:
            get_train_dataset(f"blends/{name}")
        assert "dta" in raised.value.where
        assert name in raised.value.where

    assert get_train_dataset("blends/never.yaml")


def test_missing_catalog_is_reported_at_construction_unless_energon_prepared_it(unopened_datasets: Path) -> None:
    folder = unopened_datasets / "raw"
    a_shard(folder / "shard-0.tar", [("000", {"txt": b"text"})])
    with pytest.raises(CatalogError) as raised:
        get_train_dataset(folder)
    assert raised.value.code == "WDS301"

    with pytest.raises(CatalogError, match="no catalog"):
        get_train_dataset(folder, catalog="elsewhere")
    (folder / ".nv-meta").mkdir()
    (folder / ".nv-meta" / ".info.yaml").write_text("shard_counts: {shard-0.tar: 1}\n")
    assert get_train_dataset(folder)
    assert get_train_dataset(f"memory://{unopened_datasets.name}/shards")


def test_read_blend_plan_returns_given_plan() -> None:
    plan = read_blend_plan(get_train_dataset(Blender([("one", 1), ("two", 3)])))

    assert [component.weight for component in plan.components] == [Fraction(1, 4), Fraction(3, 4)]
    assert read_blend_plan(get_train_dataset(plan)) is plan


def test_validation_of_plan_reads_every_dataset_of_it() -> None:
    plan = read_blend_plan(get_train_dataset(Blender([("one", 1), ("two", 3)])))
    (component,) = read_blend_plan(get_val_dataset(plan)).components

    assert [each.leaf for each in component.repeated_leaves] == list(plan.leaves)
    assert len(get_val_datasets(plan)) == 2


@pytest.mark.parametrize("options", [{"shuffle": False}, {"shuffle_over_epochs_multiplier": -1}, {"split_part": "val"}])
def test_train_dataset_refuses_split_and_shuffling_with_plan(options: dict[str, Any]) -> None:
    plan = read_blend_plan(get_train_dataset("data"))

    with pytest.raises(UsageError, match="have no effect on a BlendPlan"):
        get_train_dataset(plan, **options)
    with pytest.raises(UsageError, match="have no effect on a BlendPlan"):
        get_val_dataset(plan, split_part="train")


def test_get_val_datasets_returns_one_dataset_per_component() -> None:
    datasets = get_val_datasets(Blender([("one", 1), ("two", 3)]), batch_size=2)

    assert [reference.path for _, reference in datasets] == [
        read_blend_plan(each).leaves[0].path for each, _ in datasets
    ]
    assert len(datasets) == 2
