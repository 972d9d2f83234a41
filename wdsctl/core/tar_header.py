"""The header of a member as we write it: ustar without all that varies, so that the same files give the same bytes.

Mode 0644, owner 0, no owner names, mtime 0. A name over 100 bytes or a size from 8 GiB on goes into a pax header before
it (POSIX.1-2017, "pax Interchange Format"); everything else costs one block. Built by hand, since `tarfile` takes 20 µs
a member, and its bytes differ between versions of Python.
"""

from __future__ import annotations

from wdsctl.core.tar import BLOCK, padded

#: Two blocks of zeros end an archive. GNU tar pads further, to 10 KiB, for the sake of tape drives.
END = bytes(2 * BLOCK)

_LONGEST_NAME = 100  # bytes
_LARGEST = 8**11 - 1  # bytes: eleven octal digits

_OWNER = b"".join(b"%07o\0" % number for number in (0o644, 0, 0))  # mode, uid, gid
_MTIME = b"%011o\0" % 0
_LINKNAME_TO_END = (bytes(100) + b"ustar\0" + b"00").ljust(BLOCK - 157, b"\0")

#: The checksum takes its own field as eight spaces.
_CONSTANT_SUM = sum(_OWNER) + sum(_MTIME) + 8 * ord(" ") + sum(_LINKNAME_TO_END)


def header(name: bytes, size: int) -> bytes:
    """All that stands before a regular file's data: 512 bytes, or 1,536 and more where a pax header is needed."""
    if len(name) <= _LONGEST_NAME and size <= _LARGEST:
        return _block(name, size, b"0")
    records = b""
    if len(name) > _LONGEST_NAME:
        records += _record(b"path", name)
    if size > _LARGEST:
        records += _record(b"size", b"%d" % size)
    pax = _block(b"././@PaxHeader", len(records), b"x") + records + bytes(-len(records) % BLOCK)
    # A reader that does not know pax sees a shortened name, which is still UTF-8.
    short = name[:_LONGEST_NAME].decode(errors="ignore").encode()
    return pax + _block(short, size if size <= _LARGEST else 0, b"0")


def member_bytes(name: bytes, size: int) -> int:
    """What a file takes up in a tar: its headers, its data, its padding."""
    if len(name) <= _LONGEST_NAME and size <= _LARGEST:
        return BLOCK + padded(size)
    return len(header(name, size)) + padded(size)


def _block(name: bytes, size: int, kind: bytes) -> bytes:
    digits = b"%011o\0" % size
    total = _CONSTANT_SUM + sum(name) + sum(digits) + kind[0]
    return b"".join((name.ljust(100, b"\0"), _OWNER, digits, _MTIME, b"%06o\0 " % total, kind, _LINKNAME_TO_END))


def _record(key: bytes, value: bytes) -> bytes:
    """`LENGTH key=value\\n`, where the length counts its own digits."""
    rest = len(key) + len(value) + 3
    length = rest + len(str(rest))
    if len(str(length)) > len(str(rest)):
        length += 1
    return b"%d %s=%s\n" % (length, key, value)
