from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from wdsctl.core.records import LazySequence, Records


@dataclass(frozen=True, slots=True)
class Item:
    number: int
    name: str
    is_ready: bool
    note: str | None = None


class Pair(NamedTuple):
    a: int
    b: int


ITEMS = [Item(i * 7 - 5, f"ä-{i % 3}\ud800", i % 2 == 0, None if i % 5 else "") for i in range(1000)]


def test_records_equal_their_source_values() -> None:
    records = Records(Item, ITEMS)
    assert list(records) == ITEMS
    assert records == ITEMS
    assert tuple(ITEMS) == records
    assert records != ITEMS[:-1]
    assert records != [*ITEMS[:-1], ITEMS[0]]
    assert list(Records(Pair, [Pair(1, -(1 << 63)), Pair(2, (1 << 63) - 1)])) == [(1, -(1 << 63)), (2, (1 << 63) - 1)]


@pytest.mark.parametrize(
    "index", [0, 1, 999, -1, -1000, slice(3, 9), slice(9, 3), slice(None, None, -7), slice(990, 2000)]
)
def test_records_index_and_slice_like_list(index: int | slice) -> None:
    assert Records(Item, ITEMS)[index] == ITEMS[index]
    assert LazySequence(len(ITEMS), ITEMS.__getitem__)[index] == ITEMS[index]


def test_sequential_access_sees_appended_records() -> None:
    records = Records(Item, ITEMS[:300])
    assert [records[i] for i in range(300)] == ITEMS[:300]
    records.append(ITEMS[300])
    assert [records[i] for i in (299, 300, 5, 6, 7, 300)] == [ITEMS[i] for i in (299, 300, 5, 6, 7, 300)]
    with pytest.raises(IndexError):
        records[301]


def test_iteration_over_few_records_makes_them_once_and_sees_appended_ones() -> None:
    found = Records(Pair, [Pair(1, 2)])
    first = next(iter(found))

    assert next(iter(found)) is first
    found.append(Pair(3, 4))
    assert list(found) == [Pair(1, 2), Pair(3, 4)]


def test_records_refuse_number_beyond_64_bits() -> None:
    with pytest.raises(OverflowError):
        Records(Pair, [Pair(1 << 63, 0)])


def test_records_need_only_bytes_of_their_columns() -> None:
    records = Records(Item, (Item(i, "path/of/a/shard.tar", True) for i in range(10_000)))
    columns = [*records._columns, records._ends, records._texts]
    assert sum(map(sys.getsizeof, columns)) < 10_000 * 48 * 1.2
