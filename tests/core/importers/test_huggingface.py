"""Hugging Face datasets on disk, in the layout of `save_to_disk`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.core.formats import open_error, read_samples
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest

JPEG = b"\xff\xd8\xff\xe0 a photo"
GOLDEN = Path(__file__).parents[2] / "golden" / "forms" / "huggingface"
FEATURES = {
    "image": {"_type": "Image"},
    "label": {"names": ["cat", "dog"], "_type": "ClassLabel"},
    "text": {"dtype": "string", "_type": "Value"},
}


def a_dataset(folder: Path, files: int = 2, rows: int = 5, **state: Any) -> Path:
    """Arrow streams of several batches, the state and the info."""
    folder.mkdir(parents=True)
    names = [f"data-{i:05d}-of-{files:05d}.arrow" for i in range(files)]
    for number, name in enumerate(names):
        table = pa.table(
            {
                "image": [{"bytes": JPEG + bytes([number, i]), "path": "a.jpg"} for i in range(rows)],
                "label": [i % 2 for i in range(rows)],
                "text": [f"{number}/{i}" for i in range(rows)],
            }
        )
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    state_json = {"_data_files": [{"filename": name} for name in names], **state}
    (folder / "state.json").write_text(json.dumps(state_json))
    (folder / "dataset_info.json").write_text(json.dumps({"features": FEATURES}))
    return folder


def test_huggingface_reads_dataset_written_by_library() -> None:
    found = read_samples(GOLDEN)

    assert list(found) == [f"{'train' if i < 3 else 'test'}/{i:09d}" for i in range(5)]
    for i, parts in enumerate(found.values()):
        assert parts["jpg"].startswith(b"\xff\xd8\xff")
        assert json.loads(parts["json"]) == {
            "label": i % 2, "text": f"text {i} é", "tags": ["a", str(i)], "label_name": ["cat", "dog"][i % 2],
        }  # fmt: skip


def test_huggingface_images_become_parts_and_labels_get_names(tmp_path: Path) -> None:
    path = a_dataset(tmp_path / "d")

    found = read_samples(path)

    assert importers.best_importer(str(path))[0].name == "huggingface"
    assert len(found) == 10
    assert found["000000006"]["jpg"] == JPEG + b"\1\1"
    assert json.loads(found["000000006"]["json"]) == {"label": 1, "text": "1/1", "label_name": "dog"}


def test_huggingface_prefixes_keys_with_split_unless_one_is_selected(tmp_path: Path) -> None:
    for split in ("train", "test"):
        a_dataset(tmp_path / "d" / split, files=1, rows=2)
    (tmp_path / "d" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')

    assert list(read_samples(tmp_path / "d")) == [
        "train/000000000",
        "train/000000001",
        "test/000000002",
        "test/000000003",
    ]
    assert list(read_samples(tmp_path / "d", {"split": "test"})) == ["000000000", "000000001"]
    assert open_error(tmp_path / "d", {"split": "tets"}).hint.startswith("did you mean test?")


def test_huggingface_samples_belong_to_split_of_folder(tmp_path: Path) -> None:
    for split, rows in (("train", 3), ("test", 2)):
        a_dataset(tmp_path / "d" / split, files=2, rows=rows)
    (tmp_path / "d" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')

    assert _splits(tmp_path, "both") == {"train": 6, "test": 4}
    assert _splits(tmp_path, "one", split="test") == {"test": 4}


def _splits(folder: Path, name: str, **options: str) -> Mapping[str, int]:
    return convert([str(folder / "d")], str(folder / name), ConvertRequest(format_options=options)).datasets[0].splits


def test_huggingface_reads_arrow_files_with_footer(tmp_path: Path) -> None:
    path = a_dataset(tmp_path / "d", files=1)
    table = pa.table({"text": ["a", "b"]})
    name = path / "data-00000-of-00001.arrow"
    with pa.OSFile(str(name), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)

    assert [parts["json"] for parts in read_samples(path).values()] == [b'{"text":"a"}', b'{"text":"b"}']


@pytest.mark.parametrize("cut", [1, 8, 100, "between batches"])
def test_huggingface_refuses_truncated_file_even_between_batches(tmp_path: Path, cut: int | str) -> None:
    path = a_dataset(tmp_path / "d", files=1)
    file = path / "data-00000-of-00001.arrow"
    data = file.read_bytes()
    end = data.rindex(b"\xff\xff\xff\xff", 0, len(data) - 8) if isinstance(cut, str) else len(data) - cut
    file.write_bytes(data[:end])

    assert open_error(path).code == "WDS233"


def test_huggingface_refuses_outside_files_and_indices_mappings(tmp_path: Path) -> None:
    with_outside_file = a_dataset(tmp_path / "a", _data_files=[{"filename": "../b/data.arrow"}])
    with_indices = a_dataset(tmp_path / "b", _indices_data_files=[{"filename": "indices.arrow"}])
    broken = a_dataset(tmp_path / "c")
    (broken / "state.json").write_text('{"_data_files": ')

    assert open_error(with_outside_file).code == "WDS230"
    assert "flatten_indices" in open_error(with_indices).hint
    assert open_error(broken).code == "WDS233"


def test_huggingface_describes_every_column_and_other_file(tmp_path: Path) -> None:
    path = a_dataset(tmp_path / "d")
    (path / "extra.jpg").write_bytes(b"x")
    importer, _ = importers.best_importer(str(path))

    with importer.open(str(path), {}) as source:
        description = source.describe()  # type: ignore[attr-defined]

    assert [use[:2] for use in description.field_uses] == [
        ("image", "jpg"), ("label", "json[label]"), ("text", "json[text]"), ("label_name", "json[label_name]"),
    ]  # fmt: skip
    assert [(found.code, found.severity, found.count) for found in description.findings] == [("WDS239", "error", 1)]


def test_huggingface_splits_have_no_findings(tmp_path: Path) -> None:
    for split in ("train", "test"):
        a_dataset(tmp_path / "d" / split, files=1, rows=2)
    (tmp_path / "d" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')

    report = convert([str(tmp_path / "d")], str(tmp_path / "out"))

    assert report.findings == ()
    assert [use.name for use in report.sources[0].fields] == ["image", "label", "text", "label_name"]


def test_huggingface_texts_that_name_files_are_references(tmp_path: Path) -> None:
    path = a_dataset(tmp_path / "d", files=1)
    table = pa.table({"image": ["0.jpg", "1.jpg"], "label": [0, 1]})
    with pa.OSFile(str(path / "data-00000-of-00001.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    for i in range(2):
        (path / f"{i}.jpg").write_bytes(JPEG + bytes([i]))

    assert [(parts["jpg"], json.loads(parts["json"])["label_name"]) for parts in read_samples(path).values()] == [
        (JPEG + b"\0", "cat"),
        (JPEG + b"\1", "dog"),
    ]


def a_cache(folder: Path, *, splits: Mapping[str, int]) -> Path:
    """A folder of the cache that `load_dataset` fills, with one row per file. `splits`: split -> its files."""
    folder.mkdir(parents=True)
    for split, files in splits.items():
        for i in range(files):
            number = f"-{i:05d}-of-{files:05d}" if files > 1 else ""
            an_arrow_file(folder / f"my-set-{split}{number}.arrow", f"{split} {i}")
    info = {"features": FEATURES, "splits": {split: {"name": split} for split in splits}}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    return folder


def an_arrow_file(path: Path, text: str) -> None:
    table = pa.table({"text": [text]})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def test_huggingface_cache_has_its_splits_without_results_of_map(tmp_path: Path) -> None:
    path = a_cache(tmp_path / "c", splits={"train": 2, "test": 1})
    an_arrow_file(path / "cache-0123456789abcdef.arrow", "mapped")
    an_arrow_file(path / "cache-0123456789abcdef_00000_of_00002.arrow", "mapped")

    found = {key: json.loads(parts["json"])["text"] for key, parts in read_samples(path).items()}
    report = convert([str(path)], str(tmp_path / "made"))

    assert found == {"train/000000000": "train 0", "train/000000001": "train 1", "test/000000002": "test 0"}
    assert report.datasets[0].splits == {"train": 2, "test": 1}
    assert [(each.code, each.count) for each in report.findings] == [("WDS239", 2)]
    assert len(read_samples(path, {"split": "test"})) == 1
    assert "the splits are train, test" in open_error(path, {"split": "tests"}).hint


def test_huggingface_cache_of_one_split_has_plain_keys(tmp_path: Path) -> None:
    path = a_cache(tmp_path / "c", splits={"train": 1})
    an_arrow_file(path / "cache-0123456789abcdef.arrow", "mapped")

    assert list(read_samples(path)) == ["000000000"]


def test_huggingface_splits_may_have_different_columns_and_labels(tmp_path: Path) -> None:
    columns = {
        "test": ({"text": ["t"]}, {}),
        "train": ({"text": ["u"], "image": [{"bytes": JPEG, "path": None}], "label": [1]}, FEATURES),
    }
    for split, (table, features) in columns.items():
        folder = tmp_path / split
        folder.mkdir()
        with (
            pa.OSFile(str(folder / "data.arrow"), "wb") as sink,
            pa.ipc.new_stream(sink, pa.table(table).schema) as writer,
        ):
            writer.write_table(pa.table(table))
        (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
        (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": list(columns)}))

    found = read_samples(tmp_path)

    assert {key: set(parts) for key, parts in found.items()} == {
        "test/000000000": {"json"}, "train/000000001": {"jpg", "json"},
    }  # fmt: skip
    assert json.loads(found["train/000000001"]["json"]) == {"text": "u", "label": 1, "label_name": "dog"}
