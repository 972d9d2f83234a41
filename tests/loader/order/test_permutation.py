"""Permutations are bijective, uniform, stable across versions, and refuse positions out of range."""

from __future__ import annotations

from math import isqrt

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from wdsctl.core.hashing import MASK_64, derive_seed, hash_one_value
from wdsctl.loader.order.permutation import (
    BLOCK_POSITIONS,
    FEISTEL_ROUNDS,
    MAX_ELEMENTS,
    MAX_TABLE_SIZE,
    permutation,
    permute,
    permute_each,
)

KEYS = st.integers(0, MASK_64)


def full_permutation(n: int, key: int) -> NDArray[np.int64]:
    return permute(np.arange(n), n, key)


def permute_reference(position: int, n: int, key: int) -> int:
    """A reference implementation without numpy."""
    if n <= MAX_TABLE_SIZE:
        return sorted(range(n), key=lambda i: (hash_one_value(key, i) // MAX_TABLE_SIZE, i))[position]
    rows = isqrt(n - 1) + 1
    rows += rows % 2
    columns = -(-n // rows)
    while True:
        halves, sizes = [position // columns, position % columns], [rows, columns]
        for r in range(FEISTEL_ROUNDS):
            value = (halves[1 - r % 2] * (hash_one_value(key, 2 * r) | 1) + hash_one_value(key, 2 * r + 1)) & MASK_64
            value = (value ^ value >> 32) * 0xD6E8FEB86659FD93 & MASK_64
            halves[r % 2] = (halves[r % 2] + ((value >> 32) * sizes[r % 2] >> 32)) % sizes[r % 2]
        position = halves[0] * columns + halves[1]
        if position < n:
            return position


@settings(deadline=None)
@given(st.integers(1, 5000), KEYS)
@example(MAX_TABLE_SIZE, 0)
@example(MAX_TABLE_SIZE + 1, 0)
def test_permute_is_bijective(n: int, key: int) -> None:
    assert np.array_equal(np.sort(full_permutation(n, key)), np.arange(n))


@pytest.mark.parametrize("n", [(1 << bits) + offset for bits in range(1, 18) for offset in (-1, 0, 1)])
def test_permute_is_bijective_near_powers_of_two(n: int) -> None:
    assert np.array_equal(np.sort(full_permutation(n, derive_seed(n))), np.arange(n))


@settings(deadline=None)
@given(st.integers(1, MAX_ELEMENTS), KEYS, st.data())
@example(MAX_ELEMENTS, MASK_64, None)
@example(MAX_TABLE_SIZE + 1, 1, None)
def test_permute_equals_reference_at_any_size(n: int, key: int, data: st.DataObject | None) -> None:
    places = [0, n // 3, n - 1]
    if data:
        places += data.draw(st.lists(st.integers(0, n - 1), max_size=20))

    elements = permute(np.array(places), n, key)

    assert elements.dtype == np.int64
    assert elements.tolist() == [permute_reference(place, n, key) for place in places]


@pytest.mark.parametrize("n", [1000, 5000, 3 * BLOCK_POSITIONS + 1])
def test_permute_result_is_independent_of_other_positions(n: int) -> None:
    everything = full_permutation(n, 5)
    places = np.array([n - 1, 0, 7, 7, n // 2])

    assert permute(places, n, 5).tolist() == everything[places].tolist()
    assert permute(places.astype(np.uint64), n, 5).tolist() == everything[places].tolist()
    assert permutation(n, 5).tolist() == everything.tolist()
    assert permute(np.array([], dtype=np.int64), n, 5).tolist() == []


@settings(deadline=None)
@given(
    st.sampled_from([1, 2, 7, 64, MAX_TABLE_SIZE, MAX_TABLE_SIZE + 1, 5000]),
    st.lists(KEYS, min_size=1, max_size=5),
    st.data(),
)
def test_permute_each_equals_single_permutations(n: int, keys: list[int], data: st.DataObject) -> None:
    queries = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, len(keys) - 1)), min_size=1))
    places, which = (np.array(column) for column in zip(*queries, strict=True))

    actual = permute_each(places, which, n, keys)

    assert actual.dtype == np.int64
    assert actual.tolist() == [full_permutation(n, keys[i])[place] for place, i in queries]


@pytest.mark.parametrize("n", [1000, 5000])
def test_permute_shares_no_memory_with_input_or_output(n: int) -> None:
    places = np.arange(n)
    first = permute(places, n, 8)
    expected = first.copy()

    first[:] = -1

    assert places.tolist() == list(range(n))
    assert permute(places, n, 8).tolist() == expected.tolist()


@pytest.mark.parametrize("n", [1, 1000, MAX_TABLE_SIZE, MAX_TABLE_SIZE + 1, 10**9, MAX_ELEMENTS])
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_permute_refuses_positions_out_of_range(n: int, beyond: int) -> None:
    wrong = beyond if beyond < 0 else n + beyond

    with pytest.raises(IndexError, match=rf"^position {wrong} is outside range\({n}\)$"):
        permute(np.array([0, wrong]), n, 1)


@pytest.mark.parametrize("n", [-1, 0, MAX_ELEMENTS + 1])
def test_permute_refuses_invalid_sizes(n: int) -> None:
    with pytest.raises(ValueError, match="1 to 2\\^62 elements"):
        permute(np.array([0]), n, 1)
    with pytest.raises(ValueError, match="1 to 2\\^62 elements"):
        permutation(n, 1)


GOLDEN = {
    1: [0],
    2: [0, 1],
    8: [0, 4, 5, 3, 1, 2, 6, 7],
    1000: [923, 971, 488, 197, 383, 226, 238, 272],
    4096: [2891, 2380, 3914, 3985, 923, 3696, 971, 3011],
    4097: [3044, 58, 949, 3746, 3495, 474, 332, 2297],
    10**6: [13450, 425443, 997435, 609168, 55742, 39145, 870603, 98223],
    10**9: [729262201, 561270711, 804495307, 639216195, 941571486, 46563711, 107439580, 556622321],
    2**62: [1909575257578642616, 3132202803146677316, 2696225196164591771, 3496381287397022722],
}


@pytest.mark.parametrize("n", GOLDEN)
def test_permute_matches_golden_values(n: int) -> None:
    assert permute(np.arange(len(GOLDEN[n])), n, 42).tolist() == GOLDEN[n]


# Quality. Keys are fixed, so these tests are deterministic; bounds are five standard deviations.


def excess(counts: NDArray[np.int64], expected: float | NDArray[np.float64], freedom: int) -> float:
    """The number of standard deviations by which a chi-square statistic exceeds its mean."""
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 8, 9, 16, 31, 64])
def test_elements_are_uniform_over_positions(n: int) -> None:
    keys = 3000
    samples = np.array([full_permutation(n, derive_seed("fair", i)) for i in range(keys)])

    counts = np.array([np.bincount(samples[:, place], minlength=n) for place in range(n)])

    assert excess(counts, keys / n, (n - 1) ** 2) < 5


@pytest.mark.parametrize("n", [3, 4, 5])
def test_small_permutations_are_equally_frequent(n: int) -> None:
    keys = 6000

    orders, counts = np.unique(
        [full_permutation(n, derive_seed("all", i)) for i in range(keys)], axis=0, return_counts=True
    )

    assert len(orders) == {3: 6, 4: 24, 5: 120}[n]
    assert excess(counts, keys / len(orders), len(orders) - 1) < 5


@pytest.mark.parametrize("n", [64, 1000, MAX_TABLE_SIZE + 1, 5000, 1 << 13, 100_003])
def test_neighbours_separate_and_positions_do_not_correlate(n: int) -> None:
    keys = 40
    places = np.arange(n)
    samples = [full_permutation(n, derive_seed("apart", i)) for i in range(keys)]
    row = isqrt(n - 1) + 1

    still_neighbours = np.mean([(np.abs(np.diff(order)) == 1).sum() for order in samples])
    correlations = [
        [
            np.corrcoef(places, order)[0, 1],
            np.corrcoef(order[1:], order[:-1])[0, 1],
            np.corrcoef(order[row:], order[:-row])[0, 1],
        ]
        for order in samples
    ]

    assert abs(still_neighbours - 2) < 5 * np.sqrt(2 / keys)
    assert np.abs(np.mean(correlations, axis=0)).max() < 5 / np.sqrt(n * keys) + 1 / n
    assert np.all(np.abs(np.std(correlations, axis=0) * np.sqrt(n) - 1) < 0.5)


@pytest.mark.parametrize("n", [1 << 13, 10_000, 10_001])
def test_steps_between_neighbours_are_uniform(n: int) -> None:
    keys, bins = 60, 50
    steps = np.concatenate([np.diff(full_permutation(n, derive_seed("steps", i))) % n for i in range(keys)])

    counts = np.bincount(steps * bins // n, minlength=bins)

    shares = np.bincount(np.arange(1, n) * bins // n, minlength=bins) / (n - 1)
    assert excess(counts, len(steps) * shares, bins - 1) < 5


@pytest.mark.parametrize("n", [64, 1 << 12, MAX_TABLE_SIZE + 1, 1 << 13, 5001])
def test_low_bits_of_position_and_element_are_independent(n: int) -> None:
    keys = 40
    samples = np.array([full_permutation(n, derive_seed("low bits", i)) for i in range(keys)])

    agree = ((samples ^ np.arange(n)) & 1 == 0).mean()

    assert abs(agree - 0.5) < 5 * 0.5 / np.sqrt(n * keys) + 1 / n


@pytest.mark.parametrize("n", [64, 1 << 13, 5001])
def test_permutation_parity_is_balanced(n: int) -> None:
    keys = 60

    odd = sum(is_odd(full_permutation(n, derive_seed("parity", i))) for i in range(keys))

    assert abs(odd - keys / 2) < 5 * np.sqrt(keys) / 2


def is_odd(order: NDArray[np.int64]) -> bool:
    """Whether the parity is odd: the number of elements minus that of cycles."""
    unseen, follow, cycles = set(range(len(order))), order.tolist(), 0
    while unseen:
        cycles += 1
        place = unseen.pop()
        while follow[place] in unseen:
            place = follow[place]
            unseen.remove(place)
    return bool((len(order) - cycles) % 2)


def test_keys_give_different_permutations() -> None:
    for n in (1000, 5000, 10**12):
        heads = {tuple(permute(np.arange(10), n, key).tolist()) for key in range(500)}
        assert len(heads) == 500
