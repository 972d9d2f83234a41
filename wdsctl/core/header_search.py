"""Finds members where nothing leads to them: behind damage, and behind the mark that ends an archive."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wdsctl.core import tar
from wdsctl.core.members import Read
from wdsctl.core.tar import BLOCK, BadHeader, padded, parse_header

TYPES = frozenset(b"0\x00712345xgLK")

_WINDOW = 1 << 20  # bytes searched at a time


def leads_on(read: Read, size: int, at: int) -> bool:
    """Whether another header stands there, or the end of the archive."""
    if at >= size:
        return at == size
    block = read(at, min(BLOCK, size - at))
    if not any(block):
        return True
    return len(block) == BLOCK and is_header(block)


def is_header(block: bytes) -> bool:
    try:
        header = parse_header(block)
    except BadHeader:
        return False
    return bool(header.name) and header.type in TYPES


def headers(read: Read, size: int, at: int) -> Iterator[int]:
    """Where headers stand from `at` on, at borders of blocks, that lead to another one or to the end."""
    at += -at % BLOCK
    while at + BLOCK <= size:
        data = read(at, min(_WINDOW, (size - at) // BLOCK * BLOCK))
        blocks = np.frombuffer(data, np.uint8).reshape(-1, BLOCK)
        first, last = tar.MAGIC[0], tar.MAGIC[0] + 5
        named = (blocks[:, first:last] == np.frombuffer(b"ustar", np.uint8)).all(axis=1)
        for row in np.flatnonzero(named).tolist():
            block = data[row * BLOCK : (row + 1) * BLOCK]
            if is_header(block):
                header = parse_header(block)
                length = 0 if header.type in b"123456" else header.size
                if leads_on(read, size, at + (row + 1) * BLOCK + padded(length)):
                    yield at + row * BLOCK
        at += len(data)
