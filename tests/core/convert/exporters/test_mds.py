"""The exporter to MDS. benchmarks/check_forms.py reads its output with Mosaic Streaming."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.core.formats import write_unit
from wdsctl.core.errors import DatasetError


def test_columns_have_encodings_that_streaming_decodes(tmp_path: Path) -> None:
    samples = {"a": {"jpg": b"1", "txt": b"x", "json": b"{}", "cls": b"3", "npy": b"?"}}
    folder = Path(write_unit(tmp_path, "mds", samples))

    index = json.loads((folder / "index.json").read_bytes())

    (shard,) = index["shards"]
    assert index["version"] == 2
    assert dict(zip(shard["column_names"], shard["column_encodings"], strict=True)) == {
        "__key__": "str", "cls": "str", "jpg": "jpeg", "json": "json", "npy": "bytes", "txt": "str",
    }  # fmt: skip
    assert shard["raw_data"] == {
        "basename": "part-0.mds", "bytes": (folder / "part-0.mds").stat().st_size, "hashes": {},
    }  # fmt: skip


def test_column_with_missing_parts_is_bytes_and_parts_are_listed(tmp_path: Path) -> None:
    folder = Path(write_unit(tmp_path, "mds", {"a": {"jpg": b"1", "txt": b"x"}, "b": {"txt": b""}}))

    (shard,) = json.loads((folder / "index.json").read_bytes())["shards"]

    assert dict(zip(shard["column_names"], shard["column_encodings"], strict=True)) == {
        "__key__": "str", "__parts__": "json", "jpg": "bytes", "txt": "str",
    }  # fmt: skip


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="not UTF-8") as error:
        write_unit(tmp_path, "mds", {"a": {"json": b"\xff"}})
    assert error.value.code == "WDS237"
