"""The tar header, field by field, for the members that the fast path of `members.py` leaves over.

Sources: POSIX.1-2017 "pax Interchange Format"; GNU tar manual, "Basic Tar Format" and "GNU Extensions".
"""

from __future__ import annotations

from typing import NamedTuple

BLOCK = 512

#: Offsets of the fields that are read: (first byte, one past the last).
NAME, SIZE, CHECKSUM, MAGIC, PREFIX = (0, 100), (124, 136), (148, 156), (257, 263), (345, 500)
TYPE = 156

REGULAR = frozenset(b"0\x007")  # regular file, its name before POSIX, and contiguous file
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
    """A numeric field: octal text, or GNU's base-256 where the first bit is set."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    text = field.split(b"\0", 1)[0].strip()
    try:
        return int(text or b"0", 8)
    except ValueError as error:
        raise BadHeader(f"{text!r} is no octal number") from error


def parse_header(block: bytes) -> Header:
    """The header in 512 bytes. Raises BadHeader."""
    stored = number(block[slice(*CHECKSUM)])
    rest = block[: CHECKSUM[0]], block[CHECKSUM[1] :]
    unsigned = 256 + sum(map(sum, rest))
    # Some old writers summed signed bytes; POSIX allows readers to accept both.
    signed = unsigned - 256 * sum(byte > 127 for half in rest for byte in half)
    if stored not in (unsigned, signed):
        raise BadHeader(f"checksum is {stored}, the bytes sum to {unsigned}")
    name = block[slice(*NAME)].split(b"\0", 1)[0]
    if block[MAGIC[0] : MAGIC[1]] == b"ustar\0":
        prefix = block[slice(*PREFIX)].split(b"\0", 1)[0]
        name = prefix + b"/" + name if prefix else name
    return Header(name, number(block[slice(*SIZE)]), block[TYPE])


def pax_records(data: bytes) -> dict[bytes, bytes]:
    """The `length key=value` records of a pax header. Raises BadHeader."""
    records: dict[bytes, bytes] = {}
    at = 0
    while at < len(data) and data[at] != 0:
        space = data.find(b" ", at, at + 20)
        digits = data[at:space]
        if space < 0 or not digits.isdigit() or int(digits) <= space - at:
            raise BadHeader("a pax record has no length")
        key, equals, value = data[space + 1 : at + int(digits) - 1].partition(b"=")
        if not equals:
            raise BadHeader("a pax record has no value")
        records[key] = value
        at += int(digits)
    return records
