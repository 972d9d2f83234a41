"""The fingerprint: the order is compared in numbers, the recipe by its digest, the place not at all."""

from __future__ import annotations

import pytest

from wdsctl.core.errors import StateMismatch
from wdsctl.loader.plan import Plan, digest

ORDER = {"seed": 0, "samples": 10}
RECIPE = {"batch_size": 4, "encoder": {"hooks": {}}}


def test_the_same_plan_is_let_pass_in_silence() -> None:
    Plan(ORDER, RECIPE).check(Plan(dict(reversed(ORDER.items())), dict(RECIPE)).to_state(), strict=True)


def test_another_order_is_refused_with_a_line_for_each_difference() -> None:
    saved = Plan({"seed": 1, "samples": 10, "old": True}, RECIPE).to_state()

    with pytest.raises(StateMismatch) as raised:
        Plan({**ORDER, "new": "x"}, RECIPE).check(saved, strict=False)

    assert raised.value.message.splitlines()[1:] == [
        "  seed: 1 in the state, 0 here",
        "  old: True in the state, absent here",
        "  new: absent in the state, x here",
    ]


def test_another_recipe_warns_and_is_refused_where_that_is_asked_for() -> None:
    saved = Plan(ORDER, {**RECIPE, "batch_size": 5}).to_state()

    with pytest.warns(UserWarning, match="batch size"):
        Plan(ORDER, RECIPE).check(saved, strict=False)
    with pytest.raises(StateMismatch, match="recipe: "):
        Plan(ORDER, RECIPE).check(saved, strict=True)


def test_other_stores_are_named_and_refused_where_that_is_asked_for() -> None:
    saved = Plan(ORDER, RECIPE, stores={"images": "1", "sounds": "2"}).to_state()
    here = Plan(ORDER, RECIPE, stores={"images": "1", "sounds": "3"})

    with pytest.warns(UserWarning, match="auxiliary stores are not what they were"):
        here.check(saved, strict=False)
    with pytest.raises(StateMismatch, match="sounds: 2 in the state, 3 here"):
        here.check(saved, strict=True)
    assert here.fingerprint() != Plan(ORDER, RECIPE).fingerprint()
    assert "aux" not in Plan(ORDER, RECIPE).to_state()


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": 1}) != digest({"a": "1"})


def test_a_fingerprint_names_order_and_recipe() -> None:
    prints = {
        Plan(ORDER, RECIPE).fingerprint(),
        Plan({**ORDER, "seed": 1}, RECIPE).fingerprint(),
        Plan(ORDER, {**RECIPE, "batch_size": 5}).fingerprint(),
    }

    assert len(prints) == 3
    assert {len(each) for each in prints} == {32}
