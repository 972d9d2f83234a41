"""What is chosen where a recipe says nothing, and what a dataset of a recipe means."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from wdsctl.core.blend_file import Blender
from wdsctl.loader import get_train_dataset, get_val_dataset, get_val_datasets
from wdsctl.loader.dataset import plan_of


def test_what_is_left_out_is_chosen_later() -> None:
    dataset = get_train_dataset("data")

    assert (dataset.batch_size, dataset.lanes, dataset.max_samples_per_sequence) == (None, None, None)
    assert (dataset.split_part, dataset.shuffle_buffer_size, dataset.parallel_shard_iters) == ("train", 1000, 1)


def test_a_dataset_is_a_blend_of_one() -> None:
    (arm,) = plan_of(get_train_dataset(Path("data"), split_part="test")).arms

    (stretch,) = arm.stretches
    assert (arm.weight, stretch.leaf.split_part) == (Fraction(1), "test")


def test_a_plan_is_its_own_plan() -> None:
    plan = plan_of(get_train_dataset(Blender([("one", 1), ("two", 3)])))

    assert [arm.weight for arm in plan.arms] == [Fraction(1, 4), Fraction(3, 4)]
    assert plan_of(get_val_dataset(plan)) is plan


def test_a_blend_is_validated_dataset_by_dataset() -> None:
    found = get_val_datasets(Blender([("one", 1), ("two", 3)]), batch_size=2)

    assert [reference.path for _, reference in found] == [plan_of(each).leaves[0].path for each, _ in found]
    assert len(found) == 2
