"""The pages of a column chunk of Parquet: where each value is, and which rows have none.

Reads the headers of the pages, the definition levels, and the sizes of values of variable size. Pages must be
uncompressed, with the encoding PLAIN. Values of columns inside lists have no row of their own, and are refused earlier.

Source: https://parquet.apache.org/docs/file-format (data pages, encodings), apache/parquet-format, parquet.thrift.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.shards.in_place.errors import damaged, unsupported
from wdsctl.core.shards.in_place.thrift import int_field, read_struct, struct_field
from wdsctl.core.shards.readers import ReadBytes

CODECS = ("uncompressed", "Snappy", "gzip", "LZO", "Brotli", "LZ4", "Zstandard", "LZ4 (raw)")
_ENCODINGS = {
    0: "PLAIN", 2: "PLAIN_DICTIONARY", 3: "RLE", 4: "BIT_PACKED", 5: "DELTA_BINARY_PACKED",
    6: "DELTA_LENGTH_BYTE_ARRAY", 7: "DELTA_BYTE_ARRAY", 8: "RLE_DICTIONARY", 9: "BYTE_STREAM_SPLIT",
}  # fmt: skip
_PLAIN, _RLE = 0, 3
_DICTIONARY_ENCODINGS = (2, 8)
_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = range(4)
_HEADER_BYTES = 256  # of a page header that are read at first: without statistics, it has some 30
_MAX_HEADER_BYTES = 1 << 20
_LEVEL_BYTES = 1 << 28  # of definition levels in a page
_WINDOW_BYTES = 1 << 18  # read ahead while values are small


class ChunkPlace(NamedTuple):
    """A column chunk. `width`: bytes of each value; 0 if each value is preceded by its size.

    `levels`: the definition level of a value that is there, 0 if all are. `values`: with those that are absent.
    """

    column: str
    start: int
    size: int
    values: int
    levels: int
    width: int


class ChunkValues(NamedTuple):
    """Per row: offset and size (0 if absent), and whether the row has a value (None: all have)."""

    offsets: Int64Array
    sizes: Int64Array
    present: NDArray[np.bool_] | None


def locate_values(read: ReadBytes, place: ChunkPlace) -> ChunkValues:
    """Find the values of a column chunk. Raises ShardFormatError, and what `read` raises.

    Cost: 0.2 µs a value of variable size.
    """
    offsets: list[Int64Array] = []
    sizes: list[Int64Array] = []
    present: list[NDArray[np.bool_]] = []
    at, end, left = place.start, place.start + place.size, place.values
    while left > 0:
        header, data_start = _read_header(read, at, end, place)
        kind, data_size = int_field(header, 1), int_field(header, 3)
        if data_size is None or data_size < 0 or data_start + data_size > end:
            raise damaged(f"a page of the column {place.column!r} does not fit its chunk")
        at = data_start + data_size
        if kind in (_INDEX_PAGE, _DICTIONARY_PAGE):
            continue
        if kind not in (_DATA_PAGE, _DATA_PAGE_V2):
            raise unsupported(f"the column {place.column!r} has a page of the type {kind}, which is not known")
        count, levels_size, start = _parse_data_page(read, header, data_start, data_size, place)
        if not 0 <= count <= left:
            raise damaged(f"the pages of the column {place.column!r} have more values than its chunk")
        left -= count
        page_present = _read_levels(read, start - levels_size, levels_size, count, place)
        found = count if page_present is None else int(page_present.sum())
        value_offsets, value_sizes = _locate(read, start, at, found, place)
        if page_present is not None:
            value_offsets = _spread(value_offsets, page_present)
            value_sizes = _spread(value_sizes, page_present)
        offsets.append(value_offsets)
        sizes.append(value_sizes)
        present.append(np.ones(count, np.bool_) if page_present is None else page_present)
    empty = [np.empty(0, np.int64)]
    is_present = np.concatenate(present or [np.empty(0, np.bool_)])
    return ChunkValues(
        np.concatenate(offsets or empty), np.concatenate(sizes or empty), None if is_present.all() else is_present
    )


def _read_header(read: ReadBytes, at: int, end: int, place: ChunkPlace) -> tuple[dict[int, Any], int]:
    size = _HEADER_BYTES
    while True:
        some = read(at, max(0, min(size, end - at)))
        try:
            header, length = read_struct(some)
            return header, at + length
        except (ValueError, IndexError, struct.error) as error:
            if size >= min(_MAX_HEADER_BYTES, end - at):
                raise damaged(f"a page header of the column {place.column!r} cannot be read: {error}") from error
            size *= 16


def _parse_data_page(
    read: ReadBytes, header: dict[int, Any], start: int, size: int, place: ChunkPlace
) -> tuple[int, int, int]:
    """Return the number of values, the bytes of the definition levels, and the offset of the values after these."""
    if int_field(header, 1) == _DATA_PAGE:
        plain = struct_field(header, 5)
        count, level_encoding = int_field(plain, 1), int_field(plain, 3)
        _check_encoding(int_field(plain, 2), place)
        if place.levels == 0:
            return _count(count, place), 0, start
        if level_encoding != _RLE:
            name = _encoding_name(level_encoding)
            raise unsupported(f"the definition levels of the column {place.column!r} have the encoding {name}")
        levels_size = int.from_bytes(read(start, 4), "little") if size >= 4 else size
        if 4 + levels_size > size:
            raise damaged(f"the definition levels of the column {place.column!r} do not fit their page")
        return _count(count, place), levels_size, start + 4 + levels_size
    facts = struct_field(header, 8)
    if facts.get(7, True) and header.get(2) != header.get(3):
        raise unsupported(f"the pages of the column {place.column!r} are compressed")
    _check_encoding(int_field(facts, 4), place)
    level_bytes, repeat_bytes = int_field(facts, 5), int_field(facts, 6)
    if repeat_bytes != 0 or level_bytes is None or not 0 <= level_bytes <= size:
        raise damaged(f"the definition levels of the column {place.column!r} do not fit their page")
    return _count(int_field(facts, 1), place), level_bytes, start + level_bytes


def _count(count: int | None, place: ChunkPlace) -> int:
    if count is None:
        raise damaged(f"a page of the column {place.column!r} does not state its number of values")
    return count


def _check_encoding(encoding: int | None, place: ChunkPlace) -> None:
    if encoding in _DICTIONARY_ENCODINGS:
        raise unsupported(f"the column {place.column!r} is dictionary-encoded")
    if encoding != _PLAIN:
        raise unsupported(f"the column {place.column!r} has the encoding {_encoding_name(encoding)}")


def _encoding_name(encoding: int | None) -> str:
    return str(encoding) if encoding is None else _ENCODINGS.get(encoding, str(encoding))


def _read_levels(read: ReadBytes, start: int, size: int, count: int, place: ChunkPlace) -> NDArray[np.bool_] | None:
    """Whether each value of a page is there: levels are a mixture of runs and packed bits. None if all are."""
    if place.levels == 0:
        if size:
            raise damaged(f"the column {place.column!r} has definition levels, although it needs none")
        return None
    if size > _LEVEL_BYTES:
        raise damaged(f"a page of the column {place.column!r} has {size:,} bytes of definition levels")
    data = read(start, size) if size else b""
    width = place.levels.bit_length()
    weights = 1 << np.arange(width)
    pieces: list[NDArray[np.bool_]] = []
    done = at = 0
    while done < count:
        number, at = _read_varint(data, at, place)
        if number & 1:
            groups = min(number >> 1, -(-(count - done) // 8))
            packed = np.frombuffer(data[at : at + groups * width], np.uint8)
            if len(packed) != groups * width:
                raise damaged(f"the definition levels of the column {place.column!r} are truncated")
            levels = np.unpackbits(packed, bitorder="little").reshape(-1, width) @ weights
            at += (number >> 1) * width
        else:
            span = -(-width // 8)
            level = int.from_bytes(data[at : at + span], "little")
            levels = np.full(min(number >> 1, count - done), level)
            at += span
        levels = levels[: count - done]
        if not len(levels) or at > len(data) or int(levels.max()) > place.levels:
            raise damaged(f"the definition levels of the column {place.column!r} are damaged")
        pieces.append(levels == place.levels)
        done += len(levels)
    return np.concatenate(pieces or [np.empty(0, np.bool_)])


def _read_varint(data: bytes, at: int, place: ChunkPlace) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise damaged(f"the definition levels of the column {place.column!r} are truncated")


def _locate(read: ReadBytes, start: int, end: int, count: int, place: ChunkPlace) -> tuple[Int64Array, Int64Array]:
    """(offsets, sizes) of the `count` values in [start, end)."""
    if place.width:
        if start + count * place.width != end:
            raise damaged(f"a page of the column {place.column!r} does not have the size of its values")
        return start + np.arange(count, dtype=np.int64) * place.width, np.full(count, place.width, np.int64)
    if count * 4 > end - start:
        raise damaged(f"a page of the column {place.column!r} is too small for its values")
    offsets, sizes = np.empty(count, np.int64), np.empty(count, np.int64)
    unpack = struct.Struct("<I").unpack_from
    at = base = start
    window = b""
    size = 0
    for i in range(count):
        if at + 4 > base + len(window):
            if at + 4 > end:
                raise damaged(f"the values of the column {place.column!r} do not fit their page")
            base = at
            window = read(at, min(end - at, 4 if size > _WINDOW_BYTES else _WINDOW_BYTES))
        (size,) = unpack(window, at - base)
        at += 4
        offsets[i], sizes[i] = at, size
        at += size
    if at != end:
        raise damaged(f"the values of the column {place.column!r} do not fit their page")
    return offsets, sizes


def _spread(values: Int64Array, present: NDArray[np.bool_]) -> Int64Array:
    spread = np.zeros(len(present), np.int64)
    spread[present] = values
    return spread
