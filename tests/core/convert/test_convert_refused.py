"""A refused conversion leaves nothing in its destination."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder, some_shards
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import DatasetError, InputError, UsageError
from wdsctl.core.index.index import index


def make_incomplete_folder(root: Path) -> Path:
    root.mkdir()
    for name in ("a.jpg", "a.txt", "b.jpg", "b.txt", "c.txt"):
        (root / name).write_bytes(b"x")
    return root


def test_refused_conversion_creates_no_destination(tmp_path: Path) -> None:
    raw = make_incomplete_folder(tmp_path / "raw")
    with pytest.raises(DatasetError) as caught:
        convert([str(raw)], str(tmp_path / "made"))
    assert not (tmp_path / "made").exists()
    assert "-O on-missing=skip" in caught.value.hint
    assert "--on-missing" not in caught.value.hint


def test_split_of_source_that_is_not_prepared_is_refused_with_command_that_divides_it(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "shards", 2)

    with pytest.raises(InputError, match="the source is not prepared, and has no split 'val'") as caught:
        convert([source], str(tmp_path / "made"), ConvertRequest(split="val"))

    assert (caught.value.code, caught.value.where) == ("WDS211", source)
    assert f"wdsctl prepare {source} --split train=8,val=1,test=1" in caught.value.hint


def test_refused_conversion_leaves_existing_destination_empty(tmp_path: Path) -> None:
    raw = make_incomplete_folder(tmp_path / "raw")
    (tmp_path / "made").mkdir()
    with pytest.raises(DatasetError):
        convert([str(raw)], str(tmp_path / "made"))
    assert not list((tmp_path / "made").iterdir())


def test_csv_source_accepts_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("labels.csv").write_text("a,b\nx,1\ny,2\n", encoding="utf-8")
    assert convert(["labels.csv"], "made").samples == 2


def test_conversion_without_successful_sample_writes_nothing_and_reports_first_error(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"rows.csv": b"image,n\ngone.jpg,1\nlost.jpg,2\n"})

    with pytest.raises(DatasetError, match=r"2 samples failed\n.*gone\.jpg") as error:
        convert([f"{root}/rows.csv"], f"{root}/made")

    assert (error.value.code, error.value.exit_code) == ("WDS231", 3)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_file_named_by_row_counts_as_part_of_source(tmp_path: Path, form: str) -> None:
    rows = {"csv": b"image,n\na.jpg,1\nb.jpg,2\n", "jsonl": b'{"image":"a.jpg"}\n{"image":"b.jpg"}\n'}
    root = a_folder(tmp_path, {f"rows.{form}": rows[form], "a.jpg": b"a"})
    source, dest = f"{root}/rows.{form}", f"{root}/made"
    assert convert([source], dest).failed == 1
    assert convert([source], dest).up_to_date

    a_folder(tmp_path, {"b.jpg": b"it has come"})

    with pytest.raises(UsageError) as error:
        convert([source], dest)
    assert error.value.code == "WDS345"


@pytest.mark.parametrize("options", [{"primary": "jsonl"}, {"media": ("jpg",)}])
def test_polylithic_options_are_refused_for_other_layouts(tmp_path: Path, options: Any) -> None:
    with pytest.raises(UsageError, match=r"(needs|has no effect without) --layout polylithic"):
        convert([some_shards(tmp_path / "a", 1)], str(tmp_path / "b"), ConvertRequest(**options))


def test_invalid_dataset_yaml_of_source_is_reported_with_its_line(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 1)
    index(source)
    Path(locate(source).config_path).write_text("sample_type: CrudeSample\nsubflavors: {\n")
    with pytest.raises(DatasetError) as caught:
        convert([source], str(tmp_path / "made"))
    assert caught.value.code == "WDS220"
    assert not (tmp_path / "made").exists()
