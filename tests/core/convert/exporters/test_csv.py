"""The exporters to CSV and TSV."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from tests.core.formats import read_errors, read_samples, write_unit
from wdsctl.core import importers
from wdsctl.core.errors import DatasetError


def rows(folder: str, name: str = "samples.csv", delimiter: str = ",") -> list[dict[str, str]]:
    with (Path(folder) / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def test_csv_stores_text_in_cells_and_media_in_files(tmp_path: Path) -> None:
    samples = {
        "a/1": {"jpg": b"one", "seg.png": b"two", "txt": b'a "q",\r\nline\rend ', "json": b'{"n": 1}', "cls": b"3"},
        "b": {"jpg": b"", "txt": b"; x | y"},
    }
    folder = write_unit(tmp_path, "csv", samples)

    assert rows(folder) == [
        {"__key__": "a/1", "cls": "3", "jpg": "files/a/1.jpg", "json": '{"n": 1}', "seg.png": "files/a/1.seg.png",
         "txt": 'a "q",\r\nline\rend '},
        {"__key__": "b", "cls": "", "jpg": "files/b.jpg", "json": "", "seg.png": "", "txt": "; x | y"},
    ]  # fmt: skip
    assert read_samples(folder) == samples
    assert read_samples(Path(folder) / "samples.csv") == samples
    assert importers.best_importer(folder)[0].name == "csv"


def test_tsv_separates_cells_by_tabs(tmp_path: Path) -> None:
    samples = {"a": {"txt": b"one\ttwo", "cls": b"1"}}
    folder = write_unit(tmp_path, "tsv", samples)

    assert rows(folder, "samples.tsv", "\t") == [{"__key__": "a", "cls": "1", "txt": "one\ttwo"}]
    assert read_samples(folder) == samples


@pytest.mark.parametrize("data", [b"", b"\xff", b"a\0b", b"files/a.txt", b"x" * ((1 << 20) + 1)])
def test_text_that_no_cell_can_hold_is_written_as_file(tmp_path: Path, data: bytes) -> None:
    folder = write_unit(tmp_path, "csv", {"a": {"txt": data}})

    assert rows(folder) == [{"__key__": "a", "txt": "files/a.txt"}]
    assert (Path(folder) / "files" / "a.txt").read_bytes() == data
    assert read_samples(folder) == {"a": {"txt": data}}


def test_media_cell_with_path_outside_folder_is_refused(tmp_path: Path) -> None:
    folder = Path(write_unit(tmp_path / "d", "csv", {"a": {"jpg": b"1", "txt": b"x"}, "b": {"jpg": b"3"}}))
    (tmp_path / "secret.jpg").write_bytes(b"2")
    table = folder / "samples.csv"
    table.write_text(table.read_text().replace("files/a.jpg", "../secret.jpg"))

    assert {number: error.code for number, error in read_errors(folder).items()} == {0: "WDS230"}


def test_compressed_csv_is_read_like_csv(tmp_path: Path) -> None:
    samples = {"a": {"jpg": b"1", "txt": b"x"}}
    folder = Path(write_unit(tmp_path, "csv", samples))
    (folder / "samples.csv.gz").write_bytes(gzip.compress((folder / "samples.csv").read_bytes()))
    (folder / "samples.csv").unlink()

    assert read_samples(folder) == samples


def test_foreign_table_with_key_column_is_read_as_plain_table(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("__key__,label,url\na,dog,https://example.org/a\n")

    (parts,) = read_samples(tmp_path / "rows.csv").values()
    assert json.loads(parts["json"]) == {"__key__": "a", "label": "dog", "url": "https://example.org/a"}


@pytest.mark.parametrize("name", ["__key__", "__files__", " txt"])
def test_part_name_that_cannot_be_column_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DatasetError, match="cannot be a column") as caught:
        write_unit(tmp_path, "csv", {"a": {name: b"x"}})
    assert caught.value.code == "WDS237"


def test_key_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="not UTF-8"):
        write_unit(tmp_path, "csv", {"a\udcff": {"txt": b"x"}})
