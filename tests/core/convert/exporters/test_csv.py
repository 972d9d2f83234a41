"""To CSV and TSV."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from tests.core.formats import faults, held, written
from wdsctl.core import importers
from wdsctl.core.errors import DatasetError


def rows(folder: str, name: str = "samples.csv", delimiter: str = ",") -> list[dict[str, str]]:
    with (Path(folder) / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def test_texts_stand_in_the_cells_and_media_beside(tmp_path: Path) -> None:
    samples = {
        "a/1": {"jpg": b"one", "seg.png": b"two", "txt": b'a "q",\r\nline\rend ', "json": b'{"n": 1}', "cls": b"3"},
        "b": {"jpg": b"", "txt": b"; x | y"},
    }
    folder = written(tmp_path, "csv", samples)

    assert rows(folder) == [
        {"__key__": "a/1", "cls": "3", "jpg": "files/a/1.jpg", "json": '{"n": 1}', "seg.png": "files/a/1.seg.png",
         "txt": 'a "q",\r\nline\rend '},
        {"__key__": "b", "cls": "", "jpg": "files/b.jpg", "json": "", "seg.png": "", "txt": "; x | y"},
    ]  # fmt: skip
    assert held(folder) == samples
    assert held(Path(folder) / "samples.csv") == samples
    assert importers.best_importer(folder)[0].name == "csv"


def test_tabs_divide_the_cells_of_tsv(tmp_path: Path) -> None:
    samples = {"a": {"txt": b"one\ttwo", "cls": b"1"}}
    folder = written(tmp_path, "tsv", samples)

    assert rows(folder, "samples.tsv", "\t") == [{"__key__": "a", "cls": "1", "txt": "one\ttwo"}]
    assert held(folder) == samples


@pytest.mark.parametrize("data", [b"", b"\xff", b"a\0b", b"files/a.txt", b"x" * ((1 << 20) + 1)])
def test_a_text_that_a_cell_cannot_hold_is_a_file(tmp_path: Path, data: bytes) -> None:
    folder = written(tmp_path, "csv", {"a": {"txt": data}})

    assert rows(folder) == [{"__key__": "a", "txt": "files/a.txt"}]
    assert (Path(folder) / "files" / "a.txt").read_bytes() == data
    assert held(folder) == {"a": {"txt": data}}


def test_an_edited_cell_of_media_leads_to_a_file_below_the_table_or_is_refused(tmp_path: Path) -> None:
    folder = Path(written(tmp_path / "d", "csv", {"a": {"jpg": b"1", "txt": b"x"}, "b": {"jpg": b"3"}}))
    (tmp_path / "secret.jpg").write_bytes(b"2")
    table = folder / "samples.csv"
    table.write_text(table.read_text().replace("files/a.jpg", "../secret.jpg"))

    assert {number: error.code for number, error in faults(folder).items()} == {0: "WDS230"}


def test_a_compressed_table_is_the_same(tmp_path: Path) -> None:
    samples = {"a": {"jpg": b"1", "txt": b"x"}}
    folder = Path(written(tmp_path, "csv", samples))
    (folder / "samples.csv.gz").write_bytes(gzip.compress((folder / "samples.csv").read_bytes()))
    (folder / "samples.csv").unlink()

    assert held(folder) == samples


def test_a_table_of_others_with_such_a_column_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("__key__,label,url\na,dog,https://example.org/a\n")

    (parts,) = held(tmp_path / "rows.csv").values()
    assert json.loads(parts["json"]) == {"__key__": "a", "label": "dog", "url": "https://example.org/a"}


@pytest.mark.parametrize("name", ["__key__", "__files__", " txt"])
def test_a_name_that_cannot_be_a_column_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DatasetError, match="cannot be a column") as caught:
        written(tmp_path, "csv", {"a": {name: b"x"}})
    assert caught.value.code == "WDS237"


def test_a_key_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="not UTF-8"):
        written(tmp_path, "csv", {"a\udcff": {"txt": b"x"}})
