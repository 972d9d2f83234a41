"""MDS, against shards that Mosaic Streaming wrote (tests/golden/forms/origin.json says with what)."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.core.formats import faults, held, refused

FORMS = Path(__file__).parents[2] / "golden" / "forms"


def changed(tmp_path: Path, change: Any, name: str = "mds") -> Path:
    """A copy whose index was changed."""
    copy = tmp_path / name
    shutil.copytree(FORMS / name, copy)
    index = json.loads((copy / "index.json").read_bytes())
    change(index["shards"][0])
    (copy / "index.json").write_text(json.dumps(index))
    return copy


@pytest.mark.parametrize("name", ["mds", "mds-zstd"])
def test_every_encoding_gives_what_was_written(name: str) -> None:
    found = held(FORMS / name)

    assert list(found) == [f"{i:09d}" for i in range(5)]
    for i, parts in enumerate(found.values()):
        assert json.loads(parts["json"]) == {
            "caption": f"caption {i} é", "label": i, "meta": {"tags": [i, "x"]}, "score": i / 2,
        }  # fmt: skip
        assert parts["raw.bin"] == bytes([i, 0, 255])
        assert np.array_equal(np.load(io.BytesIO(parts["row.npy"])), np.arange(i + 1, dtype=np.int16))
        assert np.array_equal(np.load(io.BytesIO(parts["grid.npy"])), np.full((2, 3), i, np.uint8))
        assert Image.open(io.BytesIO(parts["pixels.png"])).getpixel((1, 1)) == (i, 2, 3)
        assert Image.open(io.BytesIO(parts["image.jpg"])).size == (8, 6)


def test_a_pickled_column_is_refused_and_can_be_left_out(tmp_path: Path) -> None:
    def pickled(shard: Any) -> None:
        shard["column_encodings"][shard["column_names"].index("meta")] = "pkl"

    path = changed(tmp_path, pickled)

    error = refused(path)

    assert error.code == "WDS234"
    assert error.hint == "`-O drop=meta` leaves it out"
    assert "meta" not in json.loads(held(path, {"drop": "meta"})["000000000"]["json"])


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
def test_an_index_that_does_not_fit_is_refused_with_a_code(tmp_path: Path, change: Any, code: str | None) -> None:
    path = changed(tmp_path, change)

    if code is None:
        assert {error.code for error in faults(path).values()} == {"WDS232"}
    else:
        assert refused(path).code == code


@pytest.mark.parametrize("name", ["mds/shard.00001.mds", "mds-zstd/shard.00001.mds.zstd"])
@pytest.mark.parametrize("fault", ["cut", "zeros", "empty", "gone", "longer"])
def test_a_damaged_shard_is_refused_and_named(tmp_path: Path, name: str, fault: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(FORMS / Path(name).parent, folder)
    shard = folder / Path(name).name
    data = shard.read_bytes()
    if fault == "gone":
        shard.unlink()
    else:
        shard.write_bytes({"cut": data[:-9], "zeros": bytes(len(data)), "empty": b"", "longer": data + data}[fault])

    error = refused(folder)

    assert error.code == ("WDS404" if fault == "gone" else "WDS233")
    assert shard.name in error.where


@pytest.mark.parametrize("samples", [0, -1])
def test_a_shard_that_is_to_have_no_samples_and_has_some_is_damaged(tmp_path: Path, samples: int) -> None:
    assert refused(changed(tmp_path, lambda shard: shard.update(samples=samples))).code == "WDS233"
