"""Read the messages of Arrow files and streams into memory, each once, and check what they say before pyarrow reads it.

pyarrow would map a local file, and another program could change the offsets in it after they were checked.

Source: https://arrow.apache.org/docs/format/Columnar.html (encapsulated messages, IPC files, compressed buffers), and
Message.fbs and File.fbs in https://github.com/apache/arrow/tree/main/format.
"""

from __future__ import annotations

import io
import os
import struct
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from wdsctl.core.errors import DatasetError
from wdsctl.core.file_limits import RAISE_LIMITS_HINT, scale_limit
from wdsctl.core.importers.common.arrow_checks import check_allowed_bytes
from wdsctl.core.text import path_for_message

MAX_METADATA_BYTES = 64 << 20  # of a message, and of the footer of a file
MAX_BODY_BYTES = 4 << 30  # of a message: the values of a record batch

_FILE_MAGIC = b"ARROW1"  # at both ends of a file
_FIRST_MESSAGE = 8  # where it is in a file
_CONTINUATION = b"\xff\xff\xff\xff"  # since Arrow 0.15, before the length of the metadata
_END_OF_STREAM = _CONTINUATION + bytes(4)  # every writer since Arrow 0.15 ends a stream with these bytes

#: Kinds of messages, and numbers of fields in the flatbuffers of a message, its batches, and the footer of a file.
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_MESSAGE_KIND, _MESSAGE_HEADER, _MESSAGE_BODY_BYTES = 1, 2, 3
_DICTIONARY_DATA = 1
_BATCH_ROWS, _BATCH_BUFFERS, _BATCH_COMPRESSION = 0, 2, 3
_FOOTER_DICTIONARIES, _FOOTER_BATCHES = 2, 3
_OLD_COMPRESSION = b"ARROW:experimental_compression"  # by Arrow 0.17


class _Head(NamedTuple):
    """A message without its body. `data`: as in the file, with the length before the metadata."""

    data: bytes
    metadata: memoryview
    kind: int
    batch: int  # where the table of the batch is in the metadata; 0 if there is none
    body_bytes: int


class CheckedMessages(io.RawIOBase):
    """A stream for pyarrow's reader: the schema, all dictionaries, and the record batches with rows after the first
    `start`. Others are skipped, and counted in `skipped_rows`.

    `read` raises ValueError and struct.error for a damaged file, and DatasetError WDS233 for one that exceeds a limit.
    """

    def __init__(self, file: BinaryIO, path: str, allowed: int, start: int = 0) -> None:
        super().__init__()
        self.skipped_rows = 0
        self._file = file
        self._path = path
        self._allowed = allowed
        self._size = file.seek(0, os.SEEK_END)
        self._pieces: deque[memoryview] = deque()
        self._messages = self._iter_messages(start)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes | memoryview:
        """The next bytes; fewer than `size` only at the end of the stream."""
        parts = []
        while size:
            if not self._pieces:
                message = next(self._messages, None)
                if message is None:
                    break
                self._pieces.extend(memoryview(piece) for piece in message if piece)
                continue
            piece = self._pieces.popleft()
            if 0 <= size < len(piece):
                self._pieces.appendleft(piece[size:])
                piece = piece[:size]
            parts.append(piece)
            size -= len(piece) if size > 0 else 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _iter_messages(self, start: int) -> Iterator[tuple[bytes, ...]]:
        """The messages, each as head and body."""
        self._file.seek(0)
        is_file = self._file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
        row = 0
        for head in self._iter_file() if is_file else self._iter_stream():
            if head.kind == _RECORD_BATCH:
                rows = _read_number(head.metadata, head.batch, _BATCH_ROWS)
                row += rows
                if row <= start:
                    self.skipped_rows += rows
                    continue
            body = self._read(head.body_bytes)
            _check_sizes(head, memoryview(body), self._path, self._allowed)
            yield head.data, body
        yield (_END_OF_STREAM,)

    def _iter_stream(self) -> Iterator[_Head]:
        """The messages, with the file after each head."""
        place = 0
        while (head := self._read_head(place)) is not None:
            yield head
            place += len(head.data) + head.body_bytes
        if place + len(_END_OF_STREAM) != self._size:
            raise ValueError("the stream is truncated between two batches")

    def _iter_file(self) -> Iterator[_Head]:
        """The schema, the dictionaries and the record batches, which the footer lists."""
        tail = 4 + len(_FILE_MAGIC)
        self._file.seek(max(0, self._size - tail))
        length, magic = struct.unpack("<i6s", self._read(tail))
        if magic != _FILE_MAGIC or not 0 < length <= min(self._size - tail, MAX_METADATA_BYTES):
            raise ValueError("the end of the file is missing")
        self._file.seek(self._size - tail - length)
        footer = memoryview(self._read(length))
        table = _follow_offset(footer, 0)
        fields = [_find_field(footer, table, number) for number in (_FOOTER_DICTIONARIES, _FOOTER_BATCHES)]
        blocks = [place for at in fields if at for (place,) in _read_vector(footer, at, "<q16x")]
        for place in (_FIRST_MESSAGE, *blocks):
            head = self._read_head(place)
            if head is None:
                raise ValueError("a batch is missing")
            yield head

    def _read_head(self, place: int) -> _Head | None:
        """Read a message without its body. None at the end of a stream."""
        self._file.seek(place)
        prefix = self._read(4)
        if prefix == _CONTINUATION:
            prefix += self._read(4)
        (length,) = struct.unpack("<i", prefix[-4:])
        if not length:
            return None
        if not 0 < length <= MAX_METADATA_BYTES:
            raise ValueError("the length of a message is wrong")
        data = prefix + self._read(length)
        metadata = memoryview(data)[len(prefix) :]
        table = _follow_offset(metadata, 0)
        kind_at, batch_at = (_find_field(metadata, table, number) for number in (_MESSAGE_KIND, _MESSAGE_HEADER))
        kind = metadata[kind_at] if 0 < kind_at < len(metadata) else 0
        batch = 0
        if kind in (_DICTIONARY_BATCH, _RECORD_BATCH):
            if kind == _DICTIONARY_BATCH and batch_at:
                batch_at = _find_field(metadata, _follow_offset(metadata, batch_at), _DICTIONARY_DATA)
            if not batch_at:
                raise ValueError("a batch has no data")
            batch = _follow_offset(metadata, batch_at)
        body_bytes = _read_number(metadata, table, _MESSAGE_BODY_BYTES)
        if body_bytes > self._size:
            raise ValueError("a message ends after the file")
        if body_bytes > scale_limit(MAX_BODY_BYTES):
            raise DatasetError(
                f"a record batch has {body_bytes:,} bytes; the limit is {scale_limit(MAX_BODY_BYTES):,}",
                hint=f"write the file again with fewer rows per batch; or {RAISE_LIMITS_HINT}",
                where=path_for_message(self._path),
                code="WDS233",
            )
        return _Head(data, metadata, kind, batch, body_bytes)

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise ValueError("the file ends within a message")
        return data


