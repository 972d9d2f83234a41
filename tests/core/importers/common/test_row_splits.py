"""A field that holds the split of each row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.build import a_folder
from tests.core.formats import open_error, read_samples
from wdsctl.core import importers
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import UsageError
from wdsctl.core.importers.protocol import DescribedSource, DetailedSource, SourceDescription

PICTURES = {f"{i}.jpg": b"\xff\xd8\xff\xe0 picture %d" % i for i in range(6)}
SPLITS = ["train", "Train", "val", "test", "", "holiday"]
ROWS = [{"image": f"{i}.jpg", "caption": f"c{i}", "split": split} for i, split in enumerate(SPLITS)]


def write_table(folder: Path, name: str, rows: list[dict[str, str]]) -> str:
    """Writes a table in the format of its extension, in a folder with its pictures."""
    root = a_folder(folder, PICTURES)
    path, ending = folder / name, name.rpartition(".")[2]
    if ending == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        arrow = pytest.importorskip("pyarrow")
        parquet.write_table(arrow.Table.from_pylist(rows), path)
    elif ending in ("csv", "tsv"):
        comma = "," if ending == "csv" else "\t"
        lines = [list(rows[0]), *(row.values() for row in rows)]
        path.write_text("".join(f"{comma.join(line)}\n" for line in lines))
    elif ending == "json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(root)


def splits_of(path: str, **options: str) -> tuple[dict[str, tuple[str, ...]], SourceDescription]:
    """The splits of each sample, and the description of the source."""
    importer, _ = importers.best_importer(path)
    with importer.open(path, options) as source:
        assert isinstance(source, DetailedSource)
        assert isinstance(source, DescribedSource)
        names = source.split_names
        found = {
            sample.key: tuple(name for bit, name in enumerate(names) if sample.splits >> bit & 1)
            for sample in source.list_samples()
        }
        return found, source.describe()


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.json", "t.parquet"])
@pytest.mark.parametrize("is_folder", [True, False])
def test_split_field_values_become_splits(tmp_path: Path, name: str, is_folder: bool) -> None:
    root = write_table(tmp_path, name, ROWS)

    found, described = splits_of(root if is_folder else f"{root}/{name}")

    assert found == {"0": ("train",), "1": ("train",), "2": ("val",), "3": ("test",), "4": (), "5": ()}
    (use,) = (use for use in described.field_uses if use.name == "split")
    assert use.becomes == "split"
    assert use.note == "train 2, val 1, test 1; json[split] keeps it"
    (finding,) = (finding for finding in described.findings if finding.code == "WDS254")
    assert (finding.severity, finding.count) == ("warning", 2)
    assert "'' in " in finding.message


def test_convert_creates_splits_of_rows_and_keeps_their_values(tmp_path: Path) -> None:
    root = write_table(tmp_path / "source", "t.csv", ROWS[:4])

    convert([root], str(tmp_path / "out"), ConvertRequest())

    with Catalog.open(str(tmp_path / "out/.wdsctl/catalog.sqlite")) as catalog:
        assert {split.name for split in catalog.splits()} == {"train", "val", "test"}
    assert json.loads(read_samples(f"{root}/t.csv")["1"]["json"])["split"] == "Train"


def test_parquet_samples_with_bytes_get_splits_of_rows(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"image": PICTURES[f"{i}.jpg"], "split": split} for i, split in enumerate(SPLITS[:4])]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "t.parquet")

    found, _ = splits_of(str(tmp_path / "t.parquet"))

    assert list(found.values()) == [("train",), ("train",), ("val",), ("test",)]


@pytest.mark.parametrize("field", ["Subset", "PARTITION"])
def test_split_field_is_recognised_by_other_names(tmp_path: Path, field: str) -> None:
    rows = [{"image": f"{i}.jpg", field: ["train", "validation"][i % 2]} for i in range(4)]
    root = write_table(tmp_path, "t.csv", rows)

    assert set(splits_of(root)[0].values()) == {("train",), ("val",)}


def test_split_field_with_unknown_values_is_ignored(tmp_path: Path) -> None:
    rows = [{"image": f"{i}.jpg", "split": f"banana {i}"} for i in range(4)]

    found, described = splits_of(write_table(tmp_path, "t.csv", rows))

    assert set(found.values()) == {()}
    assert {use.name: use.becomes for use in described.field_uses}["split"] == "json[split]"


def test_option_split_selects_field_or_none(tmp_path: Path) -> None:
    rows = [{"image": f"{i}.jpg", "split": "train", "fold": str(i % 2)} for i in range(4)]
    root = write_table(tmp_path, "t.csv", rows)

    assert splits_of(root, split="fold")[0] == {"0": ("0",), "1": ("1",), "2": ("0",), "3": ("1",)}
    assert set(splits_of(root, split="")[0].values()) == {()}
    assert open_error(root, {"split": "fild"}).code == "WDS001"


def test_option_split_refuses_field_with_too_many_values(tmp_path: Path) -> None:
    rows = [{"text": f"t{i}"} for i in range(63)]
    root = write_table(tmp_path, "t.csv", rows)

    with pytest.raises(UsageError, match="more than 62 values"):
        splits_of(f"{root}/t.csv", split="text")


def test_names_of_several_files_override_split_field(tmp_path: Path) -> None:
    rows = [{"image": f"{i}.jpg", "split": "test"} for i in range(4)]
    root = write_table(tmp_path, "train.csv", rows[:2])
    assert set(splits_of(root)[0].values()) == {("test",)}

    write_table(tmp_path, "val.csv", rows[2:])
    assert splits_of(root)[0] == {"0": ("train",), "1": ("train",), "2": ("val",), "3": ("val",)}
    assert set(splits_of(root, split="split")[0].values()) == {("test",)}
