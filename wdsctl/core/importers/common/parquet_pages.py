"""Check the pages of a Parquet file before they are unpacked: a page of a few bytes may hold any number of values.

Source: https://parquet.apache.org/docs/file-format/data-pages, https://github.com/apache/parquet-format (PageHeader,
FileMetaData), https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from wdsctl.core.importers.common import arrow_checks

_HEADER_BYTES = 256  # of almost every header; those with long statistics are read again
_MAX_HEADER_BYTES = 16 << 20  # Arrow's limit
_MAX_THRIFT_DEPTH = 16  # headers of pages have 3 levels, footers of files 8
_BATCH_BYTES = 512 << 20  # of a batch whose values are all as long as the longest
_DICTIONARY_PAGE = 2
_DELTA_BYTE_ARRAY = 7
_BYTE_ARRAY = 6  # type of a column

_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12


class _Page(NamedTuple):
    size: int  # of the header
    packed: int  # bytes
    unpacked: int  # bytes
    values: int
    is_dictionary: bool
    shares_bytes: bool  # a value may repeat others


class ChunkFacts(NamedTuple):
    """What the footer says about a column of a row group."""

    path: str
    kind: int
    values: int
    first_page: int  # byte offset


class PageFacts(NamedTuple):
    """What the pages of a row group say.

    `unpacked`: bytes that come out of them. `rows`: so many that a batch fits into memory, whatever its values are.
    `shared`: the columns in lists whose values may repeat others so often that no batch does, by their paths.
    """

    unpacked: int
    rows: int
    shared: tuple[str, ...]


def read_chunk_facts(source: Any) -> list[list[ChunkFacts]]:
    """Read the columns of each row group from the footer of an open file.

    pyarrow's own function ends the process if some statistics are wrong. Cost: 30 microseconds a column. Raises
    ValueError for a damaged footer.
    """
    size = source.size()
    length = int.from_bytes(source.read_at(4, max(0, size - 8)), "little")
    try:
        footer, _ = _read_struct(source.read_at(length, max(0, size - 8 - length)), 0, 0)
        return [[_chunk_facts(chunk[3]) for chunk in group[1]] for group in footer[4]]
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError("the footer is damaged") from error


def _chunk_facts(facts: dict[int, Any]) -> ChunkFacts:
    first, dictionary = facts[9], facts.get(11) or 0
    path = ".".join(name.decode() for name in facts[3])
    return ChunkFacts(path, facts[1], facts[5], dictionary if 0 < dictionary < first else first)


def read_page_facts(chunks: Sequence[ChunkFacts], rows: int, source: Any, columns: Sequence[str] | None) -> PageFacts:
    """Read the headers of the pages of a row group of `rows` rows. `source`: the open file. `columns`: None for all.

    Cost: 15 microseconds a page. Raises ValueError for a damaged header.
    """
    chosen = None if columns is None else set(columns)
    total, longest, shared = 0, 1, []
    for chunk in chunks:
        path = chunk.path
        if chosen is not None and not any(start in chosen for start in _starts(path)):
            continue
        pages = list(_pages(source, chunk))
        values = sum(page.values for page in pages if not page.is_dictionary)
        repeated = max((page.unpacked for page in pages if page.shares_bytes), default=0)
        total += sum(page.unpacked for page in pages) + arrow_checks.VALUE_BYTES * values
        # Only a row of a list has several values.
        if values > rows and values * repeated > _BATCH_BYTES and chunk.kind == _BYTE_ARRAY:
            shared.append(path)
        else:
            longest = max(longest, repeated)
    return PageFacts(total, max(1, _BATCH_BYTES // longest), tuple(shared))


def _starts(path: str) -> Iterator[str]:
    """A path, and its beginnings before each dot: names may have dots."""
    yield path
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


def _pages(source: Any, chunk: ChunkFacts) -> Iterator[_Page]:
    at, values, size = chunk.first_page, 0, source.size()
    while values < chunk.values and 0 <= at < size:
        page = _read_header(source, at)
        at += page.size + page.packed
        values += 0 if page.is_dictionary else page.values
        yield page


def _read_header(source: Any, at: int) -> _Page:
    size = _HEADER_BYTES
    while True:
        data = source.read_at(size, at)
        try:
            return _parse_header(data)
        except IndexError:
            if len(data) < size or size >= _MAX_HEADER_BYTES:
                raise ValueError("the header of a page is damaged") from None
            size *= 16


def _parse_header(data: bytes) -> _Page:
    fields, end = _read_struct(data, 0, 0)
    inner: dict[int, Any] = next((fields[number] for number in (5, 8, 7) if isinstance(fields.get(number), dict)), {})
    kind, unpacked, packed, values = numbers = [fields.get(1), fields.get(2), fields.get(3), inner.get(1, 0)]
    if not all(isinstance(number, int) and 0 <= number < 1 << 31 for number in numbers):
        raise ValueError("the header of a page is damaged")
    is_dictionary = kind == _DICTIONARY_PAGE
    is_delta = inner.get(4 if 8 in fields else 2) == _DELTA_BYTE_ARRAY
    return _Page(end, packed, unpacked, values, is_dictionary, is_dictionary or is_delta)


def _read_struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """The values of a Thrift struct by field. Raises IndexError if the data end, ValueError if damaged."""
    if depth > _MAX_THRIFT_DEPTH:
        raise ValueError("the metadata are nested too deeply")
    fields, number = dict[int, Any](), 0
    while head := data[at]:
        at += 1
        kind, step = head & 15, head >> 4
        if step:
            number += step
        else:
            number, at = _read_integer(data, at)
        if kind in _BOOLEANS:
            fields[number] = kind == _BOOLEANS[0]
        else:
            fields[number], at = _read_value(data, at, kind, depth)
    return fields, at + 1


def _read_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _INTEGERS:
        return _read_integer(data, at)
    if kind == _STRUCT:
        return _read_struct(data, at, depth + 1)
    if kind == _BINARY:
        size, at = _read_varint(data, at)
        return data[at : at + size], at + size
    if kind in (_BYTE, _DOUBLE):
        return None, at + (1 if kind == _BYTE else 8)
    if kind not in _LISTS or depth > _MAX_THRIFT_DEPTH:
        raise ValueError("the header of a page is damaged")
    head, at = data[at], at + 1
    count = head >> 4
    if count == 15:
        count, at = _read_varint(data, at)
    values = []
    for _ in range(count):
        data[at]  # raises at the end of the data
        value, at = (None, at + 1) if head & 15 in _BOOLEANS else _read_value(data, at, head & 15, depth + 1)
        values.append(value)
    return values, at


def _read_integer(data: bytes, at: int) -> tuple[int, int]:
    number, at = _read_varint(data, at)
    return number >> 1 ^ -(number & 1), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError("the header of a page is damaged")
