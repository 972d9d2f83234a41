"""To MDS. That Mosaic Streaming reads it, benchmarks/check_forms.py shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.core.formats import written
from wdsctl.core.errors import DatasetError


def test_columns_have_the_encodings_that_streaming_decodes(tmp_path: Path) -> None:
    samples = {"a": {"jpg": b"1", "txt": b"x", "json": b"{}", "cls": b"3", "npy": b"?"}}
    folder = Path(written(tmp_path, "mds", samples))

    index = json.loads((folder / "index.json").read_bytes())

    (shard,) = index["shards"]
    assert index["version"] == 2
    assert dict(zip(shard["column_names"], shard["column_encodings"], strict=True)) == {
        "__key__": "str", "cls": "str", "jpg": "jpeg", "json": "json", "npy": "bytes", "txt": "str",
    }  # fmt: skip
    assert shard["raw_data"] == {
        "basename": "part-0.mds", "bytes": (folder / "part-0.mds").stat().st_size, "hashes": {},
    }  # fmt: skip


def test_a_part_that_some_samples_lack_is_bytes_and_the_others_are_listed(tmp_path: Path) -> None:
    folder = Path(written(tmp_path, "mds", {"a": {"jpg": b"1", "txt": b"x"}, "b": {"txt": b""}}))

    (shard,) = json.loads((folder / "index.json").read_bytes())["shards"]

    assert dict(zip(shard["column_names"], shard["column_encodings"], strict=True)) == {
        "__key__": "str", "__parts__": "json", "jpg": "bytes", "txt": "str",
    }  # fmt: skip


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="not UTF-8") as error:
        written(tmp_path, "mds", {"a": {"json": b"\xff"}})
    assert error.value.code == "WDS237"
