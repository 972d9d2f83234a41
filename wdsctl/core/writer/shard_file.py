"""Write one shard sample by sample, with the bytes that `prepare` writes for the same files. It is whole or absent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import cast

from wdsctl.core.errors import wdsctl_error_from
from wdsctl.core.files import create_in, open_file_draft, write_all
from wdsctl.core.importers.protocol import FilePart, Part
from wdsctl.core.shards.write import WRITE_BUFFER_BYTES, BufferedWriter
from wdsctl.core.tar_header import END_OF_ARCHIVE, TAR_BLOCK_BYTES, build_tar_header

_GAPS = [bytes(length) for length in range(TAR_BLOCK_BYTES)]

#: A sample as it stands in a tar: pieces of bytes, and large files at their places.
Members = list[bytes | FilePart]


def sample_members(key: str, parts: Sequence[Part | FilePart]) -> tuple[Members, int]:
    """The members of a sample and their bytes in the tar, with headers and padding. Small samples are one piece."""
    pieces: Members = []
    total = 0
    for part in parts:
        data: bytes | FilePart = part if isinstance(part, FilePart) else part.data
        size = data.size if isinstance(data, FilePart) else len(data)
        header, gap = build_tar_header(f"{key}.{part.name}".encode(), size), _GAPS[-size % TAR_BLOCK_BYTES]
        pieces += (header, data, gap)
        total += len(header) + size + len(gap)
    if total < WRITE_BUFFER_BYTES:  # has no files: those are larger
        pieces = [b"".join(cast("list[bytes]", pieces))]
    return pieces, total


class ShardFile:
    """A shard under a temporary name. Call `publish` or `discard` at the end."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.samples = 0
        self.size_bytes = len(END_OF_ARCHIVE)
        with ExitStack() as stack:
            self._draft = stack.enter_context(open_file_draft(path))
            self._descriptor = create_in(self._draft.folder, self._draft.name)
            stack.callback(os.close, self._descriptor)
            self._stack = stack.pop_all()
        self._out = BufferedWriter(self._write, self._descriptor)

    def add(self, pieces: Members, size_bytes: int) -> None:
        """Append the members of one sample. After an error, the shard can only be discarded."""
        for piece in pieces:
            if isinstance(piece, bytes):
                self._out.add(piece)
            else:
                self._out.flush()
                piece.copy_to(self._descriptor)
        self.samples += 1
        self.size_bytes += size_bytes

    def publish(self) -> None:
        """End the tar, sync it, and give it its name."""
        self._out.add(END_OF_ARCHIVE)
        self._out.flush()
        self._draft.publish()
        self._stack.close()

    def discard(self) -> None:
        self._stack.close()

    def _write(self, data: bytes) -> None:
        try:
            write_all(self._descriptor, data)
        except OSError as error:
            raise wdsctl_error_from(error, self.path, "write") from error
