"""Columns of text cells get the types that all of their cells have."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.importers.common.cell_types import convert_cells, infer_cell_types


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["0", "-7", "123456789012345"], [0, -7, 123456789012345]),
        (["1", "", "3"], [1, None, 3]),
        (["0.5", "2", "-1.25"], [0.5, 2, -1.25]),
        (["true", "false"], [True, False]),
        (["True", "", "False"], [True, None, False]),
        (["01234", "5"], None),
        (["1.10", "2.5"], None),
        (["1e5"], None),
        (["1234567890123456"], None),
        (["-0", "+1"], None),
        (["0.00001"], None),
        (["nan", "1.5"], None),
        (["true", "False"], None),
        (["true", "1"], None),
        (["1", "two"], None),
        ([" 1"], None),
        (["\u0661"], None),  # a digit in Arabic
        (["", ""], None),
    ],
)
def test_cell_types_are_those_of_all_cells(cells: list[str], values: list[object] | None) -> None:
    rows = [{"a": cell, "b": "x"} for cell in cells]
    types = infer_cell_types(rows, ["a", "b"])

    assert "b" not in types
    assert ("a" in types) == (values is not None)
    found = [convert_cells(row, types)["a"] for row in rows]
    assert found == (cells if values is None else values)
    assert [type(each) for each in found] == [type(each) for each in values or cells]


def test_cell_types_of_changed_cell_raise_error() -> None:
    with pytest.raises(ValueError, match="'x' is no integer"):
        convert_cells({"a": "x"}, {"a": "integer"})


@given(st.lists(st.one_of(st.integers().map(str), st.floats().map(str), st.booleans().map(str), st.text(max_size=4))))
def test_cell_types_keep_text_of_every_cell(cells: list[str]) -> None:
    rows = [{"a": cell} for cell in cells]
    types = infer_cell_types(rows, ["a"])

    for cell in cells if types else ():
        value = convert_cells({"a": cell}, types)["a"]
        written = "" if value is None else json.dumps(value)
        assert written.lower() == cell.lower()
