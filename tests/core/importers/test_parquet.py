"""The importer parquet."""

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
from tests.core.formats import open_error, read_errors, read_samples
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert
from wdsctl.core.importers.parquet import IMPORTER
from wdsctl.core.importers.protocol import DetailedSource

JPEG, PNG = b"\xff\xd8\xff\xe0 a photo", b"\x89PNG\r\n\x1a\n a drawing"


def a_table(path: Path, columns: dict[str, Any], **settings: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **settings)
    return str(path)


def test_parquet_byte_columns_become_parts_and_other_columns_json(tmp_path: Path) -> None:
    timestamp = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc)
    columns = {"image": [JPEG, PNG, None], "text": ["é", None, "c"], "n": [1.5, float("nan"), 3], "at": [timestamp] * 3}
    path = a_table(tmp_path / "t.parquet", columns)

    found = read_samples(path)

    assert found["t/0"]["jpg"] == JPEG
    assert found["t/1"]["png"] == PNG
    assert json.loads(found["t/1"]["json"]) == {"text": None, "n": None, "at": "2024-01-02T03:04:05+00:00"}
    assert list(found["t/2"]) == ["json"]


def test_parquet_bytes_take_extension_of_path_and_paths_are_references(tmp_path: Path) -> None:
    alone = [{"bytes": None, "path": path} for path in ("in/b.jpg", "/b.jpg")]
    files = [{"bytes": b"?", "path": "x/a.webp"}, *alone]
    path = a_table(tmp_path / "t.parquet", {"image": files, "file_name": ["a.jpg"] * 3})
    a_folder(tmp_path, {"in/b.jpg": b"b"})

    with IMPORTER.open(path, {}) as source:
        assert [part.name for part in source.read(0)] == ["json", "webp"]
        assert source.read(1)[0].data == b"b"
    assert {place: error.code for place, error in read_errors(path).items()} == {2: "WDS230"}


def test_parquet_list_of_images_becomes_numbered_parts(tmp_path: Path) -> None:
    path = a_table(tmp_path / "t.parquet", {"id": ["a"], "images": [[JPEG, PNG]], "mask": [PNG]})

    assert read_samples(path, {"key": "id"}) == {
        "a": {"images.0.jpg": JPEG, "images.1.png": PNG, "mask.png": PNG, "json": b'{"id":"a"}'}
    }


def test_parquet_rows_of_several_files_are_read_in_any_order(tmp_path: Path) -> None:
    for name, first in (("b/1.parquet", 100), ("a.parquet", 0)):
        rows = {"i": list(range(first, first + 100)), "data": [bytes([i]) * 50 for i in range(100)]}
        a_table(tmp_path / name, rows, row_group_size=7)

    with IMPORTER.open(str(tmp_path), {}) as source:
        assert sum(1 for _ in source.entries()) == 200
        for place in (199, 0, 100, 99, 55, 56):
            assert json.loads(source.read(place)[1].data) == {"i": place}


@pytest.mark.parametrize("keep", [0, 3, 0.3, 0.9, 0.999])
def test_parquet_refuses_and_names_truncated_file(tmp_path: Path, keep: float) -> None:
    path = Path(a_table(tmp_path / "t.parquet", {"a": list(range(1000))}))
    path.write_bytes(path.read_bytes()[: int(keep if keep > 1 else keep * path.stat().st_size)])

    error = open_error(path)

    assert error.code == "WDS233"
    assert str(path) in error.where


def test_parquet_refuses_damaged_page(tmp_path: Path) -> None:
    columns = {"a": [str(i) * 20 for i in range(5000)]}
    path = Path(a_table(tmp_path / "t.parquet", columns, compression="zstd", use_dictionary=False))
    data = bytearray(path.read_bytes())
    data[200:400] = bytes(200)
    path.write_bytes(data)

    assert open_error(path).code == "WDS233"


def test_parquet_refuses_different_columns_and_repeated_columns(tmp_path: Path) -> None:
    a_table(tmp_path / "d" / "1.parquet", {"a": [1]})
    a_table(tmp_path / "d" / "2.parquet", {"b": [1]})
    twice = a_table(tmp_path / "t.parquet", pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))

    assert "2.parquet" in open_error(tmp_path / "d").where
    assert "is repeated" in open_error(twice).message


