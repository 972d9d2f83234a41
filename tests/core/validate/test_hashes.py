from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.build import a_folder, reading
from wdsctl.core.storage.storage import LocalStorage
from wdsctl.core.validate.hashes import (
    HASH_CHUNK_BYTES,
    ExpectedHash,
    check_hashes,
    file_hashes,
    find_unhashed,
    read_checksum_files,
)

GOOD = hashlib.sha256(b"good").hexdigest()


def sums(root: Path, files: dict[str, str], shards: tuple[str, ...] = ("a.tar", "b/c.tar")) -> tuple[object, list[str]]:
    a_folder(root, {name: text.encode() for name, text in files.items()})
    said, findings = read_checksum_files(LocalStorage("/"), str(root), shards)
    return said, [f"{each.code} {each.shard}: {each.message}" for each in findings]


def test_the_hash_is_that_of_sha256sum_whatever_the_size() -> None:
    data = bytes(range(256)) * (HASH_CHUNK_BYTES // 256) + b"more"
    assert file_hashes(reading(data), len(data))["sha256"] == hashlib.sha256(data).hexdigest()
    assert file_hashes(reading(b""), 0)["sha256"] == hashlib.sha256(b"").hexdigest()


def test_one_changed_bit_is_told_with_who_said_otherwise() -> None:
    expected = [ExpectedHash(GOOD, "the catalog"), ExpectedHash(GOOD, "SHA256SUMS")]
    assert check_hashes("a.tar", reading(b"good"), 4, expected) == ()
    found = check_hashes("a.tar", reading(b"gooe"), 4, expected)
    assert [each.finding.code for each in found] == ["WDS151", "WDS151"]
    assert all(each.covers_shard for each in found)
    assert "(the catalog)" in found[0].finding.message


@pytest.mark.parametrize("line", [f"{GOOD}  b/c.tar", f"{GOOD.upper()} *b/c.tar", f"\\{GOOD}  ./b/c.tar"])
def test_a_list_of_sums_is_read_as_coreutils_write_it(tmp_path: Path, line: str) -> None:
    said, odd = sums(tmp_path, {"SHA256SUMS": f"# sums\n{line}\n\n{GOOD}  gone.tar\n"})
    assert (said, odd) == ({"b/c.tar": [ExpectedHash(GOOD, "SHA256SUMS")]}, [])


def test_lists_in_subfolders_name_shards_from_there(tmp_path: Path) -> None:
    said, _ = sums(tmp_path, {"b/SHA256SUMS": f"{GOOD}  c.tar\n"})
    assert said == {"b/c.tar": [ExpectedHash(GOOD, "b/SHA256SUMS")]}


@pytest.mark.parametrize("text", [GOOD, f"{GOOD}  a.tar\r\n"])
def test_a_file_of_one_shard_may_be_the_sum_alone(tmp_path: Path, text: str) -> None:
    said, odd = sums(tmp_path, {"a.tar.sha256": text})
    assert (said, odd) == ({"a.tar": [ExpectedHash(GOOD, "a.tar.sha256")]}, [])


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"SHA256SUMS": "rubbish\n"}, "1 line is not a checksum"),
        ({"a.tar.sha256": f"{GOOD}  other.tar\n"}, "it names 'other.tar', but belongs to a.tar"),
    ],
)
def test_what_cannot_be_understood_is_told(tmp_path: Path, files: dict[str, str], words: str) -> None:
    said, (odd,) = sums(tmp_path, files)
    assert (said, odd.startswith("WDS153"), words in odd) == ({}, True, True)


def test_a_list_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "SHA256SUMS").write_bytes(b"\xff\xfe")
    _, (finding,) = read_checksum_files(LocalStorage("/"), str(tmp_path), ["a.tar"])
    assert (finding.code, finding.message) == ("WDS153", "it is not UTF-8")


def test_shards_without_any_sum_are_one_note() -> None:
    (note,) = find_unhashed({"a.tar": [], "b.tar": [ExpectedHash(GOOD, "x")], "c.tar": []})
    assert (note.code, note.severity, note.count) == ("WDS152", "note", 2)
