"""Parse tar headers field by field, and write reproducible ones.

The fast path of `shards/tar_members.py` leaves unusual headers to this module. Written headers are ustar with mode
0644, owner 0, no owner names and mtime 0, so that the same files give the same bytes. A name of more than 100 bytes
or a size of 8 GiB or more needs a pax header before it; any other header is one block. This module does not use
`tarfile`, which takes 20 µs per member, and whose bytes differ between versions of Python.

Sources: POSIX.1-2017 "pax Interchange Format"; GNU tar manual, "Basic Tar Format" and "GNU Extensions".
"""

from __future__ import annotations

from typing import NamedTuple

TAR_BLOCK_BYTES = 512

#: Offsets of the fields that the parser reads: (first byte, one past the last).
NAME_FIELD, SIZE_FIELD, CHECKSUM_FIELD, MAGIC_FIELD, PREFIX_FIELD = (
    (0, 100),
    (124, 136),
    (148, 156),
    (257, 263),
    (345, 500),
)
TYPE_OFFSET = 156

#: Numbers that wdsctl does not read, but Python's tarfile does: mode, owner, group, time and device numbers.
UNREAD_NUMBER_FIELDS = ((100, 108), (108, 116), (116, 124), (136, 148), (329, 337), (337, 345))

#: Offset of the byte that announces another block: in an old GNU sparse header, and in a block that continues its map.
SPARSE_CONTINUES_OFFSET, SPARSE_MAP_CONTINUES_OFFSET = 482, 504

#: Limit for one pax header, which has a name, a size, times and some extended attributes. More records mean damage.
MAX_PAX_RECORDS = 1_000

REGULAR_TYPES = frozenset(b"0\x007")  # regular file, its name before POSIX, and contiguous file
DIRECTORY_TYPE = ord("5")
PAX_NEXT, PAX_GLOBAL, GNU_LONG_NAME, GNU_LONG_LINK, GNU_SPARSE = b"xgLKS"


class TarHeader(NamedTuple):
    name: bytes
    size: int  # bytes of data that follow the header, before padding
    type: int


class BadTarHeader(ValueError):  # noqa: N818 - caught within the scan only; users see a finding
    """The block is not a tar header: its checksum or a number is invalid."""


def padded_size(size: int) -> int:
    """Return the bytes that `size` bytes of data occupy in a tar."""
    return size + -size % TAR_BLOCK_BYTES


def parse_tar_number(field: bytes) -> int:
    """Parse a numeric field: octal text, or GNU's base-256 if the first bit is set.

    Raises BadTarHeader for negative numbers and invalid text.
    """
    if field[0] & 0x80:
        if field[0] & 0x40:
            raise BadTarHeader("a negative number")
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    text = field.split(b"\0", 1)[0].strip()
    if not text.strip(b"01234567"):
        return int(text or b"0", 8)
    raise BadTarHeader(f"{text!r} is not an octal number")


def parse_header(block: bytes) -> TarHeader:
    """Parse a block of 512 bytes. Raises BadTarHeader."""
    stored = parse_tar_number(block[slice(*CHECKSUM_FIELD)])
    rest = block[: CHECKSUM_FIELD[0]] + block[CHECKSUM_FIELD[1] :]
    unsigned = 8 * ord(" ") + sum(rest)
    # Some old writers summed signed bytes; POSIX allows readers to accept both.
    if stored != unsigned and stored != unsigned - 256 * sum(byte > 127 for byte in rest):
        raise BadTarHeader(f"checksum is {stored}, expected {unsigned}")
    name = block[slice(*NAME_FIELD)].split(b"\0", 1)[0]
    if block[MAGIC_FIELD[0] : MAGIC_FIELD[1]] == b"ustar\0":
        prefix = block[slice(*PREFIX_FIELD)].split(b"\0", 1)[0]
        name = prefix + b"/" + name if prefix else name
    return TarHeader(name, parse_tar_number(block[slice(*SIZE_FIELD)]), block[TYPE_OFFSET])


