"""The tar header, field by field, for the members that the fast path of `members.py` leaves over.

Sources: POSIX.1-2017 "pax Interchange Format"; GNU tar manual, "Basic Tar Format" and "GNU Extensions".
"""

from __future__ import annotations

from typing import NamedTuple

BLOCK = 512

#: Offsets of the fields that are read: (first byte, one past the last).
NAME, SIZE, CHECKSUM, MAGIC, PREFIX = (0, 100), (124, 136), (148, 156), (257, 263), (345, 500)
TYPE = 156

#: The byte of an old GNU sparse header, and of each block that continues its map, that says another block follows.
SPARSE_GOES_ON, SPARSE_MAP_GOES_ON = 482, 504

#: Of a pax header: a name, a size, times, and some extended attributes; more than so many are damage.
MOST_RECORDS = 1_000

REGULAR = frozenset(b"0\x007")  # regular file, its name before POSIX, and contiguous file
DIRECTORY = ord("5")
PAX_NEXT, PAX_GLOBAL, GNU_LONG_NAME, GNU_LONG_LINK, GNU_SPARSE = b"xgLKS"


class Header(NamedTuple):
    name: bytes
    size: int  # bytes of data that follow the header, before padding
    type: int


class BadHeader(ValueError):  # noqa: N818 - caught within the scan only; users see a finding
    """The block is no tar header: its checksum or a number does not parse."""


def padded(size: int) -> int:
    """The bytes that `size` bytes of data take up in a tar."""
    return size + -size % BLOCK


def number(field: bytes) -> int:
    """A numeric field: octal text, or GNU's base-256 where the first bit is set. Raises BadHeader below zero, too."""
    if field[0] & 0x80:
        if field[0] & 0x40:
            raise BadHeader("a number below zero")
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    text = field.split(b"\0", 1)[0].strip()
    if not text.strip(b"01234567"):
        return int(text or b"0", 8)
    raise BadHeader(f"{text!r} is no octal number")


def parse_header(block: bytes) -> Header:
    """The header in 512 bytes. Raises BadHeader."""
    stored = number(block[slice(*CHECKSUM)])
    rest = block[: CHECKSUM[0]] + block[CHECKSUM[1] :]
    unsigned = 8 * ord(" ") + sum(rest)
    # Some old writers summed signed bytes; POSIX allows readers to accept both.
    if stored != unsigned and stored != unsigned - 256 * sum(byte > 127 for byte in rest):
        raise BadHeader(f"checksum is {stored}, the bytes sum to {unsigned}")
    name = block[slice(*NAME)].split(b"\0", 1)[0]
    if block[MAGIC[0] : MAGIC[1]] == b"ustar\0":
        prefix = block[slice(*PREFIX)].split(b"\0", 1)[0]
        name = prefix + b"/" + name if prefix else name
    return Header(name, number(block[slice(*SIZE)]), block[TYPE])


def pax_records(data: bytes) -> dict[bytes, bytes]:
    """The `length key=value` records of a pax header. Raises BadHeader."""
    records: dict[bytes, bytes] = {}
    at = count = 0
    while at < len(data) and data[at] != 0:
        space = data.find(b" ", at, at + 20)
        digits = data[at:space]
        if space < 0 or not digits.isdigit() or not space - at < int(digits) <= len(data) - at:
            raise BadHeader("a pax record has no length, or a wrong one")
        key, equals, value = data[space + 1 : at + int(digits) - 1].partition(b"=")
        if not equals:
            raise BadHeader("a pax record has no value")
        count += 1
        if count > MOST_RECORDS:
            raise BadHeader(f"a pax header of more than {MOST_RECORDS} records")
        records[key] = value
        at += int(digits)
    return records


PACKED_HEAD = 6  # bytes that tell a compression
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
}


def compression(head: bytes) -> str:
    """What a file that is no tar was compressed with; empty if it was not."""
    return next((name for magic, name in _PACKED.items() if head.startswith(magic)), "")
