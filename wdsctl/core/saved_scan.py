"""The files that hold scans of shards until these are folded into the catalog: one a run of neighbours.

A file a shard would cost more than to scan a small one. Bytes 0-3: CRC-32 of the table; 4-11 u64, its length; the
table, JSON: [name, bytes] of each scan; then the scans, one after the other.

What follows from something else is not written: keys that are numbers, columns that are another one once more, columns
of one value. Of a file of lines that leaves two columns of seven, 16 bytes a line.

A scan is facts and bytes under a check (`checked_file.py`): the columns that the facts list as [name, dtype, count],
one after the other. [name, dtype, count, value] is a column of one value, [name, other] one that is the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from itertools import chain
from typing import Any, BinaryIO
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.checked_file import CHECK, LENGTH, UNFIT, Piece, packed, unpacked
from wdsctl.core.files import open_own, write_whole
from wdsctl.core.findings import Finding
from wdsctl.core.json_text import read_json
from wdsctl.core.line_keys import numbered
from wdsctl.core.os_errors import translated
from wdsctl.core.shard_scan import ShardScan, as_bytes

SUFFIX = ".scan"

_COLUMNS = ("offsets", "sizes", "counts", "part_names", "part_offsets", "part_sizes")


def save_scans(scans: Mapping[str, ShardScan], path: str) -> None:
    """Write scans by their names into one file, atomically."""
    pieces = {name: _pieces(scan) for name, scan in scans.items()}
    table = json.dumps([[name, sum(map(len, each))] for name, each in pieces.items()]).encode()
    start = [crc32(table).to_bytes(CHECK, "little"), len(table).to_bytes(LENGTH, "little"), table]
    write_whole(path, lambda file: file.writelines(chain(start, *pieces.values())), durable=False)


def load_scans(path: str) -> dict[str, ShardScan]:
    """The scans in a file, by their names, without those that are damaged."""
    with translated(path, "read"), open(open_own(path), "rb") as file:
        most = os.fstat(file.fileno()).st_size
        read = [(name, file.read(min(size, most))) for name, size in _table(file)]
    scans = ((name, _scan(data)) for name, data in read)
    return {name: scan for name, scan in scans if scan is not None}


def saved_scans(folder: str) -> dict[str, str]:
    """The names of all scans that files in a folder hold, and which file that is. Reads their tables alone."""
    found: dict[str, str] = {}
    with translated(folder, "read"):
        for entry in os.listdir(folder) if os.path.isdir(folder) else ():
            if entry.endswith(SUFFIX):
                path = os.path.join(folder, entry)
                with open(open_own(path), "rb") as file:
                    found.update((name, path) for name, _ in _table(file))
    return found


def _table(file: BinaryIO) -> list[tuple[str, int]]:
    """What the file says that it holds: (name, bytes); nothing where that is damaged."""
    check, length = file.read(CHECK), int.from_bytes(file.read(LENGTH), "little")
    table = file.read(min(length, os.fstat(file.fileno()).st_size))
    if not table or crc32(table).to_bytes(CHECK, "little") != check:
        return []
    try:
        return [(str(name), size) for name, size in read_json(table) if type(size) is int and size >= 0]
    except UNFIT:
        return []


def _pieces(scan: ShardScan) -> list[Piece]:
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
        "layout": scan.layout,
        "columns": told,
    }
    return packed(facts, map(as_bytes, kept.values()))


def _scan(saved: bytes) -> ShardScan | None:
    """A scan from its bytes; None where they are damaged."""
    read = unpacked(saved)
    try:
        scan = None if read is None else _unpacked(*read)
    except UNFIT:
        return None
    return scan if scan is not None and _is_whole(scan) else None


def _is_whole(scan: ShardScan) -> bool:
    """Whether its columns go together."""
    samples, parts = len(scan.offsets), len(scan.part_offsets)
    of_samples, of_parts = (scan.sizes, scan.counts, scan.key_sizes), (scan.part_names, scan.part_sizes)
    if any(len(column) != samples for column in of_samples) or any(len(column) != parts for column in of_parts):
        return False
    numbers = (scan.offsets, *of_samples, scan.part_offsets, *of_parts)
    if any(column.dtype.kind not in "iu" or int(column.min(initial=0)) < 0 for column in numbers):
        return False
    is_named = not parts or int(scan.part_names.max()) < len(scan.extensions)
    if not all(map(_is_name, scan.extensions)) or not isinstance(scan.status, str):
        return False
    if not all(text is None or isinstance(text, str) for text in (scan.sha256, scan.layout)):
        return False
    return is_named and (int(scan.counts.sum()), int(scan.key_sizes.sum())) == (parts, len(scan.keys))


def _is_name(part: Any) -> bool:
    return isinstance(part, str) and "/" not in part and "\0" not in part


def _unpacked(facts: Mapping[str, Any], data: memoryview) -> ShardScan:
    at = 0
    columns: dict[str, NDArray[Any]] = {}
    for name, dtype, *rest in facts["columns"]:
        if not rest:
            columns[name] = columns[dtype]
        elif len(rest) > 1:
            if not 0 <= rest[0] <= max(1, len(data)):  # others beside it are not constant, and are as long
                raise ValueError(rest)
            columns[name] = np.full(rest[0], rest[1], dtype)
        else:
            if rest[0] < 0:
                raise ValueError(rest)
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
        layout=facts["layout"],
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
    return numbered(prefix.encode(), len(columns["offsets"]))


def _is_constant(array: NDArray[Any]) -> bool:
    """Whether it is more than a few of one value. Most columns that are not say so at once."""
    return len(array) > 1 and bool(array[0] == array[-1]) and bool((array == array[0]).all())