def pax_records(data: bytes) -> dict[bytes, bytes]:
    """Parse the `length key=value` records of a pax header. Raises BadTarHeader."""
    records: dict[bytes, bytes] = {}
    at = count = 0
    while at < len(data) and data[at] != 0:
        space = data.find(b" ", at, at + 20)
        digits = data[at:space]
        if space < 0 or not digits.isdigit() or not space - at < int(digits) <= len(data) - at:
            raise BadTarHeader("a pax record has no length or a wrong one")
        key, equals, value = data[space + 1 : at + int(digits) - 1].partition(b"=")
        if not equals:
            raise BadTarHeader("a pax record has no value")
        count += 1
        if count > MAX_PAX_RECORDS:
            raise BadTarHeader(f"a pax header of more than {MAX_PAX_RECORDS} records")
        records[key] = value
        at += int(digits)
    return records


COMPRESSION_HEAD_BYTES = 6  # bytes that identify a compression
_COMPRESSION_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
}


def detect_compression(head: bytes) -> str:
    """Return the compression of a file from its first bytes; empty if there is none."""
    return next((name for magic, name in _COMPRESSION_MAGIC.items() if head.startswith(magic)), "")


#: Two blocks of zeros end an archive. GNU tar pads to 10 KiB, for tape drives.
END_OF_ARCHIVE = bytes(2 * TAR_BLOCK_BYTES)

_MAX_NAME_BYTES = 100  # bytes
_MAX_OCTAL_SIZE_BYTES = 8**11 - 1  # bytes: eleven octal digits

_OWNER = b"".join(b"%07o\0" % number for number in (0o644, 0, 0))  # mode, uid, gid
_MTIME = b"%011o\0" % 0
_LINKNAME_TO_END = (bytes(100) + b"ustar\0" + b"00").ljust(TAR_BLOCK_BYTES - 157, b"\0")

#: The checksum counts its own field as eight spaces.
_CONSTANT_SUM = sum(_OWNER) + sum(_MTIME) + 8 * ord(" ") + sum(_LINKNAME_TO_END)


def build_tar_header(name: bytes, size: int) -> bytes:
    """Build everything before a regular file's data: 512 bytes, or at least 1,536 with a pax header."""
    if len(name) <= _MAX_NAME_BYTES and size <= _MAX_OCTAL_SIZE_BYTES:
        return _block(name, size, b"0")
    records = b""
    if len(name) > _MAX_NAME_BYTES:
        records += _record(b"path", name)
    if size > _MAX_OCTAL_SIZE_BYTES:
        records += _record(b"size", b"%d" % size)
    pax = _block(b"././@PaxHeader", len(records), b"x") + records + bytes(-len(records) % TAR_BLOCK_BYTES)
    # A reader that does not know pax sees a shortened name, which is still UTF-8.
    short = name[:_MAX_NAME_BYTES].decode(errors="ignore").encode()
    return pax + _block(short, size if size <= _MAX_OCTAL_SIZE_BYTES else 0, b"0")


def member_bytes(name: bytes, size: int) -> int:
    """Return the bytes that a file occupies in a tar: headers, data and padding."""
    if len(name) <= _MAX_NAME_BYTES and size <= _MAX_OCTAL_SIZE_BYTES:
        return TAR_BLOCK_BYTES + padded_size(size)
    return len(build_tar_header(name, size)) + padded_size(size)


def _block(name: bytes, size: int, kind: bytes) -> bytes:
    digits = b"%011o\0" % size
    total = _CONSTANT_SUM + sum(name) + sum(digits) + kind[0]
    return b"".join((name.ljust(100, b"\0"), _OWNER, digits, _MTIME, b"%06o\0 " % total, kind, _LINKNAME_TO_END))


def _record(key: bytes, value: bytes) -> bytes:
    """Format `LENGTH key=value\\n`, where the length includes its own digits."""
    rest = len(key) + len(value) + 3
    length = rest + len(str(rest))
    if len(str(length)) > len(str(rest)):
        length += 1
    return b"%d %s=%s\n" % (length, key, value)
