from __future__ import annotations

import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import a_shard
from wdsctl.core.tar_header import (
    TAR_BLOCK_BYTES,
    BadTarHeader,
    padded_size,
    parse_header,
    parse_tar_number,
    pax_records,
)


def with_checksum(block: bytes) -> bytes:
    total = sum(block[:148]) + 8 * ord(" ") + sum(block[156:])
    return block[:148] + b"%06o\0 " % total + block[156:]


@given(st.integers(0, 8**11 - 1))
def test_parse_tar_number_reads_octal(value: int) -> None:
    assert parse_tar_number(b"%011o\0" % value) == value
    assert parse_tar_number(b"%11o " % value) == value


@given(st.integers(0, 2**62))
def test_parse_tar_number_reads_base_256(value: int) -> None:
    assert parse_tar_number(b"\x80" + value.to_bytes(11, "big")) == value


def test_parse_tar_number_reads_twelve_octal_digits_without_terminator() -> None:
    assert parse_tar_number(b"7" * 12) == 8**12 - 1


@pytest.mark.parametrize("field", [b"12x45\0", b"-0000001", b"0o17\0", b"1_0\0", b"99999\0", b"1 2\0", b"\xff" * 12])
def test_parse_tar_number_refuses_non_numbers(field: bytes) -> None:
    with pytest.raises(BadTarHeader):
        parse_tar_number(field)


def test_parse_tar_number_reads_empty_field_as_zero() -> None:
    assert parse_tar_number(bytes(12)) == 0
    assert parse_tar_number(b" " * 12) == 0


@pytest.mark.parametrize(("size", "blocks"), [(0, 0), (1, 1), (511, 1), (512, 1), (513, 2)])
def test_data_is_padded_to_whole_blocks(size: int, blocks: int) -> None:
    assert padded_size(size) == blocks * TAR_BLOCK_BYTES


@given(st.text("abcé/.", min_size=1, max_size=60).filter(lambda name: not name.endswith("/")), st.integers(0, 2000))
def test_parse_header_reads_header_of_tarfile(name: str, size: int) -> None:
    header = parse_header(a_shard({name: bytes(size)}, format=tarfile.GNU_FORMAT)[:TAR_BLOCK_BYTES])

    assert header == (name.encode(), size, ord("0"))


def test_ustar_prefix_precedes_name() -> None:
    name = "folder/" * 20 + "a.jpg"

    assert parse_header(a_shard({name: b""})[:TAR_BLOCK_BYTES]).name == name.encode()


def test_gnu_headers_have_no_prefix() -> None:
    block = bytearray(a_shard({"a.jpg": b""}, format=tarfile.GNU_FORMAT)[:TAR_BLOCK_BYTES])
    block[345:357] = b"00000000000\0"  # the time of last access

    assert parse_header(with_checksum(bytes(block))).name == b"a.jpg"


def test_checksums_of_signed_bytes_are_accepted() -> None:
    block = a_shard({"é.jpg": b""}, format=tarfile.GNU_FORMAT)[:TAR_BLOCK_BYTES]
    odd = sum(byte > 127 for byte in block)
    stored = parse_tar_number(block[148:156]) - 256 * odd

    assert odd == 2
    assert parse_header(block[:148] + b"%06o\0 " % stored + block[156:]).name == "é.jpg".encode()


@given(st.integers(0, TAR_BLOCK_BYTES * 8 - 1))
def test_flipped_bit_never_gives_another_header(bit: int) -> None:
    good = a_shard({"some/name.jpg": b"1234"})[:TAR_BLOCK_BYTES]
    flipped = bytearray(good)
    flipped[bit // 8] ^= 1 << bit % 8

    try:
        header = parse_header(bytes(flipped))
    except BadTarHeader:
        return
    assert header == parse_header(good)


def test_pax_records_are_parsed_completely() -> None:
    assert pax_records(b"16 path=a/b.jpg\n12 mtime=12\n\0\0") == {b"path": b"a/b.jpg", b"mtime": b"12"}


def test_pax_value_may_contain_newlines_and_equals_signs() -> None:
    assert pax_records(b"14 path=a\n=b\n\n") == {b"path": b"a\n=b\n"}


@pytest.mark.parametrize("data", [b"path=a\n", b"xx path=a\n", b"2 path=a\n", b"99 path=a\n", b"7 path\n", b" 8 p=a\n"])
def test_invalid_pax_records_are_refused(data: bytes) -> None:
    with pytest.raises(BadTarHeader):
        pax_records(data)