def test_parquet_without_pyarrow_hints_at_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = a_table(tmp_path / "t.parquet", {"a": [1]})
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)

    error = open_error(path)

    assert error.code == "WDS236"
    assert error.hint == "pip install 'wdsctl[parquet]'"


@pytest.mark.parametrize("kind", [pa.binary_view(), pa.dictionary(pa.int32(), pa.binary()), pa.large_binary()])
def test_parquet_bytes_become_parts_for_every_arrow_type(tmp_path: Path, kind: Any) -> None:
    images = pa.array([JPEG, PNG], pa.binary())
    stored = images.dictionary_encode() if pa.types.is_dictionary(kind) else images.cast(kind)

    assert read_samples(a_table(tmp_path / "t.parquet", {"image": stored})) == {
        "t/0": {"jpg": JPEG},
        "t/1": {"png": PNG},
    }


def test_parquet_reads_nested_and_out_of_range_timestamps(tmp_path: Path) -> None:
    columns = {"seen": pa.array([[1]], pa.list_(pa.timestamp("ns"))), "far": pa.array([2**62], pa.timestamp("us"))}

    (parts,) = read_samples(a_table(tmp_path / "t.parquet", columns)).values()

    assert json.loads(parts["json"]) == {"seen": ["1970-01-01T00:00:00.000000001"], "far": 2**62}


def test_parquet_columns_that_name_files_become_parts(tmp_path: Path) -> None:
    files = {f"images/{i}.jpg": b"picture %d" % i for i in range(3)}
    root = a_folder(tmp_path, files)
    table = pa.table({"image": ["0.jpg", "1.jpg"], "boxes": [[{"x": 1}], []], "n": [1, None]})
    pq.write_table(table, f"{root}/t.parquet")

    importer, match = importers.best_importer(root)
    with importer.open(root, {}) as source:
        description = source.describe()  # type: ignore[attr-defined]

    assert (importer.name, match.reason) == ("parquet", "t.parquet names 2 of the folder's 3 files")
    expected = {
        "0": {"jpg": b"picture 0", "json": b'{"boxes":[{"x":1}],"n":1}'},
        "1": {"jpg": b"picture 1", "json": b'{"boxes":[],"n":null}'},
    }
    assert read_samples(root) == read_samples(f"{root}/t.parquet") == expected
    assert [use[:2] for use in description.field_uses] == [("image", "jpg"), ("boxes", "json[boxes]"), ("n", "json[n]")]
    assert [(found.code, found.severity, found.count) for found in description.findings] == [("WDS239", "error", 1)]


def test_parquet_table_that_names_no_files_is_not_preferred(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"0.jpg": b"x", "1.jpg": b"y"})
    pq.write_table(pa.table({"id": ["a"]}), f"{root}/t.parquet")

    assert importers.best_importer(root)[0].name == "folder"


