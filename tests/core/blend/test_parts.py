from __future__ import annotations

from fractions import Fraction

import pytest

from wdsctl.core.blend.plan import (
    BlendComponent,
    Leaf,
    LeafMixture,
    LeafSequence,
    RepeatedLeaf,
    component_weights,
    concatenate,
    merge_mixtures,
    training_plan,
    validation_plan,
)
from wdsctl.core.blend.yaml_tree import NodeLocation
from wdsctl.core.errors import DatasetError

PLACE = NodeLocation("x.yaml", 3)


def run(path: str, multiplier: int | None = 1) -> LeafSequence:
    return LeafSequence(
        (RepeatedLeaf(Leaf(path=path, split_part="train", multiplier=multiplier, where=f"{path}.yaml:1")),), PLACE
    )


def f(*numbers: float) -> list[Fraction]:
    return [Fraction(number) for number in numbers]


def test_weights_of_a_mix_in_a_mix_are_products_of_shares() -> None:
    nested = merge_mixtures([run("a"), merge_mixtures([run("b"), run("c")], f(1, 3), PLACE)], f(1, 1), PLACE)

    assert [share for share, _ in nested.components] == [Fraction(1, 2), Fraction(1, 8), Fraction(3, 8)]
    assert component_weights([run("a"), merge_mixtures([run("b"), run("c")], f(1, 3), PLACE)], f(0, 2)) == (
        0,
        *f(1 / 4, 3 / 4),
    )


def test_a_weight_of_zero_keeps_its_place() -> None:
    assert [arm.weight for arm in training_plan(merge_mixtures([run("a"), run("b")], f(0, 5), PLACE)).components] == [
        0,
        1,
    ]


def test_repetitions_multiply_down() -> None:
    inner = concatenate(zip(f(2, 0.5), [run("a"), run("b")], strict=True), PLACE)
    outer = concatenate(zip(f(1.5, 1), [inner, run("c")], strict=True), PLACE)

    assert [stretch.repetitions for stretch in outer.repeated_leaves] == f(3, 0.75, 1)


def test_a_single_run_is_one_arm() -> None:
    (arm,) = training_plan(run("a", multiplier=-1)).components

    assert arm == BlendComponent(Fraction(1), run("a", multiplier=-1).repeated_leaves, -1)
    assert arm.where == "x.yaml:3"


def test_one_order_is_shuffled_in_one_way() -> None:
    both = concatenate(zip(f(1, 1), [run("a"), run("b", None)], strict=True), PLACE)

    with pytest.raises(DatasetError, match=r"found 1 \(a.yaml:1\) and null \(b.yaml:1\)") as caught:
        training_plan(LeafMixture(((Fraction(1), both),), PLACE))
    assert caught.value.where == "x.yaml:3"
    assert [leaf.path for leaf in validation_plan(both).leaves] == ["a", "b"]


def test_a_validation_is_one_arm_without_weights_repetitions_and_shuffling() -> None:
    twice = concatenate([(Fraction(2), run("b"))], PLACE)
    plan = validation_plan(merge_mixtures([run("a"), twice], f(0, 9), PLACE))

    assert [(each.leaf.path, each.repetitions) for each in plan.components[0].repeated_leaves] == [
        ("a", *f(1)),
        ("b", *f(1)),
    ]
    assert [(arm.weight, arm.multiplier) for arm in plan.components] == [(Fraction(1), None)]
