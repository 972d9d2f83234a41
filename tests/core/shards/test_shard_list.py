from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset
from wdsctl.core.errors import StorageError
from wdsctl.core.shards.list import ShardListing, list_shards
from wdsctl.core.shards.survey import has_shards


def paths(listing: ShardListing) -> list[str]:
    return [shard.path for shard in listing.shards]


def finding_codes(listing: ShardListing) -> list[tuple[str, str]]:
    return [(finding.code, finding.shard) for finding in listing.findings]


def test_list_shards_sorts_by_path_and_skips_hidden_files(tmp_path: Path) -> None:
    files = ["b.tar", "a/b/c.tar", "A.TAR", "a.txt", ".hidden.tar", ".wdsctl/x.tar", "a/.x/y.tar"]
    root = a_dataset(tmp_path, dict.fromkeys(files, b"x"))
    listing = list_shards(root)

    assert paths(listing) == ["A.TAR", "a/b/c.tar", "b.tar"]
    assert [(shard.size, shard.readable) for shard in listing.shards] == [(1, True)] * 3
    assert listing.shards[0].mtime_ns == (tmp_path / "A.TAR").stat().st_mtime_ns


def test_compressed_shards_are_reported(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, dict.fromkeys(["a.tar.gz", "b.tgz", "c.tar.zst", "d.tar"], b"x"))

    assert paths(list_shards(root)) == ["d.tar"]
    assert finding_codes(list_shards(root)) == [("WDS113", "a.tar.gz"), ("WDS113", "b.tgz"), ("WDS113", "c.tar.zst")]
    assert {each.severity for each in list_shards(root).findings} == {"error"}


def test_exclude_patterns_match_anywhere_in_path(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, dict.fromkeys(["a/1.tar", "a/2.tar", "b/1.tar"], b"x"))

    assert paths(list_shards(root, ["a/*"])) == ["b/1.tar"]
    assert paths(list_shards(root, ["*/1.tar"])) == ["a/2.tar"]
    assert paths(list_shards(root, ["1.tar", "a"])) == ["a/1.tar", "a/2.tar", "b/1.tar"]
    assert list_shards(root, ["a/*", "*/1.tar", "1.tar"]).unused_excludes == ("1.tar",)


def test_links_are_followed_without_loops(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a/1.tar": b"x", "b/2.tar": b"yy"})
    os.symlink("b", tmp_path / "data" / "linked")
    os.symlink(tmp_path / "data" / "b" / "2.tar", tmp_path / "data" / "3.tar")
    os.symlink(tmp_path / "data", tmp_path / "data" / "a" / "loop")

    assert paths(list_shards(root)) == ["3.tar", "a/1.tar", "b/2.tar", "linked/2.tar"]
    assert list_shards(root).shards[0].size == 2


def test_links_out_of_dataset_are_findings_unless_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_dataset(tmp_path / "data", {"a/1.tar": b"x"})
    a_dataset(tmp_path / "other", {"2.tar": b"yy"})
    os.symlink(tmp_path / "other", tmp_path / "data" / "linked")
    os.symlink(tmp_path / "other" / "2.tar", tmp_path / "data" / "3.tar")
    os.symlink("/", tmp_path / "data" / "slash")

    assert paths(list_shards(root)) == ["a/1.tar"]
    assert finding_codes(list_shards(root)) == [("WDS409", "3.tar"), ("WDS409", "linked"), ("WDS409", "slash")]

    monkeypatch.setenv("WDSCTL_ALLOW_PATH", str(tmp_path / "other"))
    (tmp_path / "data" / "slash").unlink()
    assert paths(list_shards(root)) == ["3.tar", "a/1.tar", "linked/2.tar"]


def test_broken_links_are_findings(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": b"x"})
    os.symlink("none", tmp_path / "b.tar")
    os.symlink("c.tar", tmp_path / "c.tar")

    assert paths(list_shards(root)) == ["a.tar"]
    assert finding_codes(list_shards(root)) == [("WDS002", "b.tar"), ("WDS002", "c.tar")]


def test_broken_links_to_shards_in_place_are_findings(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "zips", {"a.zip": b"x"})
    os.symlink("none", tmp_path / "zips" / "b.zip")
    listing = list_shards(root)
    assert (paths(listing), finding_codes(listing)) == (["a.zip"], [("WDS002", "b.zip")])

    mixed = a_dataset(tmp_path / "mixed", {"a.tar": b"x"})
    os.symlink("none", tmp_path / "mixed" / "raw.zip")
    assert finding_codes(list_shards(mixed)) == []  # raw data beside shards


def test_special_files_are_findings_and_never_opened(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar/1.tar": b"x"})
    os.mkfifo(tmp_path / "b.tar")

    assert paths(list_shards(root)) == ["a.tar/1.tar"]
    assert finding_codes(list_shards(root)) == [("WDS002", "b.tar")]


def test_names_that_are_not_utf_8_are_findings(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": b"x"})
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.tar")).write_bytes(b"x")

    assert paths(list_shards(root)) == ["a.tar"]
    assert finding_codes(list_shards(root)) == [("WDS116", "\\xff.tar")]


def test_unreadable_folder_is_finding_and_the_rest_is_listed(
    public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]
) -> None:
    root = a_dataset(public_path, {"a/1.tar": b"x", "b/2.tar": b"x"})
    (public_path / "a").chmod(0o700)
    (public_path / "b" / "2.tar").chmod(0o600)
    listing = as_nobody(lambda: list_shards(root))

    assert (paths(listing), finding_codes(listing)) == (["b/2.tar"], [("WDS402", "a")])
    assert not listing.shards[0].readable


def test_missing_folder_raises_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot list"):
        list_shards(str(tmp_path / "none"))


@pytest.mark.parametrize(("name", "expected"), [("a.tar", True), ("x/a.tgz", True), ("a.txt", False)])
def test_has_shards_needs_one_shard(tmp_path: Path, name: str, expected: bool) -> None:
    assert has_shards(a_dataset(tmp_path, {name: b"x"})) is expected
