"""The choice of the cases that the quick tier runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.quick import choose_cases


def a_case(*indices: int) -> Any:
    return SimpleNamespace(callspec=SimpleNamespace(indices=dict(enumerate(indices))))


@pytest.mark.parametrize(
    ("total", "count", "chosen"), [(1, 3, [0]), (2, 3, [0, 1]), (3, 3, [0, 1, 2]), (9, 3, [0, 4, 8]), (9, 1, [0])]
)
def test_cases_are_spread_over_the_table_in_any_order_of_items(total: int, count: int, chosen: list[int]) -> None:
    cases = [a_case(number) for number in range(total)]

    assert choose_cases(cases[::-1], count) == [cases[number] for number in chosen]


def test_test_without_cases_is_chosen_once() -> None:
    item: Any = SimpleNamespace()

    assert choose_cases([item], 3) == [item]
