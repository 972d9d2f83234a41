"""Attacks with mapped files: other numbers, with matching checksums."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wdsctl.core.offsets.block_checksums import append_checksums


def change_column(path: Path, name: str, change: Callable[[Any], None], *, table: str = "columns") -> None:
    """Change the numbers of a column in place."""
    data, header = _read(path, table)
    at, dtype, count = header[table][name]
    column = np.frombuffer(data, dtype, count, at).copy()
    change(column)
    data[at : at + column.nbytes] = column.tobytes()
    _write(path, data)


def change_header(path: Path, change: Callable[[Any], object], *, table: str = "columns") -> None:
    """Change the header; it may not become longer than the gap before the first column."""
    data, header = _read(path, table)
    length = int.from_bytes(data[8:16], "little")
    space = min(at for at, _, _ in header[table].values()) - 16
    change(header)
    text = json.dumps(header, separators=(",", ":")).encode()
    assert len(text) <= space, "no room"
    data[16 : 16 + max(length, len(text))] = text.ljust(max(length, len(text)))
    data[8:16] = max(length, len(text)).to_bytes(8, "little")
    _write(path, data)


def _read(path: Path, table: str) -> tuple[bytearray, Any]:
    data = bytearray(path.read_bytes())
    header = json.loads(data[16 : 16 + int.from_bytes(data[8:16], "little")])
    end = max(at + np.dtype(dtype).itemsize * count for at, dtype, count in header[table].values())
    return data[:end], header


def _write(path: Path, data: bytearray) -> None:
    with open(path, "w+b") as file:
        file.write(data)
        append_checksums(file)
