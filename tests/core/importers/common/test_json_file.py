"""JsonFile reads large JSON files through a window."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.common.text import JsonFile

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


def open_json(folder: Path, data: bytes, window: int) -> JsonFile:
    (folder / "t.json").write_bytes(data)
    return JsonFile(str(folder / "t.json"), window=window)


def elements(file: JsonFile, at: int) -> list[Any]:
    return [json.loads(file.read_bytes(*place)) for place in file.elements(at)]


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(_values, max_size=8),
    window=st.sampled_from([1, 7, 16, 100, 1 << 20]),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
def test_json_file_elements_equal_parsed_values_for_any_window(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], window: int, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only)
    file = open_json(tmp_path_factory.mktemp("j"), text.encode("utf-8", "surrogatepass"), window)

    assert elements(file, file.value_start()) == values
    places = list(file.elements(file.value_start()))
    for place in places[1:]:
        assert next(file.elements_from(place[0])) == place
    file.close()


@settings(max_examples=40, deadline=None)
@given(members=st.dictionaries(st.text(max_size=9), _values, max_size=6), window=st.sampled_from([1, 9, 1 << 20]))
def test_json_file_members_are_found_with_their_lists(
    tmp_path_factory: pytest.TempPathFactory, members: dict[str, Any], window: int
) -> None:
    file = open_json(tmp_path_factory.mktemp("j"), b" " + json.dumps(members).encode() + b"\n", window)

    found = {name: elements(file, at) if file.first_byte(at) == b"[" else None for name, at in file.members()}

    assert found == {name: value if isinstance(value, list) else None for name, value in members.items()}
    file.close()


@pytest.mark.parametrize("window", [4, 1 << 20])
def test_json_file_reports_truncation_with_byte_position(tmp_path: Path, window: int) -> None:
    data = json.dumps([{"a": [1, 2.5e3, 'x\\"é'], "b": None}, True, -12]).encode()
    for stop in range(1, len(data)):
        file = open_json(tmp_path, data[:stop], window)
        with pytest.raises(DatasetError) as error:
            list(file.elements(file.value_start()))
        assert error.value.code == "WDS233"
        assert "(byte " in error.value.where
        file.close()
