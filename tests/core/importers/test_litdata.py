"""The importer litdata, tested with chunks that LitData wrote (tests/golden/forms/origin.json has its version)."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.core.formats import open_error, read_errors, read_samples

FORMS = Path(__file__).parents[2] / "golden" / "forms"


def copy_with_changed_index(tmp_path: Path, change: Any, name: str = "litdata") -> Path:
    """Copies the dataset and changes the index of the copy."""
    copy = tmp_path / name
    shutil.copytree(FORMS / name, copy)
    index = json.loads((copy / "index.json").read_bytes())
    change(index)
    (copy / "index.json").write_text(json.dumps(index))
    return copy


@pytest.mark.parametrize("name", ["litdata", "litdata-zstd"])
def test_litdata_decodes_every_field_format(name: str) -> None:
    found = read_samples(FORMS / name)

    assert len(found) == 5
    for i, parts in enumerate(found.values()):
        assert json.loads(parts["json"]) == {
            "caption": f"caption {i} é", "label": i, "score": i / 2, "is_good": i % 2 == 0, "box": [i, i + 1],
        }  # fmt: skip
        assert parts["raw.bin"] == bytes([i, 0, 255])
        assert np.array_equal(np.load(io.BytesIO(parts["row.npy"])), np.arange(3, dtype=np.int16))
        assert np.array_equal(np.load(io.BytesIO(parts["grid.npy"])), np.full((2, 3), i, np.float32))
        assert Image.open(io.BytesIO(parts["image.jpg"])).size == (8, 6)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda index: index["config"]["data_format"].__setitem__(8, "pickle"), "WDS234"),
        (lambda index: index["config"]["data_format"].__setitem__(8, "graph:pickle"), "WDS234"),
        (lambda index: index["config"]["data_format"].__setitem__(8, "mystery"), "WDS234"),
        (lambda index: index["config"].update(item_loader="TokensLoader"), "WDS234"),
        (lambda index: index["config"].update(encryption={"algorithm": "fernet"}), "WDS234"),
        (lambda index: index["config"].update(compression="lz4"), "WDS234"),
        (lambda index: index["config"].update(data_spec="[1, {}]"), "WDS233"),
        (lambda index: index["config"].update(data_spec=None), "WDS233"),
        (lambda index: index["config"]["data_format"].pop(), "WDS233"),
        (lambda index: index["chunks"][0].update(filename="../x.bin"), "WDS230"),
        (lambda index: index["chunks"][0].update(chunk_size=3), "WDS233"),
        (lambda index: index["chunks"][0].pop("chunk_size"), "WDS233"),
        (lambda index: index.update(chunks=[]), "WDS233"),
    ],
)
def test_litdata_refuses_pickled_fields_and_invalid_index(tmp_path: Path, change: Any, code: str) -> None:
    assert open_error(copy_with_changed_index(tmp_path, change), form="litdata").code == code


def test_litdata_number_of_wrong_size_is_fault_of_row(tmp_path: Path) -> None:
    path = copy_with_changed_index(
        tmp_path, lambda index: index["config"]["data_format"].__setitem__(1, "int")
    )  # a caption

    assert {error.code for error in read_errors(path).values()} == {"WDS232"}


def test_litdata_option_drop_skips_pickled_field(tmp_path: Path) -> None:
    path = copy_with_changed_index(tmp_path, lambda index: index["config"]["data_format"].__setitem__(8, "pickle"))

    assert "box" not in json.loads(read_samples(path, {"drop": "box"})["chunk-0-0/0"]["json"])


@pytest.mark.parametrize("name", ["litdata", "litdata-zstd"])
@pytest.mark.parametrize("fault", ["cut", "zeros", "empty"])
def test_litdata_refuses_and_names_damaged_chunk(tmp_path: Path, name: str, fault: str) -> None:
    path = copy_with_changed_index(tmp_path, lambda _: None, name)
    chunk = path / "chunk-0-1.bin"
    data = chunk.read_bytes()
    chunk.write_bytes({"cut": data[:-9], "zeros": bytes(len(data)), "empty": b""}[fault])

    error = open_error(path)

    assert error.code == "WDS233"
    assert chunk.name in error.where


def test_litdata_split_folders_are_one_source(tmp_path: Path) -> None:
    for split in ("train", "val"):
        shutil.copytree(FORMS / "litdata", tmp_path / split)
    samples_of_one = read_samples(FORMS / "litdata")

    found = read_samples(tmp_path)
    assert {key.split("/")[0] for key in found} == {"train", "val"}
    assert [*found.values()] == [*samples_of_one.values(), *samples_of_one.values()]
