"""Parquet: columns whose pages are neither compressed nor encoded are ranges of bytes. Needs no pyarrow.

A null is a part that the sample lacks. A struct of `bytes` and `path`, as Hugging Face has for media, is a column of
bytes; its path, and the fields of other structs, are columns of their own. Lists are refused.

Source: https://parquet.apache.org/docs/file-format, apache/parquet-format, parquet.thrift.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from wdsctl.core.samples.naming import KEY_COLUMN
from wdsctl.core.shards.in_place.errors import ShardFormatError, damaged, unsupported
from wdsctl.core.shards.in_place.parquet_pages import CODECS, ChunkPlace, ChunkValues, locate_values
from wdsctl.core.shards.in_place.table_scan import BY_CONTENT, Column, scan_columns
from wdsctl.core.shards.in_place.thrift import int_field, read_struct
from wdsctl.core.shards.readers import ReadBytes
from wdsctl.core.shards.shard_scan import ShardScan

_MAGIC, _ENCRYPTED_MAGIC = b"PAR1", b"PARE"
_MAX_FOOTER_BYTES = 1 << 28
_BOOLEAN, _INT32, _INT64, _INT96, _FLOAT, _DOUBLE, _BYTE_ARRAY, _FIXED = range(8)
_WIDTHS = {_INT32: 4, _INT64: 8, _FLOAT: 4, _DOUBLE: 8}
_NUMBERS = {_INT32: "int32", _INT64: "int64", _FLOAT: "float32", _DOUBLE: "float64"}
_REPEATED = 2
_MAX_DEPTH = 64  # of the schema
#: Logical type -> its name, by the number of the field in the union.
_LOGICAL_TYPES = {
    1: "STRING", 2: "MAP", 3: "LIST", 4: "ENUM", 5: "DECIMAL", 6: "DATE", 7: "TIME", 8: "TIMESTAMP", 10: "INTEGER",
    11: "UNKNOWN", 12: "JSON", 13: "BSON", 14: "UUID", 15: "FLOAT16", 16: "VARIANT", 17: "GEOMETRY", 18: "GEOGRAPHY",
}  # fmt: skip
_CONVERTED_TYPES = (
    *("STRING", "MAP", "MAP_KEY_VALUE", "LIST", "ENUM", "DECIMAL", "DATE", "TIME", "TIME", "TIMESTAMP", "TIMESTAMP"),
    *("UINT_8", "UINT_16", "UINT_32", "UINT_64", "INT_8", "INT_16", "INT_32", "INT_64", "JSON", "BSON", "INTERVAL"),
)
_EXTENSION_OF_TEXT = {"STRING": "txt", "ENUM": "txt", "JSON": "json"}
_FILES_COLUMN = "__files__"


class ParquetColumn(NamedTuple):
    """`extension`: of the parts. `levels`: the definition level of a value that is there. `width`: 0 if it varies.

    `refusal`: why the column cannot be read in place, whatever its pages are; empty if it can.
    """

    name: str
    extension: str
    levels: int
    width: int
    refusal: str = ""


class ParquetFooter(NamedTuple):
    rows: int
    columns: list[ParquetColumn]
    groups: list[dict[int, Any]]


def scan_parquet(shard: str, read: ReadBytes, size: int) -> ShardScan:
    """Scan a file of `size` bytes. Raises ShardFormatError, and what `read` raises.

    Cost: the footer, page headers, and 0.2 µs a value of variable size.
    """
    footer = read_footer(read, size)
    refusals = [reason for reason in _refusals(footer) if reason]
    if refusals:
        raise unsupported("; ".join(refusals[:_NAMED_REFUSALS]) + ("; ..." if len(refusals) > _NAMED_REFUSALS else ""))
    found: list[list[ChunkValues]] = [[] for _ in footer.columns]
    for group in footer.groups:
        for i, (column, chunk) in enumerate(zip(footer.columns, group[1], strict=True)):
            found[i].append(_locate_chunk(read, size, column, chunk[3], _integer(group, 3)))
    columns = [_join(column, pieces) for column, pieces in zip(footer.columns, found, strict=True)]
    return scan_columns(shard, read, columns, footer.rows)


_NAMED_REFUSALS = 3


def has_bytes_in_place(read: ReadBytes, size: int) -> tuple[bool, str]:
    """Whether a file has a column of bytes, and why it cannot be read in place (empty if the footer allows it)."""
    try:
        footer = read_footer(read, size)
    except ShardFormatError as error:
        return False, error.message
    return any(each.extension == BY_CONTENT for each in footer.columns), next(iter(_refusals(footer)), "")


def read_footer(read: ReadBytes, size: int) -> ParquetFooter:
    """Read the footer. Raises ShardFormatError."""
    if size < 12:
        raise damaged(f"it has {size:,} bytes, too few for Parquet")
    tail = read(size - 8, 8)
    if tail[4:] == _ENCRYPTED_MAGIC:
        raise unsupported("the file is encrypted")
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or read(0, 4) != _MAGIC or length > min(size - 12, _MAX_FOOTER_BYTES):
        raise damaged("it does not begin and end as Parquet does: it is truncated, or has another format")
    try:
        content, _ = read_struct(read(size - 8 - length, length))
        if 8 in content:
            raise unsupported("the file is encrypted")
        rows, groups = _integer(content, 3), list(content.get(4) or ())
        columns = list(_walk_schema(content[2]))
        stated = sum(_integer(group, 3) for group in groups)
        is_whole = all(
            len(group[1]) == len(columns) and all(isinstance(chunk, dict) for chunk in group[1]) for group in groups
        )
    except ShardFormatError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, struct.error) as error:
        raise damaged(f"its footer cannot be read: {error}") from error
    if stated != rows or rows < 0 or not is_whole:
        raise damaged("its row groups do not have the rows and columns that its footer states")
    return ParquetFooter(rows, columns, groups)


def _integer(fields: dict[int, Any], number: int) -> int:
    value = fields[number]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"field {number} is no count")
    return value


def _walk_schema(elements: list[dict[int, Any]]) -> Iterator[ParquetColumn]:
    """Yield the leaves of the schema, which is a list of its nodes in depth-first order."""
    at = 0

    def visit(names: tuple[str, ...], levels: int, refusal: str, *, is_media: bool) -> Iterator[ParquetColumn]:
        nonlocal at
        if len(names) > _MAX_DEPTH:
            raise ValueError("the schema is nested too deep")
        element = elements[at]
        at += 1
        name, repetition = element[4].decode(), element.get(3, 0)
        path = (*names, name)
        levels += repetition != 0
        if repetition == _REPEATED and not refusal:
            refusal = "is a list"
        children = element.get(5) or 0
        if not children:
            is_bytes = is_media and name == "bytes"
            yield _leaf(element, ".".join(names if is_bytes else path), levels, refusal)
            return
        if children > len(elements) - at:
            raise ValueError("the schema is truncated")
        nested = [each[4] for each in elements[at : at + children]] if children == 2 else []
        for _ in range(children):
            yield from visit(path, levels, refusal, is_media=sorted(nested) == [b"bytes", b"path"])

    root = elements[at]
    at += 1
    for _ in range(root.get(5) or 0):
        yield from visit((), 0, "", is_media=False)
    if at != len(elements):
        raise ValueError("the schema has nodes without a parent")


def _leaf(element: dict[int, Any], name: str, levels: int, refusal: str) -> ParquetColumn:
    kind, logical = element.get(1), _logical_type(element)
    column = ParquetColumn(name, "", levels, 0, refusal)
    if refusal:
        return column
    if kind == _BYTE_ARRAY and logical in ("", *_EXTENSION_OF_TEXT):
        return column._replace(extension=_EXTENSION_OF_TEXT.get(logical, BY_CONTENT))
    if kind == _FIXED and not logical and (element.get(2) or 0) > 0:
        return column._replace(extension=BY_CONTENT, width=element[2])
    if kind in _NUMBERS and (not logical or logical.startswith(("INT_", "UINT_"))):
        # Small integers are stored as 32 bits; a value is the same in either type unless its highest bit is set.
        is_unsigned = logical in ("UINT_32", "UINT_64")
        return column._replace(extension=("u" if is_unsigned else "") + _NUMBERS[kind], width=_WIDTHS[kind])
    names = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
    physical = names[kind] if isinstance(kind, int) and 0 <= kind < len(names) else str(kind)
    return column._replace(refusal=f"has the type {logical or physical}, whose values are no bytes that can be decoded")


def _logical_type(element: dict[int, Any]) -> str:
    """The logical type of a column, or its predecessor, the converted type; empty if it has none."""
    union = element.get(10)
    if isinstance(union, dict) and union:
        [(number, facts)] = union.items()
        name = _LOGICAL_TYPES.get(number, f"number {number}")
        if name == "INTEGER":
            return f"{'INT' if facts.get(2, True) else 'UINT'}_{facts[1]}"
        return name
    converted = element.get(6)
    if converted is None:
        return ""
    return _CONVERTED_TYPES[converted] if 0 <= converted < len(_CONVERTED_TYPES) else f"number {converted}"


def _refusals(footer: ParquetFooter) -> Iterator[str]:
    """Yield why each column cannot be read in place, as far as the footer says."""
    is_exported = any(each.name == KEY_COLUMN for each in footer.columns)
    for i, column in enumerate(footer.columns):
        if column.refusal:
            yield f"the column {column.name!r} {column.refusal}"
            continue
        if is_exported and (column.name.startswith(f"{_FILES_COLUMN}.") or column.name == _FILES_COLUMN):
            yield f"the column {column.name!r} names files outside"
            continue
        for group in footer.groups:
            chunk = group[1][i]
            facts = chunk.get(3)
            if chunk.get(8) is not None or chunk.get(9) is not None or not isinstance(facts, dict):
                yield f"the column {column.name!r} is encrypted"
                break
            if chunk.get(1):
                yield f"the column {column.name!r} is in another file"
                break
            codec = int_field(facts, 4)
            if codec != 0:
                name = CODECS[codec] if codec is not None and 0 <= codec < len(CODECS) else f"codec {codec}"
                yield f"the column {column.name!r} is compressed with {name}"
                break


def _locate_chunk(read: ReadBytes, size: int, column: ParquetColumn, facts: dict[int, Any], rows: int) -> ChunkValues:
    try:
        values, length, start = _integer(facts, 5), _integer(facts, 7), _integer(facts, 9)
        dictionary = facts.get(11)
    except (LookupError, ValueError) as error:
        raise damaged(f"its footer does not say where the column {column.name!r} is") from error
    if isinstance(dictionary, int) and 0 < dictionary < start:
        start = dictionary
    if start + length > size or values != rows:
        raise damaged(f"its footer does not fit the column {column.name!r}")
    return locate_values(read, ChunkPlace(column.name, start, length, values, column.levels, column.width))


def _join(column: ParquetColumn, pieces: list[ChunkValues]) -> Column:
    empty = [np.empty(0, np.int64)]
    present = None
    if any(piece.present is not None for piece in pieces):
        each = [np.ones(len(piece.sizes), np.bool_) if piece.present is None else piece.present for piece in pieces]
        present = np.concatenate(each)
    offsets = np.concatenate([piece.offsets for piece in pieces] or empty)
    sizes = np.concatenate([piece.sizes for piece in pieces] or empty)
    return Column(column.name, column.extension, offsets, sizes, present)
