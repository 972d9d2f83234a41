from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.tar_header import (
    END_OF_ARCHIVE,
    TAR_BLOCK_BYTES,
    build_tar_header,
    member_bytes,
    parse_header,
    pax_records,
)

NAMES = [
    b"a.jpg",
    b"a b/c.txt",
    b"x" * 100,
    b"x" * 101,
    "é".encode() * 50,
    "é".encode() * 60,
    b"folder/" * 40 + b"a.jpg",
]


def member_of(name: bytes, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    """What Python's tarfile reads back."""
    tar = build_tar_header(name, len(data)) + data + bytes(-len(data) % TAR_BLOCK_BYTES) + END_OF_ARCHIVE
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        (member,) = archive.getmembers()
        file = archive.extractfile(member)
        assert file is not None
        return member, file.read()


@pytest.mark.parametrize("name", NAMES)
def test_member_is_readable_under_its_name(name: bytes) -> None:
    member, data = member_of(name, b"hello")

    assert (member.name.encode(), data) == (name, b"hello")


@given(st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=300))
def test_any_member_name_round_trips(name: str) -> None:
    member, _ = member_of(name.encode(), b"")

    assert member.name == name


@pytest.mark.parametrize("name", NAMES)
def test_header_is_independent_of_user_and_time(name: bytes) -> None:
    member, _ = member_of(name, b"")

    assert (member.mode, member.uid, member.gid, member.mtime) == (0o644, 0, 0, 0)
    assert (member.uname, member.gname) == ("", "")
    assert member.isreg()


def test_header_bytes_never_change() -> None:
    expected = (
        b"a.jpg" + bytes(95) + b"0000644\0" + b"0000000\0" + b"0000000\0" + b"00000000005\0" + b"00000000000\0"
        b"006662\0 0" + bytes(100) + b"ustar\x0000" + bytes(247)
    )

    assert build_tar_header(b"a.jpg", 5) == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [0, 1, 511, 512, 513])
def test_member_bytes_equals_written_size(name: bytes, size: int) -> None:
    assert member_bytes(name, size) == len(build_tar_header(name, size)) + size + -size % TAR_BLOCK_BYTES


def test_size_from_8_gib_is_stored_in_pax_header() -> None:
    small, large = build_tar_header(b"a.mp4", 8**11 - 1), build_tar_header(b"a.mp4", 8**11)

    assert len(small) == TAR_BLOCK_BYTES
    assert parse_header(small).size == 8**11 - 1
    assert pax_records(large[TAR_BLOCK_BYTES : 2 * TAR_BLOCK_BYTES]) == {b"size": b"8589934592"}
    assert member_bytes(b"a.mp4", 8**11) == len(large) + 8**11


@pytest.mark.parametrize("length", [*range(84, 92), *range(983, 993)])
def test_pax_record_length_includes_its_own_digits(length: int) -> None:
    """Around the lengths at which the count itself grows by a digit."""
    name = b"n" * (length + 100)

    assert pax_records(build_tar_header(name, 0)[TAR_BLOCK_BYTES:-TAR_BLOCK_BYTES]) == {b"path": name}
