from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset, a_folder
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.shard_names import is_jsonl_folder
from wdsctl.core.errors import InputError
from wdsctl.core.shards.list import list_shards
from wdsctl.core.shards.survey import find_jsonl_file, has_shards, has_tars


def test_jsonl_files_are_shards_at_any_depth(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"b.jsonl": b"{}", "a/c.ndjson": b"{}", "README.md": b"x", ".hidden.jsonl": b"{}"})
    assert [shard.path for shard in list_shards(root).shards] == ["a/c.ndjson", "b.jsonl"]


def test_compressed_jsonl_is_skipped_with_unpack_command(tmp_path: Path) -> None:
    listing = list_shards(a_folder(tmp_path, {"a.jsonl": b"{}", "b.jsonl.gz": b"x", "c.jsonl.zst": b"x"}))
    assert [shard.path for shard in listing.shards] == ["a.jsonl"]
    assert [(each.code, each.shard) for each in listing.findings] == [
        ("WDS113", "b.jsonl.gz"),
        ("WDS113", "c.jsonl.zst"),
    ]
    assert "`gunzip`" in listing.findings[0].message
    assert "`unzstd`" in listing.findings[1].message


def test_mixed_tars_and_jsonl_are_refused_unless_one_is_excluded(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": b"x", "b.jsonl": b"{}"})
    with pytest.raises(InputError, match="a dataset has one format") as caught:
        list_shards(root)
    assert caught.value.code == "WDS127"
    assert [shard.path for shard in list_shards(root, ["*.jsonl"]).shards] == ["a.tar"]
    assert [shard.path for shard in list_shards(root, ["*.tar"]).shards] == ["b.jsonl"]


@pytest.mark.parametrize(("known", "other"), [("a.tar", "b.jsonl"), ("b.jsonl", "a.tar")])
def test_indexed_dataset_keeps_its_format(tmp_path: Path, known: str, other: str) -> None:
    listing = list_shards(a_dataset(tmp_path, {"a.tar": b"x", "b.jsonl": b"{}"}), catalog_paths=[known])
    assert [shard.path for shard in listing.shards] == [known]
    assert [(each.code, each.severity, each.shard) for each in listing.findings] == [("WDS127", "note", other)]


def test_single_file_dataset_has_one_shard(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": b"x", "b.jsonl": b"{}", "c.jsonl": b"{}"})
    location = locate(f"{root}/b.jsonl")
    assert [shard.path for shard in list_shards(location.root, only=location.single_file).shards] == ["b.jsonl"]
    assert has_shards(location.root, location.single_file)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.jsonl", "README.md", "LICENSE"], True),
        (["a.jsonl.gz"], True),
        (["a.jsonl", "0001.jpg"], False),
        (["0001.txt"], False),
        ([], False),
    ],
)
def test_is_jsonl_folder_rejects_folders_with_media(names: list[str], expected: bool) -> None:
    assert is_jsonl_folder(names) is expected


def test_survey_functions_find_jsonl_among_raw_files(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"x/b.jsonl": b"{}", "x/a.jpg": b"x"})
    assert (has_tars(root), has_shards(root), find_jsonl_file(root)) == (False, False, "x/b.jsonl")
