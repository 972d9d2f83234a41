"""The plan: its order is compared field by field, its recipe by digest, and its location not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, numbered
from tests.loader.running import make_training_loader, take_batches
from wdsctl.core.errors import StateMismatch
from wdsctl.core.hashing import json_digest
from wdsctl.core.index.index import index
from wdsctl.loader import Loader, Packing
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


@pytest.mark.parametrize("length", ["letters", {"letters": "letters", "samples": lambda _: 1}], ids=["one", "mixed"])
def test_state_refuses_recomputed_column_of_any_packing_budget(length: Any, tmp_path: Path) -> None:
    path = a_dataset(tmp_path / "data", 60, parts=numbered)
    index(path, columns={"letters": "size:txt"})
    capacity: Any = 64 if isinstance(length, str) else {"letters": 64, "samples": 4}

    class Packs(Raw):
        def pack_selected_samples(self, samples: list[Any]) -> Any:
            return samples[0]

    def loader() -> Loader:
        packing = Packing(length=length, capacity=capacity, window=16)
        return make_training_loader(path, encoder=Packs(), packing=packing, batch_size=1)

    saved = loader()
    take_batches(saved, 3)
    state = saved.state_dict()
    loader().load_state_dict(state)
    index(path, columns={"letters": "chars:json"})

    with pytest.raises(StateMismatch, match="columns: "):
        loader().load_state_dict(state)


def test_check_warns_about_changed_subflavors_and_rejects_them_if_strict() -> None:
    saved = LoaderPlan(ORDER, RECIPE, subflavors="1").to_state()
    plan = LoaderPlan(ORDER, RECIPE, subflavors="2")

    with pytest.warns(UserWarning, match="subflavors of datasets have changed"):
        plan.check(saved, strict=False)
    with pytest.raises(StateMismatch, match="subflavors: 1 in the state, none here"):
        LoaderPlan(ORDER, RECIPE).check(saved, strict=True)
    with pytest.warns(UserWarning, match="subflavors of datasets have changed"):
        plan.check(LoaderPlan(ORDER, RECIPE).to_state(), strict=False)
    assert "subflavors" not in LoaderPlan(ORDER, RECIPE).to_state()
