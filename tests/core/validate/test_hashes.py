from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.build import a_folder, memory_reader
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


def read_sums(
    root: Path, files: dict[str, str], shards: tuple[str, ...] = ("a.tar", "b/c.tar")
) -> tuple[object, list[str]]:
    a_folder(root, {name: text.encode() for name, text in files.items()})
    hashes, findings = read_checksum_files(LocalStorage("/"), str(root), shards)
    return hashes, [f"{each.code} {each.shard}: {each.message}" for each in findings]


def test_file_hashes_equals_sha256_for_any_size() -> None:
    data = bytes(range(256)) * (HASH_CHUNK_BYTES // 256) + b"more"
    assert file_hashes(memory_reader(data), len(data))["sha256"] == hashlib.sha256(data).hexdigest()
    assert file_hashes(memory_reader(b""), 0)["sha256"] == hashlib.sha256(b"").hexdigest()


def test_changed_bit_is_reported_with_sources_of_hash() -> None:
    expected = [ExpectedHash(GOOD, "the catalog"), ExpectedHash(GOOD, "SHA256SUMS")]
    assert check_hashes("a.tar", memory_reader(b"good"), 4, expected) == ()
    found = check_hashes("a.tar", memory_reader(b"gooe"), 4, expected)
    assert [each.finding.code for each in found] == ["WDS151", "WDS151"]
    assert all(each.covers_shard for each in found)
    assert "(the catalog)" in found[0].finding.message


@pytest.mark.parametrize("line", [f"{GOOD}  b/c.tar", f"{GOOD.upper()} *b/c.tar", f"\\{GOOD}  ./b/c.tar"])
def test_checksum_list_of_coreutils_is_read(tmp_path: Path, line: str) -> None:
    hashes, warnings = read_sums(tmp_path, {"SHA256SUMS": f"# sums\n{line}\n\n{GOOD}  gone.tar\n"})
    assert (hashes, warnings) == ({"b/c.tar": [ExpectedHash(GOOD, "SHA256SUMS")]}, [])


def test_checksum_list_in_subfolder_names_shards_relative_to_it(tmp_path: Path) -> None:
    hashes, _ = read_sums(tmp_path, {"b/SHA256SUMS": f"{GOOD}  c.tar\n"})
    assert hashes == {"b/c.tar": [ExpectedHash(GOOD, "b/SHA256SUMS")]}


@pytest.mark.parametrize("text", [GOOD, f"{GOOD}  a.tar\r\n"])
def test_checksum_file_of_one_shard_may_contain_only_hash(tmp_path: Path, text: str) -> None:
    hashes, warnings = read_sums(tmp_path, {"a.tar.sha256": text})
    assert (hashes, warnings) == ({"a.tar": [ExpectedHash(GOOD, "a.tar.sha256")]}, [])


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"SHA256SUMS": "rubbish\n"}, "1 line is not a checksum"),
        ({"a.tar.sha256": f"{GOOD}  other.tar\n"}, "it names 'other.tar', but belongs to a.tar"),
    ],
)
def test_invalid_checksum_file_is_reported(tmp_path: Path, files: dict[str, str], words: str) -> None:
    hashes, (warnings,) = read_sums(tmp_path, files)
    assert (hashes, warnings.startswith("WDS153"), words in warnings) == ({}, True, True)


def test_checksum_file_that_is_not_utf8_is_reported(tmp_path: Path) -> None:
    (tmp_path / "SHA256SUMS").write_bytes(b"\xff\xfe")
    _, (finding,) = read_checksum_files(LocalStorage("/"), str(tmp_path), ["a.tar"])
    assert (finding.code, finding.message) == ("WDS153", "it is not UTF-8")


def test_shards_without_checksum_are_reported_in_one_note() -> None:
    (note,) = find_unhashed({"a.tar": [], "b.tar": [ExpectedHash(GOOD, "x")], "c.tar": []})
    assert (note.code, note.severity, note.count) == ("WDS152", "note", 2)
