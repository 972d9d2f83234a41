"""Seeds are canonical, distinct for every purpose, and never change."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.hashing import MASK_64, derive_seed, derive_seeds, hash_one_value, hash_values

PARTS = st.lists(st.integers() | st.text() | st.binary(), max_size=4)
WORDS = st.integers(0, MASK_64)

GOLDEN: list[tuple[tuple[int | str | bytes, ...], int]] = [
    ((), 0xA38A37F390CB58EB),
    ((0,), 0x0B730BD2491EBFB9),
    ((1,), 0x99529E1CEF8DA84F),
    ((-1,), 0xFFE40D58E6322ACB),
    ((2**63,), 0x8703CE522F2C872B),
    ((-(2**63),), 0x8C67F9ADCE976AB7),
    ((10**30,), 0x54CD922992B4970B),
    (("",), 0x5336F8D012D64D4A),
    (("é",), 0x787DC53A00D8D196),
    ((b"\x00\xff",), 0xC5289F3745B7C0DD),
    (("window", 0, 0, 0), 0x3C425B50535DF4EA),
    (("slices", 1, 2), 0x9F860D41B5EEEB79),
    (("slices", 2, 1), 0xF1112FFBC2E7DAE3),
]
GOLDEN_MIX = [
    (0, 0, 0),
    (0, 1, 0x7AB40E090F363A7D),
    (1, 0, 0xD9BF17D113F38956),
    (42, 7, 0xFA8062C6BEF73552),
    (MASK_64, MASK_64, 0xB4D055FCF2CBBD7B),
]


@pytest.mark.parametrize(("parts", "key"), GOLDEN)
def test_derive_seed_never_changes(parts: tuple[int | str | bytes, ...], key: int) -> None:
    assert derive_seed(*parts) == key


@pytest.mark.parametrize(("key", "value", "mixed"), GOLDEN_MIX)
def test_hash_one_value_never_changes(key: int, value: int, mixed: int) -> None:
    assert hash_one_value(key, value) == mixed


@settings(deadline=None)
@given(PARTS, PARTS)
def test_only_equal_parts_have_equal_seeds(one: list[int | str | bytes], other: list[int | str | bytes]) -> None:
    same = one == other and [type(part) for part in one] == [type(part) for part in other]

    assert (derive_seed(*one) == derive_seed(*other)) is same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, 2), (2, 1)),
        ((1, 2), (12,)),
        (("a", "bc"), ("ab", "c")),
        (("asb",), ("a", "b")),
        (("1",), (1,)),
        (("a",), (b"a",)),
        ((0,), ("",)),
        ((255,), (-1,)),
        ((0,), (0, 0)),
        ((2**64 + 1,), (1,)),
    ],
)
def test_similar_parts_have_different_seeds(one: tuple[int | str, ...], other: tuple[int | str, ...]) -> None:
    assert derive_seed(*one) != derive_seed(*other)


@settings(deadline=None)
@given(PARTS, st.lists(st.integers(), max_size=4))
def test_derive_seeds_equals_derive_seed_of_each_last_part(parts: list[int | str | bytes], lasts: list[int]) -> None:
    assert derive_seeds(parts, lasts) == [derive_seed(*parts, last) for last in lasts]


def test_seeds_of_seed_epoch_pairs_are_distinct() -> None:
    keys = {derive_seed("slices", seed, epoch) for seed, epoch in product(range(100), repeat=2)}

    assert len(keys) == 100 * 100


@pytest.mark.parametrize("part", [True, None, 1.0, np.int64(1), (1,)], ids=repr)
def test_derive_seed_refuses_parts_without_canonical_bytes(part: Any) -> None:
    with pytest.raises(TypeError, match="a key can hash int, str and bytes"):
        derive_seed("a", part)


@settings(deadline=None)
@given(WORDS, st.lists(WORDS))
def test_hash_values_equals_hash_one_value_of_each(key: int, values: list[int]) -> None:
    mixed = hash_values(key, np.array(values, dtype=np.uint64))

    assert mixed.dtype == np.uint64
    assert mixed.tolist() == [hash_one_value(key, value) for value in values]


def test_negative_values_wrap_in_both_functions() -> None:
    assert hash_values(9, np.array([-1, -(2**63)])).tolist() == [hash_one_value(9, -1), hash_one_value(9, -(2**63))]


def test_hash_values_does_not_change_its_input() -> None:
    values = np.arange(5, dtype=np.uint64)

    hash_values(3, values)

    assert values.tolist() == [0, 1, 2, 3, 4]


def test_hashes_of_neighbouring_values_differ_in_half_the_bits() -> None:
    keys = [hash_one_value(key, value) for key in range(20) for value in range(50)]

    flips = [(one ^ other).bit_count() for one, other in pairwise(keys)]

    assert len(set(keys)) == 1000
    assert 31 < np.mean(flips) < 33
    assert min(flips) > 12


def test_hash_values_accepts_array_of_keys() -> None:
    keys = np.array([[1], [MASK_64]], np.uint64)
    values = np.array([5, 6, 7])

    assert hash_values(keys, values).tolist() == [
        hash_values(1, values).tolist(),
        hash_values(MASK_64, values).tolist(),
    ]
