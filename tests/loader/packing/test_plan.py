"""plan_packs is exact, deterministic and fills packs well."""

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


@given(st.lists(st.tuples(st.integers(0, 110), st.integers(0, 30)), max_size=150), methods)
def test_no_pack_has_two_copies_of_a_sample(samples: list[tuple[int, int]], method: str) -> None:
    lengths, ids = [length for length, _ in samples], [sample for _, sample in samples]
    plan = plan_packs(np.array(lengths, np.int64), 100, method, ids=np.array(ids, np.int64))  # type: ignore[arg-type]

    packs = [pack.tolist() for pack in plan.packs]
    assert sorted(i for pack in packs for i in pack) == [i for i, length in enumerate(lengths) if length <= 100]
    assert all(sum(lengths[i] for i in pack) <= 100 for pack in packs)
    assert all(len({ids[i] for i in pack}) == len(pack) for pack in packs)


def test_later_copies_take_room_of_each_other() -> None:
    plan = plan_packs([60, 40, 60, 40, 50, 50], 100, ids=[0, 0, 1, 1, 2, 3])

    assert [pack.tolist() for pack in plan.packs] == [[0, 3], [1, 2], [4, 5]]


def test_sequential_begins_new_pack_before_copy() -> None:
    plan = plan_packs([10, 10, 10, 10], 100, "sequential", ids=[0, 1, 1, 0])

    assert [pack.tolist() for pack in plan.packs] == [[0, 1], [2, 3]]


@given(lengths_of_one, methods)
def test_plan_puts_every_sample_in_one_pack_or_too_long(lengths: list[int], method: str) -> None:
    plan = plan_packs(np.array(lengths, np.int64), 100, method)  # type: ignore[arg-type]

    assert sorted([*plan.indices.tolist(), *plan.too_long.tolist()]) == list(range(len(lengths)))
    assert plan.too_long.tolist() == [i for i, length in enumerate(lengths) if length > 100]


@given(lengths_of_one, methods)
def test_packs_are_within_capacity_and_not_empty(lengths: list[int], method: str) -> None:
    plan = plan_packs(np.array(lengths, np.int64), 100, method)  # type: ignore[arg-type]

    assert [sum(lengths[i] for i in pack) for pack in contents(plan)] == plan.filled[:, 0].tolist()
    assert all(pack and sum(lengths[i] for i in pack) <= 100 for pack in contents(plan))


@given(lengths_of_two, methods)
def test_packs_respect_all_budgets(lengths: list[tuple[int, int]], method: str) -> None:
    table = np.array(lengths, np.int64).reshape(-1, 2)

    plan = plan_packs(table, (50, 10), method)  # type: ignore[arg-type]

    assert sorted([*plan.indices.tolist(), *plan.too_long.tolist()]) == list(range(len(lengths)))
    assert all((table[pack].sum(axis=0) <= (50, 10)).all() for pack in plan.packs)


@given(st.lists(st.integers(1, 100), max_size=60), st.sampled_from(("best_fit", "first_fit_decreasing", "knapsack")))
def test_pack_fills_equal_textbook_for_one_budget(lengths: list[int], method: str) -> None:
    plan = plan_packs(np.array(lengths, np.int64), 100, method)  # type: ignore[arg-type]

    # Ties between equally full packs may be broken differently, but the fills of all packs must match.
    actual = sorted(sum(lengths[i] for i in pack) for pack in contents(plan))
    assert actual == sorted(sum(pack) for pack in TEXTBOOK[method](lengths, 100))


@given(st.lists(st.integers(1, 100), max_size=60))
def test_first_fit_decreasing_packs_equal_textbook(lengths: list[int]) -> None:
    plan = plan_packs(np.array(lengths, np.int64), 100, "first_fit_decreasing")

    actual = sorted(sorted(lengths[i] for i in pack) for pack in contents(plan))

    assert actual == sorted(sorted(pack) for pack in TEXTBOOK["first_fit_decreasing"](lengths, 100))


@given(st.lists(st.integers(1, 100), max_size=60), methods)
def test_unbinding_second_budget_keeps_pack_count(lengths: list[int], method: str) -> None:
    one = plan_packs(np.array(lengths, np.int64), 100, method)  # type: ignore[arg-type]
    two = plan_packs(np.array([(n, 1) for n in lengths], np.int64).reshape(-1, 2), (100, 10**6), method)  # type: ignore[arg-type]

    # Ties between equally full packs may be broken differently.
    assert len(one) == len(two)


def test_knapsack_with_budgets_finds_sample_behind_those_of_a_search_step() -> None:
    table = np.array([(60, 1), *[(50, 1)] * 256, (40, 1)])

    assert contents(plan_packs(table, (100, 10), "knapsack"))[0] == [0, 257]


@given(lengths_of_one, methods)
def test_packs_are_ordered_by_position_of_longest_sample(lengths: list[int], method: str) -> None:
    packs = contents(plan_packs(np.array(lengths, np.int64), 100, method))  # type: ignore[arg-type]

    longest = [min(pack, key=lambda i: (-max(lengths[i], 1), i)) for pack in packs]

    assert longest == sorted(longest)
    assert all(pack == sorted(pack) for pack in packs)


@given(lengths_of_one)
def test_sequential_plan_keeps_sample_order(lengths: list[int]) -> None:
    plan = plan_packs(np.array(lengths, np.int64), 100, "sequential")

    assert plan.indices.tolist() == [i for i, length in enumerate(lengths) if length <= 100]


@pytest.mark.parametrize("method", METHODS)
def test_packs_of_zero_length_samples_are_bounded(method: str) -> None:
    plan = plan_packs(np.zeros(250, np.int64), 100, method)  # type: ignore[arg-type]

    assert [len(pack) for pack in plan.packs] == [100, 100, 50]


@pytest.mark.parametrize("method", [method for method in METHODS if method != "sequential"])
def test_window_of_16k_lognormal_lengths_is_packed_efficiently(method: str) -> None:
    assert plan_packs(lognormal(16384, 8192), 8192, method).efficiency >= 0.998  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS)
def test_packs_do_not_start_with_long_samples(method: str) -> None:
    lengths = lognormal(16384, 8192)

    plan = plan_packs(lengths, 8192, method)  # type: ignore[arg-type]
    halves = np.split(plan.indices, [plan.offsets[len(plan) // 2]])

    means = [float(lengths[half].mean()) for half in halves]
    assert means[0] / means[1] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("lengths", "capacity", "message"),
    [
        ([1, -2], 10, "a length is -2"),
        ([1.5], 10, "float64"),
        ([1], 0, "the capacity is 0"),
        ([1, 2], (10, 10), "do not match"),
        ([(1, 2)], (10, 10, 10), "2 budgets, but capacity has 3"),
    ],
)
def test_plan_packs_refuses_invalid_arguments(lengths: object, capacity: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_packs(np.array(lengths), capacity)


def test_unknown_method_is_refused_with_available_methods() -> None:
    with pytest.raises(UsageError, match="worst_fit") as raised:
        plan_packs([1], 10, "worst_fit")  # type: ignore[arg-type]

    assert "best_fit" in raised.value.hint


def test_plan_of_no_lengths_has_no_packs() -> None:
    for method in METHODS:
        plan = plan_packs(np.empty(0, np.int64), 10, method)  # type: ignore[arg-type]
        assert (len(plan), plan.packs, plan.efficiency) == (0, [], 0.0)


def _best_fit(lengths: list[int], capacity: int) -> list[list[int]]:
    """Of equally full packs, takes the first in the list, which has been that full for longest."""
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
