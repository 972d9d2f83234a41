"""Files of a header and arrays: written as the header states, and read back only if they are complete."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.offsets.block_checksums import append_checksums
from wdsctl.core.offsets.mapped_arrays import build_array_header, open_mapped_arrays

MAGIC = b"WDSTEST\n"
DTYPES = {"rows": ("<i8",), "none": ("<u4",), "text": ("|u1",)}
ROWS = np.arange(5, dtype=np.int64)


def write_arrays(path: Path) -> Path:
    head, places = build_array_header(
        MAGIC, {"name": "a"}, {"rows": ("<i8", 5), "none": ("<u4", 0), "text": ("|u1", 3)}
    )
    data = bytearray(head)
    for name, column in (("rows", ROWS.tobytes()), ("none", b""), ("text", b"abc")):
        data += bytes(places[name] - len(data)) + column
    with open(path, "w+b") as file:
        file.write(data)
        append_checksums(file)
    return path


def test_mapped_arrays_round_trip(tmp_path: Path) -> None:
    found = open_mapped_arrays(str(write_arrays(tmp_path / "a.bin")), MAGIC, DTYPES)

    assert found is not None
    assert found.facts["name"] == "a"
    assert {name: column.tolist() for name, column in found.columns.items()} == {
        "rows": ROWS.tolist(),
        "none": [],
        "text": [97, 98, 99],
    }


def test_open_mapped_arrays_of_other_format_or_missing_file_is_none(tmp_path: Path) -> None:
    assert open_mapped_arrays(str(write_arrays(tmp_path / "a.bin")), b"WDSELSE\n", DTYPES) is None
    assert open_mapped_arrays(str(tmp_path / "b.bin"), MAGIC, DTYPES) is None
    assert open_mapped_arrays(str(tmp_path), MAGIC, DTYPES) is None


@given(at=st.integers(0, 1 << 20), bit=st.integers(0, 7))
def test_open_mapped_arrays_with_flipped_bit_is_none(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    path = write_arrays(tmp_path_factory.getbasetemp() / "flipped.bin")
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1 << bit
    path.write_bytes(data)

    assert open_mapped_arrays(str(path), MAGIC, DTYPES) is None


@given(data=st.data())
def test_open_mapped_arrays_of_truncated_file_is_none(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = write_arrays(tmp_path_factory.getbasetemp() / "cut.bin")
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])

    assert open_mapped_arrays(str(path), MAGIC, DTYPES) is None


@given(st.integers(0, 1 << 40), st.text(max_size=300))
def test_build_array_header_fits_before_aligned_arrays(count: int, name: str) -> None:
    head, places = build_array_header(MAGIC, {"name": name}, {"rows": ("<i8", count), "more": ("<u4", count)})

    assert len(head) <= places["rows"] <= places["more"]
    assert places["more"] % 64 == 0
