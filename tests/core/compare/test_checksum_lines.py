from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.compare.checksum import (
    ChecksumLine,
    HashAlgorithm,
    choose_algorithm,
    format_checksum_line,
    format_verdict_line,
    hash_bytes,
    parse_checksum_lines,
)

HASH = "a" * 64
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(NAMES)
def test_checksum_lines_round_trip(name: str) -> None:
    assert list(parse_checksum_lines([format_checksum_line(HASH, name)])) == [ChecksumLine(HASH, name, None)]


@pytest.mark.parametrize(
    "name", ["plain.tar", "a b.tar", "back\\slash.tar", "new\nline.tar", "return\r.tar", "ünï.tar", " *x", "*star"]
)
def test_names_are_written_like_sha256sum(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"content")
    expected = subprocess.run(["sha256sum", "--", name], cwd=tmp_path, capture_output=True, check=True).stdout
    assert format_checksum_line(hashlib.sha256(b"content").hexdigest(), name) == expected
    checked = subprocess.run(["sha256sum", "-c"], cwd=tmp_path, input=expected, capture_output=True, check=True).stdout
    assert format_verdict_line(name, "OK") == checked


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_parser_accepts_any_bytes(text: bytes) -> None:
    for line in parse_checksum_lines([text]):
        assert line is None or line.digest.isalnum()


def test_line_formats_of_other_tools_are_read() -> None:
    lines = [
        b"\xef\xbb\xbf# a comment\n",
        b"\n",
        f"{HASH.upper()} *binary.tar\r\n".encode(),
        f"SHA256 (tagged (1).tar) = {HASH}\n".encode(),
        f"\\SHA256 (a\\nb) = {HASH}\n".encode(),
        b"nonsense\n",
        f"\\{HASH}  odd\\escape\n".encode(),
    ]
    assert list(parse_checksum_lines(lines)) == [
        ChecksumLine(HASH, "binary.tar", None),
        ChecksumLine(HASH, "tagged (1).tar", "sha256"),
        ChecksumLine(HASH, "a\nb", "sha256"),
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("digits", "requested", "algorithm"),
    [
        (32, None, "md5"),
        (40, None, "sha1"),
        (64, None, "sha256"),
        (128, None, "sha512"),
        (128, "blake2b", "blake2b"),
        (64, "sha512", None),
        (50, None, None),
    ],
)
def test_algorithm_follows_from_hash_length_or_request(
    digits: int, requested: HashAlgorithm | None, algorithm: HashAlgorithm | None
) -> None:
    assert choose_algorithm(ChecksumLine("0" * digits, "x", None), requested) == algorithm


@pytest.mark.parametrize(
    ("algorithm", "tool"), [("sha256", "sha256sum"), ("sha512", "sha512sum"), ("blake2b", "b2sum"), ("md5", "md5sum")]
)
def test_hashes_equal_those_of_coreutils(algorithm: HashAlgorithm, tool: str) -> None:
    data = bytes(range(256)) * 40_000
    expected = subprocess.run([tool], input=data, capture_output=True, check=True).stdout.split()[0].decode()
    assert hash_bytes(lambda start, size: data[start : start + size], len(data), algorithm) == expected
