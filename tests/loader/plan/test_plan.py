"""The plan: its order is compared field by field, its recipe by digest, and its location not at all."""

from __future__ import annotations

import pytest

from wdsctl.core.errors import StateMismatch
from wdsctl.core.hashing import json_digest
from wdsctl.loader.plan.plan import LoaderPlan

ORDER = {"seed": 0, "samples": 10}
RECIPE = {"batch_size": 4, "encoder": {"hooks": {}}}


def test_check_accepts_equal_plan_without_warning() -> None:
    LoaderPlan(ORDER, RECIPE).check(LoaderPlan(dict(reversed(ORDER.items())), dict(RECIPE)).to_state(), strict=True)


def test_check_rejects_another_order_with_line_per_difference() -> None:
    saved = LoaderPlan({"seed": 1, "samples": 10, "old": True}, RECIPE).to_state()

    with pytest.raises(StateMismatch) as raised:
        LoaderPlan({**ORDER, "new": "x"}, RECIPE).check(saved, strict=False)

    assert raised.value.message.splitlines()[1:] == [
        "  seed: 1 in the state, 0 here",
        "  old: True in the state, absent here",
        "  new: absent in the state, x here",
    ]


def test_check_warns_about_another_recipe_and_rejects_it_if_strict() -> None:
    saved = LoaderPlan(ORDER, {**RECIPE, "batch_size": 5}).to_state()

    with pytest.warns(UserWarning, match="batch size"):
        LoaderPlan(ORDER, RECIPE).check(saved, strict=False)
    with pytest.raises(StateMismatch, match="recipe: "):
        LoaderPlan(ORDER, RECIPE).check(saved, strict=True)


def test_check_warns_about_changed_stores_and_rejects_them_if_strict() -> None:
    saved = LoaderPlan(ORDER, RECIPE, store_digests={"images": "1", "sounds": "2"}).to_state()
    plan = LoaderPlan(ORDER, RECIPE, store_digests={"images": "1", "sounds": "3"})

    with pytest.warns(UserWarning, match="auxiliary stores have changed"):
        plan.check(saved, strict=False)
    with pytest.raises(StateMismatch, match="sounds: 2 in the state, 3 here"):
        plan.check(saved, strict=True)
    assert plan.fingerprint() != LoaderPlan(ORDER, RECIPE).fingerprint()
    assert "aux" not in LoaderPlan(ORDER, RECIPE).to_state()


def test_json_digest_ignores_order_of_keys() -> None:
    assert json_digest({"a": 1, "b": [1, 2]}) == json_digest({"b": [1, 2], "a": 1})
    assert json_digest({"a": 1}) != json_digest({"a": "1"})


def test_fingerprint_depends_on_order_and_recipe() -> None:
    fingerprints = {
        LoaderPlan(ORDER, RECIPE).fingerprint(),
        LoaderPlan({**ORDER, "seed": 1}, RECIPE).fingerprint(),
        LoaderPlan(ORDER, {**RECIPE, "batch_size": 5}).fingerprint(),
    }

    assert len(fingerprints) == 3
    assert {len(each) for each in fingerprints} == {32}