def test_parquet_describes_byte_columns_by_parts(tmp_path: Path) -> None:
    jpeg, png = b"\xff\xd8\xff\xe0 photo", b"\x89PNG\r\n\x1a\n picture"
    table = pa.table(
        {
            "image": [{"bytes": jpeg, "path": "a.jpg"}],
            "views": [[{"bytes": png, "path": None}, {"bytes": jpeg, "path": None}]],
            "text": ["x"],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "README.md").write_text("about")
    (tmp_path / "left.jpg").write_bytes(b"left")

    importer, _ = importers.best_importer(str(tmp_path))
    with importer.open(str(tmp_path), {}) as source:
        description = source.describe()  # type: ignore[attr-defined]

    assert read_samples(tmp_path) == {
        "t/0": {"image.jpg": jpeg, "views.0.png": png, "views.1.jpg": jpeg, "json": b'{"text":"x"}'}
    }
    assert {use.name: use.becomes for use in description.field_uses} == {
        "image": "image.jpg", "views": "views.0.png, views.1.jpg", "text": "json[text]",
    }  # fmt: skip
    assert [(found.code, found.severity, found.count) for found in description.findings] == [
        ("WDS239", "error", 1), ("WDS239", "warning", 1),
    ]  # fmt: skip


def test_parquet_files_named_after_splits_become_splits(tmp_path: Path) -> None:
    (tmp_path / "in" / "data").mkdir(parents=True)
    for split, files in (("train", 2), ("validation", 1), ("test", 1)):
        for i in range(files):
            table = pa.table({"image": [b"\xff\xd8\xff" + f"{split}{i}".encode()], "n": [i]})
            pq.write_table(table, tmp_path / "in" / "data" / f"{split}-{i:05d}-of-{files:05d}.parquet")

    report = convert([str(tmp_path / "in")], str(tmp_path / "out"))

    assert report.datasets[0].splits == {"train": 2, "val": 1, "test": 1}


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (
            ("data/train-00000-of-00001", "data/test-00000-of-00001", "data/extra-00000-of-00001"),
            ["extra", "test", "train"],
        ),
        (("train.clean-00000-of-00001", "validation.clean-00000-of-00001"), ["train.clean", "validation.clean"]),
        (("default/train/0000", "default/train/0001", "default/test/0000"), ["test", "train", "train"]),
        (("train-00000", "train-00001", "test-00000"), ["test", "train", "train"]),
        (("part-00000-of-00002", "part-00001-of-00002"), ["", ""]),
        (("train_10", "train_100", "test"), ["test", "train", "train"]),
        (("photos-train-0", "photos-train-1", "photos-val-0"), ["train", "train", "val"]),
        (("cats-train-0", "dogs-val-0"), ["", ""]),
        (("a/train/x", "a/train/y", "a/test/z"), ["test", "train", "train"]),
        (("split=train/part-0-a1f", "split=train/part-1-b2e", "split=extra/part-0"), ["extra", "train", "train"]),
        (("lang=de/split=train/0", "lang=en/split=test/0"), ["train", "test"]),
        (("subset=train/0", "subset=test/0"), ["test", "train"]),
        (("subset=de/0", "subset=en/0"), ["", ""]),
        (("split=val/0",), ["val"]),
        (("de/train-00000-of-00001", "en/train-00000-of-00001", "en/test-00000-of-00001"), ["train", "test", "train"]),
        (("de/train/0", "de/test/0", "en/train/0", "en/test/0"), ["test", "train", "test", "train"]),
        (("a/train-00000-of-00001", "b/extra-00000-of-00001"), ["", ""]),
    ],
)
def test_parquet_files_of_hub_layouts_are_in_their_splits(
    tmp_path: Path, names: tuple[str, ...], splits: list[str]
) -> None:
    for name in names:
        a_table(tmp_path / f"{name}.parquet", {"image": [JPEG + name.encode()]})

    with IMPORTER.open(str(tmp_path), {}) as source:
        assert isinstance(source, DetailedSource)
        known = ["", *source.split_names]
        assert [known[each.splits.bit_length()] for each in source.list_samples()] == splits


def test_parquet_class_names_are_read_from_schema(tmp_path: Path) -> None:
    features = {
        "label": {"names": ["cat", "dog"], "_type": "ClassLabel"},
        "tags": {"feature": {"names": ["in", "out"], "_type": "ClassLabel"}, "_type": "Sequence"},
        "n": {"dtype": "int64", "_type": "Value"},
    }
    table = pa.table({"label": [1, -1], "tags": [[0, 1], []], "n": [1, 1]})
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, tmp_path / "t.parquet")

    assert [json.loads(parts["json"]) for parts in read_samples(tmp_path / "t.parquet").values()] == [
        {"label": 1, "tags": [0, 1], "n": 1, "label_name": "dog", "tags_name": ["in", "out"]},
        {"label": -1, "tags": [], "n": 1, "tags_name": []},
    ]


@pytest.mark.parametrize("metadata", [b"{", b"[]", b'{"info": 1}', b'{"info": {"features": [1]}}'])
def test_parquet_ignores_invalid_feature_metadata(tmp_path: Path, metadata: bytes) -> None:
    table = pa.table({"label": [1]}).replace_schema_metadata({"huggingface": metadata})
    pq.write_table(table, tmp_path / "t.parquet")

    assert read_samples(tmp_path / "t.parquet") == {"t/0": {"json": b'{"label":1}'}}
