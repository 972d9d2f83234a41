"""The file that holds the scan of one shard until it is folded into the catalog.

What follows from something else is not written: keys that are numbers, columns that are another one once more, columns
of one value. Of a file of lines that leaves two columns of seven, 16 bytes a line.

Bytes 0-3: CRC-32 of the rest; 4-11 u64, the length of the header; the header, JSON; then the columns that it lists as
[name, dtype, count], one after the other. [name, dtype, count, value] is a column of one value, [name, other] one that
is the other.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.files import write_whole
from wdsctl.core.findings import Finding
from wdsctl.core.line_keys import numbered
from wdsctl.core.os_errors import translated
from wdsctl.core.shard_scan import ShardScan, as_bytes

_CHECK = 4  # bytes at the start: the CRC-32 of the rest
_LENGTH = 8  # bytes of the header's length
_COLUMNS = ("offsets", "sizes", "counts", "part_names", "part_offsets", "part_sizes")


def save_scan(scan: ShardScan, path: str) -> None:
    columns = _columns(scan)
    kept: dict[str, NDArray[Any]] = {}
    told: list[list[Any]] = []
    for name, array in columns.items():
        same = next((other for other, before in kept.items() if before is array), None)
        if same is not None:
            told.append([name, same])
        elif _is_constant(array):
            told.append([name, array.dtype.str, len(array), int(array[0])])
        else:
            told.append([name, array.dtype.str, len(array)])
            kept[name] = array
    facts = {
        "status": scan.status,
        "extensions": scan.extensions,
        "sha256": scan.sha256,
        "findings": [asdict(finding) for finding in scan.findings],
        "numbered": scan.numbered,
        "columns": told,
    }
    head = json.dumps(facts).encode()
    pieces: list[bytes | memoryview] = [len(head).to_bytes(_LENGTH, "little"), head, *map(as_bytes, kept.values())]
    check = 0
    for piece in pieces:
        check = crc32(piece, check)
    write_whole(path, lambda file: file.writelines([check.to_bytes(_CHECK, "little"), *pieces]), durable=False)


def load_scan(path: str) -> ShardScan | None:
    """A saved scan; None where the file was damaged (its machine went down before it was written out)."""
    with translated(path, "read"), open(path, "rb") as file:
        check, data = file.read(_CHECK), file.read()
    if crc32(data).to_bytes(_CHECK, "little") != check or len(data) < _LENGTH:
        return None
    at = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    facts = json.loads(data[_LENGTH:at])
    columns: dict[str, NDArray[Any]] = {}
    for name, dtype, *rest in facts["columns"]:
        if not rest:
            columns[name] = columns[dtype]
        elif len(rest) > 1:
            columns[name] = np.full(rest[0], rest[1], dtype)
        else:
            columns[name] = np.frombuffer(data, dtype, rest[0], at)
            at += columns[name].nbytes
    keys, key_sizes = _keys(facts["numbered"], columns)
    return ShardScan(
        status=facts["status"],
        keys=keys,
        key_sizes=key_sizes,
        extensions=tuple(facts["extensions"]),
        findings=tuple(Finding(**finding) for finding in facts["findings"]),
        sha256=facts["sha256"],
        numbered=facts["numbered"],
        **columns,
    )


def _columns(scan: ShardScan) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {name: getattr(scan, name) for name in _COLUMNS}
    if scan.numbered is None:
        columns |= {"keys": np.frombuffer(scan.keys, np.uint8), "key_sizes": scan.key_sizes}
    return columns


def _keys(prefix: str | None, columns: dict[str, NDArray[Any]]) -> tuple[bytes, NDArray[np.uint32]]:
    """All keys and their sizes, taken out of the columns where they are there."""
    if prefix is None:
        return columns.pop("keys").tobytes(), columns.pop("key_sizes")
    keys, sizes = numbered(prefix.encode(), len(columns["offsets"]))
    return keys, sizes.astype(np.uint32)


def _is_constant(array: NDArray[Any]) -> bool:
    """Whether it is more than a few of one value. Most columns that are not say so at once."""
    return len(array) > 1 and bool(array[0] == array[-1]) and bool((array == array[0]).all())
