"""What units leave until it is folded in: facts and bytes under a check, as the machine may go down before all is out.

Bytes 0-3: CRC-32 of the rest; 4-11 u64, the length of the facts; the facts, JSON; then bytes that the facts tell of.
They lie in the dataset's folder, and may be somebody else's: what does not fit is damage, as what fails the check is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from zlib import crc32

from wdsctl.core.files import open_own, write_whole
from wdsctl.core.json_text import read_json
from wdsctl.core.os_errors import translated

CHECK = 4  # bytes at the start: the CRC-32 of the rest
LENGTH = 8  # bytes of the length of the facts

#: What taking facts apart raises where they are not what they are to be.
UNFIT = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError, MemoryError)

Piece = bytes | memoryview


def packed(facts: Mapping[str, Any], pieces: Iterable[Piece] = ()) -> list[Piece]:
    """The facts and the pieces behind them, to be written one after the other."""
    head = json.dumps(facts, separators=(",", ":")).encode()
    rest = [len(head).to_bytes(LENGTH, "little"), head, *pieces]
    check = 0
    for piece in rest:
        check = crc32(piece, check)
    return [check.to_bytes(CHECK, "little"), *rest]


def unpacked(data: bytes) -> tuple[dict[str, Any], memoryview] | None:
    """The facts, and the bytes behind them; None where the data is damaged."""
    rest = memoryview(data)[CHECK:]
    if crc32(rest).to_bytes(CHECK, "little") != data[:CHECK] or len(rest) < LENGTH:
        return None
    at = LENGTH + int.from_bytes(rest[:LENGTH], "little")
    try:
        facts = read_json(bytes(rest[LENGTH:at]))
    except UNFIT:
        return None
    return (facts, rest[at:]) if isinstance(facts, dict) else None


def save_checked(path: str, facts: Mapping[str, Any], pieces: Iterable[Piece] = ()) -> None:
    write_whole(path, lambda file: file.writelines(packed(facts, pieces)), durable=False)


def load_checked(path: str) -> tuple[dict[str, Any], memoryview] | None:
    """What was saved; None where the file was damaged."""
    with translated(path, "read"), open(open_own(path), "rb") as file:
        return unpacked(file.read())