def _check_sizes(head: _Head, body: memoryview, path: str, allowed: int) -> None:
    """Check what the compressed buffers of a message say about their size, before they are unpacked.

    Raises ValueError or struct.error for damaged metadata, DatasetError WDS233 for more than `allowed` bytes.
    """
    if not head.batch:
        return
    buffers_at = _find_field(head.metadata, head.batch, _BATCH_BUFFERS)
    is_packed = _find_field(head.metadata, head.batch, _BATCH_COMPRESSION) or _OLD_COMPRESSION in head.data
    if not buffers_at or not is_packed:
        return
    used = 0
    for offset, length in _read_vector(head.metadata, buffers_at, "<qq"):
        if offset < 0 or length < 0 or offset + length > len(body):
            raise ValueError("a buffer lies outside of its message")
        if length >= 8:
            used += max(0, struct.unpack_from("<q", body, offset)[0])
            check_allowed_bytes(used, allowed, path)


def _read_number(data: memoryview, table: int, number: int) -> int:
    """A number that counts something, of 64 bits; 0 if the table lacks the field."""
    at = _find_field(data, table, number)
    found: int = struct.unpack_from("<q", data, at)[0] if at else 0
    if found < 0:
        raise ValueError("a number is negative")
    return found


def _find_field(data: memoryview, table: int, number: int) -> int:
    """Where a field of a flatbuffer's table is; 0 if the table lacks the field."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    at = 4 + 2 * number
    if vtable < 0 or at + 2 > struct.unpack_from("<H", data, vtable)[0]:
        return 0
    inside = struct.unpack_from("<H", data, vtable + at)[0]
    return table + inside if inside else 0


def _follow_offset(data: memoryview, at: int) -> int:
    """Where the table or vector is to which the offset at `at` refers."""
    found: int = at + struct.unpack_from("<I", data, at)[0]
    return found


def _read_vector(data: memoryview, at: int, layout: str) -> Iterator[tuple[int, ...]]:
    """Yield the structs of the vector to which the offset at `at` refers."""
    vector = _follow_offset(data, at)
    for i in range(struct.unpack_from("<I", data, vector)[0]):
        yield struct.unpack_from(layout, data, vector + 4 + struct.calcsize(layout) * i)
