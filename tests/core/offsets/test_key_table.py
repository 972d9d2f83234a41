"""KeyTable finds the same rows as a dict, whatever the hashes of the keys are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.key_indexes import all_rows, index_of
from wdsctl.core.offsets import key_table
from wdsctl.core.offsets.key_table import DuplicateKey, KeyTable

KEYS = st.lists(st.text(max_size=20).map(str.encode), unique=True, max_size=60)


@given(KEYS, KEYS)
def test_key_table_finds_rows_like_a_dict(table: list[bytes], queries: list[bytes]) -> None:
    truth = {key: row for row, key in enumerate(table)}

    found = KeyTable(index_of(table), all_rows(table)).find(index_of(queries), all_rows(queries))

    assert found.tolist() == [truth.get(key, -1) for key in queries]


@given(KEYS, st.integers(1, 7))
def test_key_table_finds_keys_despite_blocks_and_hash_collisions(table: list[bytes], bits: int) -> None:
    queries = [*table[::2], b"not there", *table[1::2]]
    truth = {key: row for row, key in enumerate(table)}

    with pytest.MonkeyPatch.context() as patch:
        hash_chunks = key_table._hash_chunks
        patch.setattr(key_table, "BLOCK_KEYS", 3)
        patch.setattr(key_table, "MAX_BLOCK_BYTES", 5)
        patch.setattr(key_table, "_hash_chunks", lambda words, size: hash_chunks(words, size) % np.uint64(1 << bits))
        found = KeyTable(index_of(table), all_rows(table)).find(index_of(queries), all_rows(queries))

    assert found.tolist() == [truth.get(key, -1) for key in queries]


def test_key_table_finds_only_its_own_rows_in_any_order() -> None:
    keys = ["a", "bb", "c", "dd"]

    found = KeyTable(index_of(keys), np.array([3, 0])).find(index_of(keys), np.array([2, 0, 3, 0]))

    assert found.tolist() == [-1, 0, 3, 0]


def test_key_table_distinguishes_keys_by_trailing_zeros() -> None:
    keys = [b"", b"\0", b"\0\0", b"a", b"a\0"]

    assert KeyTable(index_of(keys), all_rows(keys)).find(index_of(keys), all_rows(keys)).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("bits", [64, 0])
def test_duplicate_key_error_has_first_two_rows(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["c", "a", "b", "a", "b", "a"]
    if not bits:
        monkeypatch.setattr(key_table, "_hash_chunks", lambda words, _: np.zeros(len(words), np.uint64))

    with pytest.raises(DuplicateKey) as raised:
        KeyTable(index_of(keys), all_rows(keys))

    assert (raised.value.first, raised.value.second) == (1, 3)
