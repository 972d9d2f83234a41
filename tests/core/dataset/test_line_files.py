from __future__ import annotations

import pytest

from wdsctl.core.dataset.shard_names import is_jsonl_name, split_file_root, unpack_command


@pytest.mark.parametrize("name", ["a.jsonl", "a/B.JSONL", "x.ndjson"])
def test_lines_are_told_by_their_ending(name: str) -> None:
    assert is_jsonl_name(name)
    assert not is_jsonl_name(name + ".gz")
    assert unpack_command(name) == ""


def test_a_compressed_file_is_told_with_what_unpacks_it() -> None:
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
def test_a_file_is_a_folder_and_a_name(root: str, folder: str, name: str) -> None:
    assert split_file_root(root) == (folder, name)
