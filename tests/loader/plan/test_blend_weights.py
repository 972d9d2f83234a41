"""Blend weights against those of a state: which entries are used, and what is rejected."""

from __future__ import annotations

import pytest

from wdsctl.core.blend import Blender, BlendPlan
from wdsctl.core.errors import StateMismatch, UsageError
from wdsctl.loader import get_train_dataset
from wdsctl.loader.plan.weight_history import saved_edits
from wdsctl.loader.plan.weights import used_entries
from wdsctl.loader.recipe.dataset import read_blend_plan

pytestmark = pytest.mark.usefixtures("unopened_datasets")


def a_plan(*weights: float) -> BlendPlan:
    return read_blend_plan(get_train_dataset(Blender([(f"data{i}", weight) for i, weight in enumerate(weights)])))


def test_used_entries_include_current_and_past_weights_above_0() -> None:
    saved = {"weights": "0: 1 0 0 | 40: 0 0 1"}

    assert used_entries(a_plan(1, 0, 0), [], None) == ([[0]], 1)
    assert used_entries(a_plan(1, 0, 0), saved_edits(saved, 3), saved) == ([[0, 2]], 2)


def test_used_entries_append_entries_that_are_new_to_the_state() -> None:
    saved = {"weights": "0: 0 1 1"}
    plan, edits = a_plan(1, 1, 1), saved_edits(saved, 3)

    assert used_entries(plan, edits, saved, may_add_entries=True) == ([[1, 2], [0]], 2)
    assert used_entries(plan, edits, {**saved, "blend_entries": [[2], [1], [0]]}) == ([[2], [1], [0]], 3)
    with pytest.raises(StateMismatch, match="data0"):
        used_entries(plan, edits, saved)


def test_used_entries_rejects_empty_blend() -> None:
    with pytest.raises(UsageError, match="there is nothing to read") as raised:
        used_entries(BlendPlan(()), [], None)

    assert raised.value.hint


@pytest.mark.parametrize("entries", [1, 3])
def test_saved_edits_rejects_another_number_of_entries(entries: int) -> None:
    with pytest.raises(StateMismatch, match=f"has 2 entries, but this blend has {entries}"):
        saved_edits({"weights": "0: 1 2"}, entries)


def test_saved_edits_of_state_without_weights_are_empty() -> None:
    assert [saved_edits(saved, 5) for saved in (None, {}, {"weights": ""})] == [[], [], []]
