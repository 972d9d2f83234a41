"""Types of columns whose cells are text: the cells of a CSV file become the numbers that JSON has.

A column has a type if each of its cells has the form of the type, and the value, written again, gives the same text.
So `01234`, `1.10`, `1e5` and numbers of more than 15 digits stay text. Empty cells of such a column become null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from wdsctl.core.json_text import read_json

CellType = Literal["integer", "number", "boolean"]

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,14}")  # doubles, which many readers of JSON use, hold 15 digits
_DECIMAL = re.compile(r"-?[0-9]{1,15}\.[0-9]+")
_BOOLEANS = (frozenset({"true", "false"}), frozenset({"True", "False"}))


def infer_cell_types(rows: Iterable[Mapping[str, str]], columns: Iterable[str]) -> dict[str, CellType]:
    """Column -> its type; text columns have none. Cost: about 0.3 us per cell of a column that is not yet text."""
    found: dict[str, set[str]] = {name: set() for name in columns}
    for row in rows:
        texts = []
        for name, forms in found.items():
            cell = row.get(name, "")
            if not cell:
                continue
            form = _form(cell)
            if form not in forms:
                forms.add(form)
                if not _type_of(forms):
                    texts.append(name)
        for name in texts:
            del found[name]
        if not found:
            break
    return {name: found_type for name, forms in found.items() if (found_type := _type_of(forms))}


def _form(cell: str) -> str:
    """`integer` or `decimal`; the text itself for a boolean; empty for other text."""
    if _INTEGER.fullmatch(cell):
        return "integer"
    if _DECIMAL.fullmatch(cell):
        return "decimal" if repr(float(cell)) == cell else ""
    return cell if any(cell in spellings for spellings in _BOOLEANS) else ""


def _type_of(forms: set[str]) -> CellType | None:
    """The type of a column whose cells have these forms; None for text, or without any cell."""
    if not forms:
        return None
    if forms <= {"integer", "decimal"}:
        return "number" if "decimal" in forms else "integer"
    return "boolean" if any(forms <= spellings for spellings in _BOOLEANS) else None


def convert_cells(row: Mapping[str, str], types: Mapping[str, CellType]) -> dict[str, Any]:
    """The row with values of these types. Raises ValueError for a cell of another form."""
    return {name: _convert(cell, types[name]) if name in types else cell for name, cell in row.items()}


def _convert(cell: str, cell_type: CellType) -> Any:
    if not cell:
        return None
    form = _form(cell)
    if form == "integer" and cell_type != "boolean":
        return int(cell)
    if form == "decimal" and cell_type == "number":
        return float(cell)
    if form == cell and cell_type == "boolean":
        return cell in ("true", "True")
    raise ValueError(f"{cell[:40]!r} is no {cell_type}")


def dump_cell_types(types: Mapping[str, CellType]) -> str:
    """The types as text, for `parse_cell_types`."""
    return json.dumps(types)


def parse_cell_types(text: str) -> dict[str, CellType]:
    """The types that `dump_cell_types` wrote."""
    types = read_json(text)
    return {name: each for name, each in types.items() if each in get_args(CellType)}
