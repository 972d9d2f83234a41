"""The weights of a blend after those that a state knows: which entries are used, and what is refused."""

from __future__ import annotations

import pytest

from wdsctl.core.blend import Blender, BlendPlan
from wdsctl.core.errors import StateMismatch, UsageError
from wdsctl.loader import get_train_dataset
from wdsctl.loader.plan.weights import saved_edits, used_entries
from wdsctl.loader.recipe.dataset import read_blend_plan

pytestmark = pytest.mark.usefixtures("unopened")


def a_plan(*weights: float) -> BlendPlan:
    return read_blend_plan(get_train_dataset(Blender([(f"data{i}", weight) for i, weight in enumerate(weights)])))


def test_an_entry_is_used_whose_weight_is_above_0_now_or_was_at_some_time() -> None:
    was = {"weights": "0: 1 0 0 | 40: 0 0 1"}

    assert used_entries(a_plan(1, 0, 0), [], None) == ([[0]], 1)
    assert used_entries(a_plan(1, 0, 0), saved_edits(was, 3), was) == ([[0, 2]], 2)


def test_an_entry_that_is_raised_comes_behind_those_that_the_state_knows() -> None:
    was = {"weights": "0: 0 1 1"}
    plan, edits = a_plan(1, 1, 1), saved_edits(was, 3)

    assert used_entries(plan, edits, was, may_add_entries=True) == ([[1, 2], [0]], 2)
    assert used_entries(plan, edits, {**was, "blend_entries": [[2], [1], [0]]}) == ([[2], [1], [0]], 3)
    with pytest.raises(StateMismatch, match="data0"):
        used_entries(plan, edits, was)


def test_a_blend_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="there is nothing to read") as raised:
        used_entries(BlendPlan(()), [], None)

    assert raised.value.hint


@pytest.mark.parametrize("entries", [1, 3])
def test_the_weights_of_a_state_are_of_as_many_entries(entries: int) -> None:
    with pytest.raises(StateMismatch, match=f"has 2 entries, but this blend has {entries}"):
        saved_edits({"weights": "0: 1 2"}, entries)


def test_a_state_without_weights_goes_with_any_blend() -> None:
    assert [saved_edits(was, 5) for was in (None, {}, {"weights": ""})] == [[], [], []]
