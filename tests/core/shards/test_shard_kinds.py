from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset, a_folder
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.shard_names import is_jsonl_folder
from wdsctl.core.errors import InputError
from wdsctl.core.shards.list import list_shards
from wdsctl.core.shards.survey import find_jsonl_file, has_shards, has_tars


def test_files_of_lines_are_shards_at_any_depth(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"b.jsonl": b"{}", "a/c.ndjson": b"{}", "README.md": b"x", ".hidden.jsonl": b"{}"})
    assert [shard.path for shard in list_shards(root).shards] == ["a/c.ndjson", "b.jsonl"]


def test_compressed_lines_are_left_out_with_the_command_that_unpacks_them(tmp_path: Path) -> None:
    listing = list_shards(a_folder(tmp_path, {"a.jsonl": b"{}", "b.jsonl.gz": b"x", "c.jsonl.zst": b"x"}))
    assert [shard.path for shard in listing.shards] == ["a.jsonl"]
    assert [(each.code, each.shard) for each in listing.findings] == [
        ("WDS113", "b.jsonl.gz"),
        ("WDS113", "c.jsonl.zst"),
    ]
    assert "`gunzip`" in listing.findings[0].message
    assert "`unzstd`" in listing.findings[1].message


def test_tars_and_lines_in_one_folder_are_refused_and_either_may_be_left_out(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": b"x", "b.jsonl": b"{}"})
    with pytest.raises(InputError, match="a dataset has one format") as caught:
        list_shards(root)
    assert caught.value.code == "WDS127"
    assert [shard.path for shard in list_shards(root, ["*.jsonl"]).shards] == ["a.tar"]
    assert [shard.path for shard in list_shards(root, ["*.tar"]).shards] == ["b.jsonl"]


@pytest.mark.parametrize(("known", "other"), [("a.tar", "b.jsonl"), ("b.jsonl", "a.tar")])
def test_a_dataset_stays_of_its_kind(tmp_path: Path, known: str, other: str) -> None:
    listing = list_shards(a_dataset(tmp_path, {"a.tar": b"x", "b.jsonl": b"{}"}), catalog_paths=[known])
    assert [shard.path for shard in listing.shards] == [known]
    assert [(each.code, each.severity, each.shard) for each in listing.findings] == [("WDS127", "note", other)]


def test_a_file_alone_is_the_only_shard(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": b"x", "b.jsonl": b"{}", "c.jsonl": b"{}"})
    place = locate(f"{root}/b.jsonl")
    assert [shard.path for shard in list_shards(place.root, only=place.single_file).shards] == ["b.jsonl"]
    assert has_shards(place.root, place.single_file)


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
def test_labels_among_media_do_not_make_a_folder_one_of_lines(names: list[str], expected: bool) -> None:
    assert is_jsonl_folder(names) is expected


def test_a_folder_tells_what_it_holds(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"x/b.jsonl": b"{}", "x/a.jpg": b"x"})
    assert (has_tars(root), has_shards(root), find_jsonl_file(root)) == (False, False, "x/b.jsonl")
