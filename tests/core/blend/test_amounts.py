from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.blend.yaml_tree import Node, NodeLocation, parse_amount
from wdsctl.core.errors import DatasetError

LOCATION = NodeLocation("x.yaml", 7)


def read(value: Any) -> Fraction:
    return parse_amount(Node(value, LOCATION), "weight", LOCATION)


@given(st.decimals(0, 10**6, places=4))
def test_parse_amount_reads_decimals_exactly(number: Decimal) -> None:
    assert read(float(number)) == read(f"{number:f}") == Fraction(number)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (0.1, "1/10"),
        ("1/3", "1/3"),
        ("2e-3", "1/500"),
        ("1.", "1"),
        (Fraction(2, 7), "2/7"),
        (np.float64(0.25), "1/4"),
        (np.int64(3), "3"),
    ],
)
def test_parse_amount_accepts_all_number_formats(value: Any, expected: str) -> None:
    assert read(value) == Fraction(expected)


@pytest.mark.parametrize(
    "value",
    [-1, -0.5, "-1", True, None, float("nan"), float("inf"), "1/0", "x", "", "1e999999999", [], {}, "1/3/2", 1j],
)
def test_parse_amount_refuses_other_values_with_location(value: Any) -> None:
    with pytest.raises(DatasetError, match="weight: expected a number from zero up") as caught:
        read(value)

    assert (caught.value.code, caught.value.where) == ("WDS602", "x.yaml:7")
