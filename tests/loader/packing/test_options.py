"""The options of Packing are checked when it is constructed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.loader.packing import Packing


def number_of_tokens(sample: Any) -> int:
    return len(sample["tokens"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "worst_fit"}, "worst_fit"),
        ({"too_long": "wrap"}, "wrap"),
        ({"capacity": 0}, "capacity is 0"),
        ({"capacity": "8k"}, "capacity: expected a whole number, found '8k'"),
        ({"window": 0}, "window is 0"),
        ({"length": 7}, "is 7"),
        ({"length": ""}, "is ''"),
        ({"capacity": {"text": 10}}, "must name the same budgets"),
        ({"length": {"text": "tokens"}, "capacity": {"images": 10}}, "lengths for text, and capacities for images"),
        ({"length": {}, "capacity": {}}, "nothing"),
        (
            {"length": {"a": "x", "b": "y"}, "capacity": {"a": 1, "b": 1}, "too_long": "split"},
            "only one budget can decide where to cut",
        ),
    ],
)
def test_packing_refuses_invalid_options_with_hint(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        Packing(**{"length": "tokens", "capacity": 100, **options})

    assert raised.value.hint


def test_budgets_keep_the_order_of_the_lengths() -> None:
    packing = Packing(length={"text": "tokens", "images": "n_images"}, capacity={"images": 8, "text": 4096})

    assert packing.capacities == (4096, 8)
    assert packing.columns == ("tokens", "n_images")


def test_columns_is_none_if_any_length_is_function() -> None:
    packing = Packing(length={"text": number_of_tokens, "images": "n"}, capacity={"text": 10, "images": 8})

    assert packing.columns is None


def test_packing_config_is_json_with_function_names() -> None:
    config = Packing(length=number_of_tokens, capacity=100, too_long="drop").config()

    assert config == json.loads(json.dumps(config))
    assert config["lengths"] == {"length": f"{__name__}.number_of_tokens"}
