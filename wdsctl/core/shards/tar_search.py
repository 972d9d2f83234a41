"""Find members that no header leads to: after damage, and after the end-of-archive marker."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wdsctl.core import tar_header
from wdsctl.core.shards.tar_members import ReadBytes
from wdsctl.core.tar_header import TAR_BLOCK_BYTES, BadTarHeader, padded_size, parse_header

MEMBER_TYPES = frozenset(b"0\x00712345xgLK")

_WINDOW = 1 << 20  # bytes searched at a time


def is_followed_by_header(read: ReadBytes, size: int, at: int) -> bool:
    """Whether a header, a block of zeros or the end of the file is at `at`."""
    if at >= size:
        return at == size
    block = read(at, min(TAR_BLOCK_BYTES, size - at))
    if not any(block):
        return True
    return len(block) == TAR_BLOCK_BYTES and is_header(block)


def is_header(block: bytes) -> bool:
    try:
        header = parse_header(block)
    except BadTarHeader:
        return False
    return bool(header.name) and header.type in MEMBER_TYPES


def find_headers(read: ReadBytes, size: int, at: int) -> Iterator[int]:
    """Yield the offsets, from `at` on, of headers whose member is followed by another header or the end.

    Headers begin at multiples of a block.
    """
    at += -at % TAR_BLOCK_BYTES
    while at + TAR_BLOCK_BYTES <= size:
        data = read(at, min(_WINDOW, (size - at) // TAR_BLOCK_BYTES * TAR_BLOCK_BYTES))
        blocks = np.frombuffer(data, np.uint8).reshape(-1, TAR_BLOCK_BYTES)
        first, last = tar_header.MAGIC_FIELD[0], tar_header.MAGIC_FIELD[0] + 5
        named = (blocks[:, first:last] == np.frombuffer(b"ustar", np.uint8)).all(axis=1)
        for row in np.flatnonzero(named).tolist():
            block = data[row * TAR_BLOCK_BYTES : (row + 1) * TAR_BLOCK_BYTES]
            if is_header(block):
                header = parse_header(block)
                length = 0 if header.type in b"123456" else header.size
                if is_followed_by_header(read, size, at + (row + 1) * TAR_BLOCK_BYTES + padded_size(length)):
                    yield at + row * TAR_BLOCK_BYTES
        at += len(data)
