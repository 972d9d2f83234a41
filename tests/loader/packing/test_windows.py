"""plan_window: carried samples are packed in the next window, and none is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.loader.packing.methods import METHODS
from wdsctl.loader.packing.plan import TARGET_FILL, plan_packs, plan_window

methods = st.sampled_from(METHODS)
streams = st.lists(st.integers(0, 110), max_size=150)


def stream(lengths: list[int], window: int, method: str, capacity: int = 100) -> tuple[list[list[int]], list[int]]:
    """All packs of a finite lane, as positions, and how often each position was carried over."""
    packs: list[list[int]] = []
    carried: list[int] = []
    times = [0] * len(lengths)
    for start in range(0, len(lengths) + window, window):
        positions = [*carried, *range(len(lengths))[start : start + window]]
        plan = plan_window(
            np.array([lengths[i] for i in carried], np.int64),
            np.array(lengths[start : start + window], np.int64),
            capacity,
            method,  # type: ignore[arg-type]
            is_last=start + window > len(lengths),
        )
        packs += [[positions[i] for i in pack] for pack in plan.packs]
        carried = [positions[i] for i in plan.carry]
        for position in carried:
            times[position] += 1
    assert not carried
    return packs, times


@given(streams, st.integers(1, 60), methods)
def test_windows_pack_every_fitting_sample_once(lengths: list[int], window: int, method: str) -> None:
    packs, _ = stream(lengths, window, method)

    assert sorted(i for pack in packs for i in pack) == [i for i, length in enumerate(lengths) if length <= 100]
    assert all(sum(lengths[i] for i in pack) <= 100 for pack in packs)


@given(streams, st.integers(1, 60), methods)
def test_sample_is_carried_at_most_once(lengths: list[int], window: int, method: str) -> None:
    _, times = stream(lengths, window, method)

    assert max(times, default=0) <= 1


@given(st.lists(st.integers(5, 100), max_size=150), st.integers(40, 80), st.integers(40, 80))
def test_sequential_packs_are_independent_of_window(lengths: list[int], window: int, other: int) -> None:
    packs, _ = stream(lengths, window, "sequential")

    assert packs == stream(lengths, other, "sequential")[0]
    assert packs == [pack.tolist() for pack in plan_packs(np.array(lengths, np.int64), 100, "sequential").packs]


def test_carry_is_empty_or_minimal_for_nearly_full_packs() -> None:
    plan = plan_window([], [100] * 499 + [99], 100)
    emptier = plan_window([], [100] * 399 + [1], 100)

    assert plan.carry.tolist() == []
    assert emptier.carry.tolist() == [399]


def test_only_emptiest_pack_is_carried_if_carrying_does_not_help() -> None:
    plan = plan_window([], [60] * 30 + [51] + [60] * 30, 100)

    assert plan.carry.tolist() == [30]
    assert len(plan.packs) == 60


def test_carry_is_at_most_a_quarter_of_candidates() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        lengths = rng.integers(1, 90, 64)
        assert len(plan_window([], lengths, 100).carry) <= 16


def test_last_window_carries_nothing() -> None:
    plan = plan_window([7], [60, 60], 100, is_last=True)

    assert plan.carry.tolist() == []
    assert sorted(i for pack in plan.packs for i in pack) == [0, 1, 2]


def test_last_window_without_new_samples_packs_carried_ones() -> None:
    plan = plan_window([7, 9], np.empty(0, np.int64), 100, is_last=True)

    assert [pack.tolist() for pack in plan.packs] == [[0, 1]]


@pytest.mark.parametrize("method", [method for method in METHODS if method != "sequential"])
def test_carrying_improves_fill_of_small_windows(method: str) -> None:
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(6, 1, 8192).astype(np.int64), 1, 8192).tolist()

    packs, _ = stream(lengths, 1024, method, capacity=8192)
    starts = range(0, 8192, 1024)
    separate = sum(len(plan_packs(lengths[i : i + 1024], 8192, method)) for i in starts)  # type: ignore[arg-type, misc]

    assert len(packs) < separate
    assert TARGET_FILL > sum(lengths) / (8192 * len(packs)) > 0.99
