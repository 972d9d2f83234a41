from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from wdsctl.core.catalog.database_file import ValueType, check_row_types, is_one_line


@pytest.mark.parametrize(
    ("row", "types"),
    [
        (("1",), ("int",)),
        ((None,), ("int",)),
        ((b"a",), ("text",)),
        ((1.5,), ("count",)),
        ((-1,), ("count",)),
        ((1 << 35,), ("shard",)),
        (("a\x1b[2J",), ("name",)),
        (("a\n",), ("name",)),
        ((True,), ("text?",)),
    ],
)
def test_check_row_types_rejects_value_of_wrong_type(row: tuple[Any, ...], types: tuple[ValueType, ...]) -> None:
    with pytest.raises(sqlite3.DatabaseError):
        list(check_row_types([row], *types))


def test_check_row_types_passes_valid_rows_unchanged() -> None:
    rows = [(1, "a", None, b"", 0.5), ((1 << 35) - 1, "ü b", 0, None, 2)]
    assert list(check_row_types(rows, "shard", "name", "count?", "blob?", "number")) == rows


def test_is_one_line_accepts_any_script() -> None:
    assert is_one_line("名\u202fa")
    assert not is_one_line("a\x7f")
