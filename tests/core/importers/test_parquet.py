"""Parquet."""

from __future__ import annotations

import datetime as dt
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.build import a_folder
from tests.core.formats import faults, held, refused
from wdsctl.core.importers.parquet import IMPORTER

JPEG, PNG = b"\xff\xd8\xff\xe0 a photo", b"\x89PNG\r\n\x1a\n a drawing"


def a_table(path: Path, columns: dict[str, Any], **settings: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **settings)
    return str(path)


def test_columns_of_bytes_become_parts_and_the_rest_json(tmp_path: Path) -> None:
    when = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc)
    columns = {"image": [JPEG, PNG, None], "text": ["é", None, "c"], "n": [1.5, float("nan"), 3], "at": [when] * 3}
    path = a_table(tmp_path / "t.parquet", columns)

    found = held(path)

    assert found["000000000"]["jpg"] == JPEG
    assert found["000000001"]["png"] == PNG
    assert json.loads(found["000000001"]["json"]) == {"text": None, "n": None, "at": "2024-01-02T03:04:05+00:00"}
    assert list(found["000000002"]) == ["json"]


def test_bytes_with_a_path_have_its_ending_and_paths_alone_are_references(tmp_path: Path) -> None:
    alone = [{"bytes": None, "path": path} for path in ("in/b.jpg", "/b.jpg")]
    files = [{"bytes": b"?", "path": "x/a.webp"}, *alone]
    path = a_table(tmp_path / "t.parquet", {"image": files, "file_name": ["a.jpg"] * 3})
    a_folder(tmp_path, {"in/b.jpg": b"b"})

    with IMPORTER.open(path, {}) as source:
        assert [part.name for part in source.read(0)] == ["json", "webp"]
        assert source.read(1)[0].data == b"b"
    assert {place: error.code for place, error in faults(path).items()} == {2: "WDS230"}


def test_lists_of_images_become_numbered_parts(tmp_path: Path) -> None:
    path = a_table(tmp_path / "t.parquet", {"id": ["a"], "images": [[JPEG, PNG]], "mask": [PNG]})

    assert held(path, {"key": "id"}) == {
        "a": {"images.0.jpg": JPEG, "images.1.png": PNG, "mask.png": PNG, "json": b'{"id":"a"}'}
    }


def test_rows_are_read_by_row_groups_from_any_place_of_several_files(tmp_path: Path) -> None:
    for name, first in (("b/1.parquet", 100), ("a.parquet", 0)):
        rows = {"i": list(range(first, first + 100)), "data": [bytes([i]) * 50 for i in range(100)]}
        a_table(tmp_path / name, rows, row_group_size=7)

    with IMPORTER.open(str(tmp_path), {}) as source:
        assert sum(1 for _ in source.entries()) == 200
        for place in (199, 0, 100, 99, 55, 56):
            assert json.loads(source.read(place)[1].data) == {"i": place}


@pytest.mark.parametrize("keep", [0, 3, 0.3, 0.9, 0.999])
def test_a_file_that_was_cut_is_refused_and_named(tmp_path: Path, keep: float) -> None:
    path = Path(a_table(tmp_path / "t.parquet", {"a": list(range(1000))}))
    path.write_bytes(path.read_bytes()[: int(keep if keep > 1 else keep * path.stat().st_size)])

    error = refused(path)

    assert error.code == "WDS233"
    assert str(path) in error.where


def test_a_damaged_page_is_told_when_it_is_read(tmp_path: Path) -> None:
    columns = {"a": [str(i) * 20 for i in range(5000)]}
    path = Path(a_table(tmp_path / "t.parquet", columns, compression="zstd", use_dictionary=False))
    data = bytearray(path.read_bytes())
    data[200:400] = bytes(200)
    path.write_bytes(data)

    assert refused(path).code == "WDS233"


def test_files_with_other_columns_and_columns_that_come_twice_are_refused(tmp_path: Path) -> None:
    a_table(tmp_path / "d" / "1.parquet", {"a": [1]})
    a_table(tmp_path / "d" / "2.parquet", {"b": [1]})
    twice = a_table(tmp_path / "t.parquet", pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))

    assert "2.parquet" in refused(tmp_path / "d").where
    assert "twice" in refused(twice).message


def test_without_pyarrow_the_command_that_installs_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = a_table(tmp_path / "t.parquet", {"a": [1]})
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)

    error = refused(path)

    assert error.code == "WDS236"
    assert error.hint == "pip install 'wdsctl[parquet]'"


@pytest.mark.parametrize("kind", [pa.binary_view(), pa.dictionary(pa.int32(), pa.binary()), pa.large_binary()])
def test_bytes_are_parts_however_they_are_stored(tmp_path: Path, kind: Any) -> None:
    images = pa.array([JPEG, PNG], pa.binary())
    stored = images.dictionary_encode() if pa.types.is_dictionary(kind) else images.cast(kind)

    assert held(a_table(tmp_path / "t.parquet", {"image": stored})) == {
        "000000000": {"jpg": JPEG},
        "000000001": {"png": PNG},
    }


def test_times_in_lists_and_far_ones_are_no_damage(tmp_path: Path) -> None:
    columns = {"seen": pa.array([[1]], pa.list_(pa.timestamp("ns"))), "far": pa.array([2**62], pa.timestamp("us"))}

    (parts,) = held(a_table(tmp_path / "t.parquet", columns)).values()

    assert json.loads(parts["json"]) == {"seen": ["1970-01-01T00:00:00.000000001"], "far": 2**62}
