"""The fingerprint: the order is compared in numbers, the recipe by its digest, the place not at all."""

from __future__ import annotations

import pytest

from wdsctl.core.errors import StateMismatch
from wdsctl.core.hashing import json_digest
from wdsctl.loader.plan.plan import LoaderPlan

ORDER = {"seed": 0, "samples": 10}
RECIPE = {"batch_size": 4, "encoder": {"hooks": {}}}


def test_the_same_plan_is_let_pass_in_silence() -> None:
    LoaderPlan(ORDER, RECIPE).check(LoaderPlan(dict(reversed(ORDER.items())), dict(RECIPE)).to_state(), strict=True)


def test_another_order_is_refused_with_a_line_for_each_difference() -> None:
    saved = LoaderPlan({"seed": 1, "samples": 10, "old": True}, RECIPE).to_state()

    with pytest.raises(StateMismatch) as raised:
        LoaderPlan({**ORDER, "new": "x"}, RECIPE).check(saved, strict=False)

    assert raised.value.message.splitlines()[1:] == [
        "  seed: 1 in the state, 0 here",
        "  old: True in the state, absent here",
        "  new: absent in the state, x here",
    ]


def test_another_recipe_warns_and_is_refused_where_that_is_asked_for() -> None:
    saved = LoaderPlan(ORDER, {**RECIPE, "batch_size": 5}).to_state()

    with pytest.warns(UserWarning, match="batch size"):
        LoaderPlan(ORDER, RECIPE).check(saved, strict=False)
    with pytest.raises(StateMismatch, match="recipe: "):
        LoaderPlan(ORDER, RECIPE).check(saved, strict=True)


def test_other_stores_are_named_and_refused_where_that_is_asked_for() -> None:
    saved = LoaderPlan(ORDER, RECIPE, store_digests={"images": "1", "sounds": "2"}).to_state()
    here = LoaderPlan(ORDER, RECIPE, store_digests={"images": "1", "sounds": "3"})

    with pytest.warns(UserWarning, match="auxiliary stores have changed"):
        here.check(saved, strict=False)
    with pytest.raises(StateMismatch, match="sounds: 2 in the state, 3 here"):
        here.check(saved, strict=True)
    assert here.fingerprint() != LoaderPlan(ORDER, RECIPE).fingerprint()
    assert "aux" not in LoaderPlan(ORDER, RECIPE).to_state()


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert json_digest({"a": 1, "b": [1, 2]}) == json_digest({"b": [1, 2], "a": 1})
    assert json_digest({"a": 1}) != json_digest({"a": "1"})


def test_a_fingerprint_names_order_and_recipe() -> None:
    prints = {
        LoaderPlan(ORDER, RECIPE).fingerprint(),
        LoaderPlan({**ORDER, "seed": 1}, RECIPE).fingerprint(),
        LoaderPlan(ORDER, {**RECIPE, "batch_size": 5}).fingerprint(),
    }

    assert len(prints) == 3
    assert {len(each) for each in prints} == {32}
