"""Read structs of Thrift's compact protocol, in which Parquet has its metadata: {number of the field: value}.

Source: https://github.com/apache/thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

import struct
from typing import Any

_MAX_DEPTH = 32
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = range(1, 14)


def read_struct(data: bytes, at: int = 0) -> tuple[dict[int, Any], int]:
    """Return the struct at this offset, and the offset after it.

    Raises ValueError for damaged data, IndexError and struct.error for truncated data.
    """
    return _read_struct(data, at, 0)


def struct_field(fields: dict[int, Any], number: int) -> dict[int, Any]:
    """A field that is a struct; an empty struct if it is missing, or of another type."""
    value = fields.get(number)
    return value if isinstance(value, dict) else {}


def int_field(fields: dict[int, Any], number: int) -> int | None:
    """A field that is a whole number; None if it is missing, or of another type."""
    value = fields.get(number)
    return value if type(value) is int else None


def _read_struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    if depth > _MAX_DEPTH:
        raise ValueError("structs are nested too deep")
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        kind = head & 15
        if not kind:
            return fields, at
        if head >> 4:
            number += head >> 4
        else:
            number, at = _read_zigzag(data, at)
        if kind in (_TRUE, _FALSE):
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _read_value(data, at, kind, depth + 1)


def _read_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:  # noqa: PLR0911 - a type each
    if kind in (_I16, _I32, _I64):
        return _read_zigzag(data, at)
    if kind == _BINARY:
        size, at = _read_varint(data, at)
        if at + size > len(data):
            raise ValueError("a text is truncated")
        return data[at : at + size], at + size
    if kind == _STRUCT:
        return _read_struct(data, at, depth)
    if kind in (_LIST, _SET):
        return _read_list(data, at, depth)
    if kind == _MAP:
        return _read_map(data, at, depth)
    if kind in (_TRUE, _FALSE, _BYTE):  # of a list, a byte each
        return data[at], at + 1
    if kind == _DOUBLE:
        return struct.unpack_from("<d", data, at)[0], at + 8
    if kind == _UUID and at + 16 <= len(data):
        return data[at : at + 16], at + 16
    raise ValueError(f"the type {kind} is not known")


def _read_list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    head = data[at]
    at += 1
    count = head >> 4
    if count == 15:
        count, at = _read_varint(data, at)
    if count > len(data) - at:
        raise ValueError("a list is truncated")
    values = []
    for _ in range(count):
        value, at = _read_value(data, at, head & 15, depth)
        values.append(value)
    return values, at


def _read_map(data: bytes, at: int, depth: int) -> tuple[list[tuple[Any, Any]], int]:
    count, at = _read_varint(data, at)
    if count > len(data) - at:
        raise ValueError("a map is truncated")
    pairs: list[tuple[Any, Any]] = []
    if not count:
        return pairs, at
    kinds = data[at]
    at += 1
    for _ in range(count):
        key, at = _read_value(data, at, kinds >> 4, depth)
        value, at = _read_value(data, at, kinds & 15, depth)
        pairs.append((key, value))
    return pairs, at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number has too many bytes")


def _read_zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at
