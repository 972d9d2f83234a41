"""Files of a JSON header and arrays that all processes map: offsets, key indexes, keyframes, columns, joins.

Little-endian. 8 bytes that name the format; u64, the length of the header; the header, JSON; then the arrays, each at a
multiple of 64 bytes; then checksums by block (`block_checksums.py`). `columns` in the header: name -> [offset, dtype,
count]. Columns and joins, which are written before their headers are known, lay out their arrays themselves.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.errors import CatalogError
from wdsctl.core.files import BytesLike, open_without_links
from wdsctl.core.json_text import read_json, read_with_rows
from wdsctl.core.offsets.block_checksums import BlockChecksums, append_checksums, checksums_size, round_up_to_blocks

COLUMN_ALIGNMENT_BYTES = 64
MAX_UNMAPPED_BYTES = 1 << 20  # files up to this size are read instead of mapped

#: Name -> (dtype, as numpy spells it; number of values).
ColumnTypes = Mapping[str, tuple[str, int]]


class MappedArrays(NamedTuple):
    """`facts`: the header. `columns`: views of the file, in memory or mapped."""

    facts: dict[str, Any]
    columns: dict[str, NDArray[Any]]


class HeaderRows(NamedTuple):
    """A long list of lists in a header, as compact JSON without the outer brackets. `size_bytes`: of all pieces."""

    name: str
    size_bytes: int
    pieces: Iterable[BytesLike]


def map_file(path: str) -> bytes | mmap.mmap:
    """Map a file, or read it if it is small: each map keeps a descriptor open, and a blend of small datasets would need
    thousands. Raises OSError, and InputError for a link.
    """
    handle = open_without_links(path)
    try:
        size = os.fstat(handle).st_size
        return os.read(handle, size) if size <= MAX_UNMAPPED_BYTES else mmap.mmap(handle, size, prot=mmap.PROT_READ)
    finally:
        os.close(handle)


def read_array_header(
    data: bytes | mmap.mmap | memoryview, magic: bytes, checksums: BlockChecksums, rows: str = ""
) -> dict[str, Any]:
    """Read and check the header of a file. Raises ValueError, and what `checksums` raises.

    `rows`: the name of a long list of lists in it, which becomes an iterator that holds few of them at a time.
    """
    if data[:8] != magic:
        raise ValueError("a file of another format")
    length = int.from_bytes(data[8:16], "little")
    checksums.check(0, 16 + length)
    text = memoryview(data)[16 : 16 + length]
    if rows:
        facts, found = read_with_rows(text, rows)
        return {**facts, rows: found}
    header = read_json(bytes(text))
    if not isinstance(header, dict):
        raise ValueError("the header is not an object")  # noqa: TRY004 - the file is wrong, not an argument
    return header


def write_arrays(
    file: BinaryIO,
    magic: bytes,
    facts: Mapping[str, Any],
    columns: ColumnTypes,
    chunks: Callable[[str], Iterable[Any]],
    rows: HeaderRows | None = None,
) -> None:
    """Write a whole file. `file`: empty, open for reading and writing. `chunks(name)`: the buffers of a column.

    `rows`: the rows of a list that is empty in `facts`.
    """
    head, starts = build_array_header(magic, facts, columns, rows.size_bytes if rows else 0)
    if rows is not None:
        before, begin, head = head.partition(f'"{rows.name}":['.encode())
        file.writelines(chain([before, begin], rows.pieces))
    file.write(head)
    for name, start in starts.items():
        file.write(b"\0" * (start - file.tell()))
        file.writelines(chunks(name))
    append_checksums(file)


def open_mapped_arrays(path: str, magic: bytes, dtypes: Mapping[str, Sequence[str]]) -> MappedArrays | None:
    """Open a file; None if it is missing, damaged, or of another format, so that the caller rewrites it.

    `dtypes`: the dtypes that each column may have. Checks the whole file: 0.3 ms per MB.
    """
    try:
        data = map_file(path)
        checksums = BlockChecksums(data, partial(_damaged_error, path))
        checksums.check_all()
        header = read_array_header(data, magic, checksums)
        layout = header["columns"]
        if layout.keys() != dtypes.keys() or any(dtype not in dtypes[name] for name, (_, dtype, _) in layout.items()):
            return None
        if any(min(start, count) < 0 for start, _, count in layout.values()):  # numpy reads -1 as "all"
            return None
        end = max(start + np.dtype(dtype).itemsize * count for start, dtype, count in layout.values())
        if round_up_to_blocks(end) + checksums_size(end) != len(data):
            return None
        columns = {name: np.frombuffer(data, dtype, count, start) for name, (start, dtype, count) in layout.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, CatalogError):
        return None
    return MappedArrays(header, columns)


def build_array_header(
    magic: bytes, facts: Mapping[str, Any], columns: ColumnTypes, inserted_bytes: int = 0
) -> tuple[bytes, dict[str, int]]:
    """(the first bytes of the file, where each column begins). The header's length depends on the offsets in it.

    `inserted_bytes`: what the caller inserts into the first bytes.
    """
    length = 0
    while True:
        at, table, starts = 16 + length, {}, {}
        for name, (dtype, count) in columns.items():
            at += -at % COLUMN_ALIGNMENT_BYTES
            table[name], starts[name] = [at, dtype, count], at
            at += np.dtype(dtype).itemsize * count
        text = json.dumps({**facts, "columns": table}, separators=(",", ":")).encode()
        needed = len(text) + inserted_bytes
        if needed <= length:
            return magic + length.to_bytes(8, "little") + text.ljust(length - inserted_bytes), starts
        length = needed + COLUMN_ALIGNMENT_BYTES


def _damaged_error(path: str) -> CatalogError:
    return CatalogError("the file is damaged", where=path, hint="remove the file: the next use computes it again")
