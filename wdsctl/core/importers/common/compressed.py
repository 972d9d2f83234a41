"""Read compressed files as streams of their content: gzip, bzip2 and xz, and with pyarrow zstd and lz4.

The content has no random access: starting in the middle decompresses everything before. Nothing is written to disk.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import IO, Any, BinaryIO, cast

from wdsctl.core.dataset.shard_names import UNPACK_COMMANDS
from wdsctl.core.errors import DatasetError, translate_os_errors
from wdsctl.core.file_limits import RAISE_LIMITS_HINT, ROW_BYTES, stream_limit, unpacked_size_error
from wdsctl.core.importers.common.arrow import import_arrow_module
from wdsctl.core.importers.protocol import damaged_file_error
from wdsctl.core.storage import source_files
from wdsctl.core.tar_header import COMPRESSION_HEAD_BYTES, detect_compression

#: What decompressing a truncated or damaged stream raises. OSError: also an error of reading the file.
DAMAGE_ERRORS = (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)

_OPENERS: MappingProxyType[str, Callable[[BinaryIO], Any]] = MappingProxyType(
    {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
)
_CHUNK_BYTES = 1 << 20


def detect_file_compression(path: str) -> str:
    """The compression of a file by its first bytes, such as `gzip`; empty if there is none. Raises OSError."""
    return detect_compression(source_files.read_start(path, COMPRESSION_HEAD_BYTES))


def open_decompressed(path: str) -> IO[bytes]:
    """Open the content of a file, compressed or not. Reading raises one of `DAMAGE_ERRORS` where the stream is cut off.

    Raises OSError, UsageError WDS236 if the compression needs pyarrow and it is missing.
    """
    packed = detect_file_compression(path)
    if not packed:
        return source_files.open_file(path)
    open_stream = _OPENERS.get(packed)
    if open_stream is None:
        arrow = import_arrow_module("pyarrow", f"{packed} compression")
        open_stream = partial(arrow.input_stream, compression=packed)
    file = source_files.open_file(path)
    try:
        return cast("IO[bytes]", _Decompressor(open_stream(file), file, path))
    except BaseException:  # also on Ctrl-C: no caller can close the file yet
        file.close()
        raise


class _Decompressor:
    """A stream of the content of a file that closes the file, which the libraries' streams leave open.

    Reading raises DatasetError WDS233 if more comes out of the file than `stream_limit` allows.
    """

    def __init__(self, stream: Any, file: BinaryIO, path: str) -> None:
        self._stream = stream
        self._file = file
        self._path = path
        self._allowed = self._left = stream_limit(source_files.stat_file(path).size)

    def read(self, size: int) -> bytes:
        data: bytes = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _unpacked_error(self._allowed, self._path)
        return data

    def __enter__(self) -> _Decompressor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._file:
            self._stream.close()


def open_text_file(path: str, offset: int = 0) -> BinaryIO:
    """Open a text file, compressed or not, at byte `offset` of its content.

    Reading raises DatasetError WDS233 if the file is truncated or damaged. Cost: decompresses what precedes `offset`.
    """
    if not detect_file_compression(path):
        file = source_files.open_file(path)
        file.seek(offset)
        return file
    stream = io.BufferedReader(_Decompressed(open_decompressed(path), path), _CHUNK_BYTES)
    while offset and (skipped := len(stream.read(min(offset, _CHUNK_BYTES)))):
        offset -= skipped
    return stream


def strip_compression(name: str) -> str:
    """The name without the ending of a compression: `a.jsonl` for `a.jsonl.gz`."""
    ending = next((ending for ending in UNPACK_COMMANDS if name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending)]


class _Decompressed(io.RawIOBase):
    """A stream of lines whose reading raises DatasetError WDS233 for damage, and for too many lines."""

    def __init__(self, stream: IO[bytes], path: str) -> None:
        super().__init__()
        self._stream = stream
        self._path = path
        self._allowed = stream_limit(source_files.stat_file(path).size)
        self._lines_left = self._allowed // ROW_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except OSError as error:
            if error.errno is not None:  # the file cannot be read; damage has no number
                with translate_os_errors(self._path, "read"):
                    raise
            raise damaged_file_error(f"it is truncated or damaged: {error}", self._path) from error
        except DAMAGE_ERRORS as error:
            raise damaged_file_error(f"it is truncated or damaged: {error}", self._path) from error
        self._lines_left -= data.count(b"\n")
        if self._lines_left < 0:
            raise _unpacked_error(self._allowed, self._path)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _unpacked_error(allowed: int, path: str) -> DatasetError:
    return unpacked_size_error(allowed, path, hint=f"unpack it first; or {RAISE_LIMITS_HINT}")
