from __future__ import annotations

import pytest

from wdsctl.core.dataset.shard_names import is_jsonl_name, split_file_root, unpack_command


@pytest.mark.parametrize("name", ["a.jsonl", "a/B.JSONL", "x.ndjson"])
def test_is_jsonl_name_checks_extension(name: str) -> None:
    assert is_jsonl_name(name)
    assert not is_jsonl_name(name + ".gz")
    assert unpack_command(name) == ""


def test_unpack_command_depends_on_compression() -> None:
    assert unpack_command("a.jsonl.gz") == "gunzip"
    assert unpack_command("a.ndjson.ZST") == "unzstd"
    assert unpack_command("a.tar.gz") == ""


@pytest.mark.parametrize(
    ("root", "folder", "name"),
    [
        ("/data/qa.jsonl", "/data", "qa.jsonl"),
        ("qa.jsonl", ".", "qa.jsonl"),
        ("/qa.jsonl", "/", "qa.jsonl"),
        ("s3://bucket/a/qa.ndjson", "s3://bucket/a", "qa.ndjson"),
        ("s3://bucket/qa.jsonl", "s3://bucket", "qa.jsonl"),
        ("memory://qa.jsonl", "memory://qa.jsonl", ""),
        ("/data/shards", "/data/shards", ""),
    ],
)
def test_split_file_root_returns_folder_and_name(root: str, folder: str, name: str) -> None:
    assert split_file_root(root) == (folder, name)
