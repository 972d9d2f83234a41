from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.core.blend.trees import weights, write_files
from wdsctl.core.blend import Blender, read_blend
from wdsctl.core.errors import DatasetError, UsageError


def test_blender_plan_equals_plan_of_equivalent_file(tmp_path: Path) -> None:
    main = write_files(
        tmp_path,
        main="blend: [{path: /a, weight: 3}, {path: inner.yaml}]\nweight_by: tokens\n"
        "schedule: [{step: 5, weights: {0: 1}}]\n",
        inner="splits: {train: {blend: [{path: b}, {path: c}]}}",
    )

    blender = Blender(
        [("/a", 3), (tmp_path / "inner.yaml", 1)], weight_by="tokens", schedule=[{"step": 5, "weights": {"0": 1}}]
    )

    assert blender.plan() == read_blend(main)
    assert read_blend(blender.mapping()) == read_blend(main)


def test_blender_accepts_mappings_and_blenders_as_paths() -> None:
    plan = Blender(
        [("/a", 1), ({"blend": [{"path": "/b"}, {"path": "/c"}]}, 1), (Blender([("/d", 1)]), Fraction(2))]
    ).plan()

    assert weights(plan) == {"a": Fraction(1, 4), "b": Fraction(1, 8), "c": Fraction(1, 8), "d": Fraction(1, 2)}


@pytest.mark.parametrize("entry", ["/a", ("/a",), ("/a", 1, 2), 5])
def test_blender_refuses_entry_without_path_and_weight(entry: Any) -> None:
    with pytest.raises(UsageError, match=r"expected \(path, weight\)"):
        Blender([entry]).plan()


def test_blender_refuses_invalid_weight_with_location() -> None:
    with pytest.raises(DatasetError, match="weight: expected a number") as caught:
        Blender([("/a", 1), ("/b", "x")]).plan()

    assert caught.value.where == "mapping.blend[1].weight"
