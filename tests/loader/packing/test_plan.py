"""Plans are exact, the same every time, and full."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from wdsctl.core.errors import UsageError
from wdsctl.loader.packing.methods import METHODS
from wdsctl.loader.packing.plan import PackingPlan, plan_packs

methods = st.sampled_from(METHODS)
lengths_of_one = st.lists(st.integers(0, 130), max_size=80)
lengths_of_two = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=60)


def lognormal(n: int, capacity: int) -> NDArray[np.int64]:
    return np.clip(np.random.default_rng(0).lognormal(6, 1, n).astype(np.int64), 1, capacity)


def contents(plan: PackingPlan) -> list[list[int]]:
    return [pack.tolist() for pack in plan.packs]


@given(lengths_of_one, methods)
def test_every_sample_is_in_one_pack_or_too_long(lengths: list[int], method: str) -> None:
    plan = plan_packs(np.array(lengths, np.int64), 100, method)  # type: ignore[arg-type]

    assert sorted([*plan.indices.tolist(), *plan.too_long.tolist()]) == list(range(len(lengths)))
    assert plan.too_long.tolist() == [i for i, length in enumerate(lengths) if length > 100]


@given(lengths_of_one, methods)
def test_no_pack_is_over_its_capacity_or_empty(lengths: list[int], method: str) -> None:
    plan = plan_packs(np.array(lengths, np.int64), 100, method)  # type: ignore[arg-type]

    assert [sum(lengths[i] for i in pack) for pack in contents(plan)] == plan.filled[:, 0].tolist()
    assert all(pack and sum(lengths[i] for i in pack) <= 100 for pack in contents(plan))


@given(lengths_of_two, methods)
def test_with_several_budgets_a_pack_keeps_to_all_of_them(lengths: list[tuple[int, int]], method: str) -> None:
    table = np.array(lengths, np.int64).reshape(-1, 2)

    plan = plan_packs(table, (50, 10), method)  # type: ignore[arg-type]

    assert sorted([*plan.indices.tolist(), *plan.too_long.tolist()]) == list(range(len(lengths)))
    assert all((table[pack].sum(axis=0) <= (50, 10)).all() for pack in plan.packs)


@given(st.lists(st.integers(1, 100), max_size=60), st.sampled_from(("best_fit", "first_fit_decreasing", "knapsack")))
def test_one_budget_is_packed_as_the_textbook_packs_it(lengths: list[int], method: str) -> None:
    plan = plan_packs(np.array(lengths, np.int64), 100, method)  # type: ignore[arg-type]

    # Which of two packs that are equally full takes a sample is another matter: how full they all become is not.
    found = sorted(sum(lengths[i] for i in pack) for pack in contents(plan))
    assert found == sorted(sum(pack) for pack in TEXTBOOK[method](lengths, 100))


@given(st.lists(st.integers(1, 100), max_size=60))
def test_first_fit_is_the_textbook_s_pack_by_pack(lengths: list[int]) -> None:
    plan = plan_packs(np.array(lengths, np.int64), 100, "first_fit_decreasing")

    found = sorted(sorted(lengths[i] for i in pack) for pack in contents(plan))

    assert found == sorted(sorted(pack) for pack in TEXTBOOK["first_fit_decreasing"](lengths, 100))


@given(st.lists(st.integers(1, 100), max_size=60), methods)
def test_a_second_budget_that_never_binds_changes_nothing(lengths: list[int], method: str) -> None:
    one = plan_packs(np.array(lengths, np.int64), 100, method)  # type: ignore[arg-type]
    two = plan_packs(np.array([(n, 1) for n in lengths], np.int64).reshape(-1, 2), (100, 10**6), method)  # type: ignore[arg-type]

    # Which of two packs that are equally full takes a sample is another matter.
    assert len(one) == len(two)


@given(lengths_of_one, methods)
def test_packs_come_in_the_order_of_their_longest_samples_and_samples_as_they_came(
    lengths: list[int], method: str
) -> None:
    packs = contents(plan_packs(np.array(lengths, np.int64), 100, method))  # type: ignore[arg-type]

    longest = [min(pack, key=lambda i: (-max(lengths[i], 1), i)) for pack in packs]

    assert longest == sorted(longest)
    assert all(pack == sorted(pack) for pack in packs)


@given(lengths_of_one)
def test_sequential_keeps_neighbours_together(lengths: list[int]) -> None:
    plan = plan_packs(np.array(lengths, np.int64), 100, "sequential")

    assert plan.indices.tolist() == [i for i, length in enumerate(lengths) if length <= 100]


@pytest.mark.parametrize("method", METHODS)
def test_a_pack_of_samples_without_length_does_not_grow_without_end(method: str) -> None:
    plan = plan_packs(np.zeros(250, np.int64), 100, method)  # type: ignore[arg-type]

    assert [len(pack) for pack in plan.packs] == [100, 100, 50]


@pytest.mark.parametrize("method", [method for method in METHODS if method != "sequential"])
def test_a_window_of_16k_lognormal_lengths_fills_its_packs(method: str) -> None:
    assert plan_packs(lognormal(16384, 8192), 8192, method).efficiency >= 0.998  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS)
def test_long_samples_do_not_come_first(method: str) -> None:
    lengths = lognormal(16384, 8192)

    plan = plan_packs(lengths, 8192, method)  # type: ignore[arg-type]
    halves = np.split(plan.indices, [plan.offsets[len(plan) // 2]])

    means = [float(lengths[half].mean()) for half in halves]
    assert means[0] / means[1] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("lengths", "capacity", "words"),
    [
        ([1, -2], 10, "a length is -2"),
        ([1.5], 10, "float64"),
        ([1], 0, "the capacity is 0"),
        ([1, 2], (10, 10), "do not match"),
        ([(1, 2)], (10, 10, 10), "2 budgets, but capacity has 3"),
    ],
)
def test_what_cannot_be_planned_is_refused(lengths: object, capacity: int, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        plan_packs(np.array(lengths), capacity)


def test_an_unknown_method_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="worst_fit") as told:
        plan_packs([1], 10, "worst_fit")  # type: ignore[arg-type]

    assert "best_fit" in told.value.hint


def test_nothing_gives_no_packs() -> None:
    for method in METHODS:
        plan = plan_packs(np.empty(0, np.int64), 10, method)  # type: ignore[arg-type]
        assert (len(plan), plan.packs, plan.efficiency) == (0, [], 0.0)


def _best_fit(lengths: list[int], capacity: int) -> list[list[int]]:
    """Of packs that are equally full, the one that has been so for longest: the one that comes first in the list."""
    packs: list[list[int]] = []
    for length in sorted(lengths, reverse=True):
        fits = [pack for pack in packs if sum(pack) + length <= capacity]
        fullest = max(fits, key=sum) if fits else []
        packs = [*(pack for pack in packs if pack is not fullest), [*fullest, length]]
    return packs


def _first_fit(lengths: list[int], capacity: int) -> list[list[int]]:
    packs: list[list[int]] = []
    for length in sorted(lengths, reverse=True):
        pack = next((pack for pack in packs if sum(pack) + length <= capacity), None)
        if pack is None:
            packs.append(pack := [])
        pack.append(length)
    return packs


def _knapsack(lengths: list[int], capacity: int) -> list[list[int]]:
    left, packs = sorted(lengths, reverse=True), []
    while left:
        pack: list[int] = []
        while (fit := next((n for n in left if sum(pack) + n <= capacity), None)) is not None:
            left.remove(fit)
            pack.append(fit)
        packs.append(pack)
    return packs


TEXTBOOK: dict[str, Callable[[list[int], int], list[list[int]]]] = {
    "best_fit": _best_fit,
    "first_fit_decreasing": _first_fit,
    "knapsack": _knapsack,
}
