"""The importer mds, tested with shards that Mosaic Streaming wrote (tests/golden/forms/origin.json has its version)."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.core.formats import describe_source, description_findings, open_error, read_errors, read_samples
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert

FORMS = Path(__file__).parents[2] / "golden" / "forms"


def copy_with_changed_index(tmp_path: Path, change: Any, name: str = "mds") -> Path:
    """Copies the dataset and changes the first shard in the index of the copy."""
    copy = tmp_path / name
    shutil.copytree(FORMS / name, copy)
    index = json.loads((copy / "index.json").read_bytes())
    change(index["shards"][0])
    (copy / "index.json").write_text(json.dumps(index))
    return copy


@pytest.mark.parametrize("name", ["mds", "mds-zstd"])
def test_mds_decodes_every_column_encoding(name: str) -> None:
    found = read_samples(FORMS / name)

    assert list(found) == [*(f"shard.00000/{i}" for i in range(3)), "shard.00001/0", "shard.00001/1"]
    for i, parts in enumerate(found.values()):
        assert json.loads(parts["json"]) == {
            "caption": f"caption {i} é", "label": i, "meta": {"tags": [i, "x"]}, "score": i / 2,
        }  # fmt: skip
        assert parts["raw.bin"] == bytes([i, 0, 255])
        assert np.array_equal(np.load(io.BytesIO(parts["row.npy"])), np.arange(i + 1, dtype=np.int16))
        assert np.array_equal(np.load(io.BytesIO(parts["grid.npy"])), np.full((2, 3), i, np.uint8))
        assert Image.open(io.BytesIO(parts["pixels.png"])).getpixel((1, 1)) == (i, 2, 3)
        assert Image.open(io.BytesIO(parts["image.jpg"])).size == (8, 6)


def test_mds_refuses_pickled_column_unless_dropped(tmp_path: Path) -> None:
    def pickle_meta(shard: Any) -> None:
        shard["column_encodings"][shard["column_names"].index("meta")] = "pkl"

    path = copy_with_changed_index(tmp_path, pickle_meta)

    error = open_error(path)

    assert error.code == "WDS234"
    assert error.hint == "pass `-O drop=meta` to skip the column"
    assert "meta" not in json.loads(read_samples(path, {"drop": "meta"})["shard.00000/0"]["json"])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda shard: shard["raw_data"].update(basename="../x.mds"), "WDS230"),
        (lambda shard: shard["raw_data"].update(basename="/etc/passwd"), "WDS230"),
        (lambda shard: shard["raw_data"].update(bytes=7), "WDS233"),
        (lambda shard: shard.update(samples=2), "WDS233"),
        (lambda shard: shard.update(samples=10**9), "WDS233"),
        (lambda shard: shard.update(format="json"), "WDS233"),
        (lambda shard: shard.pop("column_sizes"), "WDS233"),
        (lambda shard: shard["column_encodings"].__setitem__(0, "jpegxl"), "WDS234"),
        (lambda shard: shard["column_sizes"].__setitem__(1, 7), None),
    ],
)
def test_mds_refuses_invalid_index(tmp_path: Path, change: Any, code: str | None) -> None:
    path = copy_with_changed_index(tmp_path, change)

    if code is None:
        assert {error.code for error in read_errors(path).values()} == {"WDS232"}
    else:
        assert open_error(path).code == code


@pytest.mark.parametrize("name", ["mds/shard.00001.mds", "mds-zstd/shard.00001.mds.zstd"])
@pytest.mark.parametrize("fault", ["cut", "zeros", "empty", "gone", "longer"])
def test_mds_refuses_and_names_damaged_shard(tmp_path: Path, name: str, fault: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(FORMS / Path(name).parent, folder)
    shard = folder / Path(name).name
    data = shard.read_bytes()
    if fault == "gone":
        shard.unlink()
    else:
        shard.write_bytes({"cut": data[:-9], "zeros": bytes(len(data)), "empty": b"", "longer": data + data}[fault])

    error = open_error(folder)

    assert error.code == ("WDS404" if fault == "gone" else "WDS233")
    assert shard.name in error.where


@pytest.mark.parametrize("samples", [0, -1])
def test_mds_refuses_shard_with_wrong_sample_count(tmp_path: Path, samples: int) -> None:
    assert open_error(copy_with_changed_index(tmp_path, lambda shard: shard.update(samples=samples))).code == "WDS233"


def test_mds_split_folders_are_one_source(tmp_path: Path) -> None:
    root = tmp_path / "raw"
    for split in ("train", "val_small"):
        shutil.copytree(FORMS / "mds", root / split)

    importer, match = importers.best_importer(str(root))
    found = read_samples(root)
    assert (importer.name, match.reason) == ("mds", "train/index.json and val_small/index.json list MDS shards")
    assert list(found)[4:6] == ["train/shard.00001/1", "val_small/shard.00000/0"]
    first = read_samples(FORMS / "mds")["shard.00000/0"]
    assert found["val_small/shard.00000/0"] == found["train/shard.00000/0"] == first
    assert convert([str(root)], str(tmp_path / "made")).datasets[0].splits == {"train": 5, "val_small": 5}
    assert description_findings(root) == []


def test_mds_refuses_folder_that_is_no_split(tmp_path: Path) -> None:
    for name in ("train", "group_2"):
        shutil.copytree(FORMS / "mds", tmp_path / name)

    error = open_error(tmp_path)
    assert (error.code, "group_2" in error.message, f"{tmp_path}/group_2 DEST" in error.hint) == ("WDS235", True, True)


def test_mds_describes_every_column() -> None:
    uses = {use.name: use.becomes for use in describe_source(FORMS / "mds", {"drop": "grid"}).field_uses}

    assert (uses["image"], uses["caption"], uses["grid"]) == ("image.jpg", "json[caption]", "")
