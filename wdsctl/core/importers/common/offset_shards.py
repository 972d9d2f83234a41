"""Read shards that begin with a table of offsets, as in MDS and LitData: a count, the offsets, then the samples.

All numbers have 32 bits, little-endian. Offsets count from the start of the file; their number is that of the samples
plus one. One shard is open at a time. A compressed shard is decompressed as a whole, up to the size in the index.
"""

from __future__ import annotations

import bz2
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from mmap import mmap
from typing import Any, NamedTuple

from wdsctl.core.errors import DatasetError, UsageError, WdsctlError, translate_os_errors
from wdsctl.core.file_limits import MAX_TABLE_BYTES, check_whole_size, held_limit, unpacked_size_error
from wdsctl.core.importers.common import arrow
from wdsctl.core.importers.common.samples import SourceRow
from wdsctl.core.importers.protocol import damaged_file_error
from wdsctl.core.shards.in_place.errors import ShardFormatError
from wdsctl.core.shards.in_place.ranges import read_offset_table
from wdsctl.core.storage import source_files
from wdsctl.core.storage.source_files import RandomAccess
from wdsctl.core.text import path_for_message


class OffsetShard:
    """One uncompressed shard, in memory or mapped."""

    def __init__(self, data: RandomAccess, path: str, samples: int) -> None:
        """Raises DatasetError WDS233 if the table does not match the shard's bytes or the index's count of samples."""
        self._data = data
        self.path = path
        try:
            offsets = read_offset_table(lambda at, size: data[at : at + size], len(data), samples)
        except ShardFormatError as error:
            raise self.damaged(error.message) from error
        self._offsets = offsets.tolist()

    @property
    def samples(self) -> int:
        return len(self._offsets) - 1

    def sample(self, row: int) -> bytes:
        return self._data[self._offsets[row] : self._offsets[row + 1]]

    def fields(self, row: int, sizes: Sequence[int | None]) -> list[bytes]:
        """The fields of a sample. `sizes`: bytes of each field; None if the sample stores the size itself."""
        return split_fields(self.sample(row), sizes, f"{path_for_message(self.path)}, sample {row:,}")

    def damaged(self, what: str) -> DatasetError:
        return damaged_file_error(what, self.path, copied="file")


def map_shard_file(path: str) -> RandomAccess:
    """Map a file into memory; its pages are read when they are used."""
    with translate_os_errors(path, "read"):
        return source_files.map_source(path)


def split_fields(data: bytes, sizes: Sequence[int | None], where: str) -> list[bytes]:
    """Split a sample into fields. Raises DatasetError WDS232 if the sizes do not add up to the sample's size.

    The data begin with the sizes of the fields whose entry in `sizes` is None.
    """
    open_sizes = sum(size is None for size in sizes)
    head = 4 * open_sizes
    stored_sizes = iter(struct.unpack_from(f"<{open_sizes}I", data) if len(data) >= head else ())
    each = [next(stored_sizes, 0) if size is None else size for size in sizes]
    if head + sum(each) != len(data):
        raise DatasetError(
            f"the sizes of the fields add up to {head + sum(each):,} bytes, but the sample has {len(data):,}",
            hint="copy the shard again from its origin",
            where=where,
            code="WDS232",
        )
    fields = []
    for size in each:
        fields.append(data[head : head + size])
        head += size
    return fields


class IndexedShardFile(NamedTuple):
    """One shard of an index. `open` opens the shard; `decode` turns one of its samples into the values of a row.

    `split`: the split of its samples, which is the beginning of their keys, too; empty for none. `stem`: the path of
    the shard in its folder, without extensions, for keys that are numbers of rows.
    """

    path: str
    samples: int
    open: Callable[[], OffsetShard]
    decode: Callable[[OffsetShard, int], Mapping[str, Any]]
    split: str = ""
    stem: str = ""


class IndexedShardRows:
    """The rows of all shards of some indexes. Does not open shards that end before the first requested row."""

    def __init__(self, indexes: Sequence[str], shards: Sequence[IndexedShardFile]) -> None:
        self._indexes = indexes
        self._shards = shards

    def rows(self, start: int) -> Iterator[SourceRow]:
        first = 0
        for shard in self._shards:
            # Open shards that are empty by the index, too: opening a shard checks the count in the index.
            if first + max(1, shard.samples) > start:
                opened = shard.open()
                for row in range(max(0, start - first), shard.samples):
                    yield _make_row(first + row, shard, opened, row)
            first += shard.samples

    def files(self) -> list[str]:
        return [*self._indexes, *(shard.path for shard in self._shards)]

    def close(self) -> None:
        """Do nothing: shards are open only while rows are read."""


def _make_row(number: int, shard: IndexedShardFile, opened: OffsetShard, row: int) -> SourceRow:
    where = f"{path_for_message(shard.path)}, sample {row:,}"
    prefix = f"{shard.split}/" if shard.split else ""
    empty = SourceRow(number, where, {}, prefix=prefix, split=shard.split, file_key=f"{prefix}{shard.stem}/{row}")
    try:
        return empty._replace(values=shard.decode(opened, row))
    except WdsctlError as error:
        return empty._replace(fault=error)
    except (ValueError, IndexError, LookupError, TypeError, ArithmeticError, RecursionError, struct.error) as error:
        fault = DatasetError(
            f"a field cannot be decoded: {error}",
            hint="copy the shard again from its origin",
            where=empty.where,
            code="WDS232",
        )
        return empty._replace(fault=fault)


#: Name in an index -> name in pyarrow, which reads what Python's library cannot.
_ARROW_CODECS = {"zstd": "zstd", "br": "brotli"}
COMPRESSIONS = ("zstd", "gz", "bz2", "br", "snappy")


_MAX_SHARD_BYTES = 1 << 32  # offsets have 32 bits


def read_packed(path: str) -> bytes | memoryview:
    """The bytes of a compressed shard; of a local one, read when they are used. Raises InputError WDS421."""
    data = map_shard_file(path)
    check_whole_size(len(data), path, MAX_TABLE_BYTES)
    return memoryview(data) if isinstance(data, mmap) else data[:]


def decompress(data: bytes | memoryview, algorithm: str, size: int | None, path: str) -> bytes:
    """Decompress `data` to exactly `size` bytes, or, if it is None, to at most what `held_limit` allows.

    `algorithm` may end with a level after a colon.

    Raises DatasetError WDS233 if the data are damaged, or decompress to more or fewer bytes; WDS234 if the algorithm is
    unknown; UsageError WDS236 if it needs pyarrow, which is not installed.
    """
    kind = algorithm.partition(":")[0]
    if kind not in COMPRESSIONS:
        raise DatasetError(
            f"unknown compression {algorithm!r}",
            hint=f"wdsctl reads {', '.join(COMPRESSIONS)}",
            where=path_for_message(path),
            code="WDS234",
        )
    if size is not None and not 0 <= size <= _MAX_SHARD_BYTES:
        raise _damaged_error(f"it has {size:,} bytes unpacked, too many for its 32-bit offsets", path)
    limit = held_limit(len(data))
    if size is not None and size > limit:
        raise unpacked_size_error(limit, path)
    try:
        plain = _read_decompressed(data, kind, limit if size is None else size)
    except UsageError:
        raise
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise _damaged_error(str(error), path) from error
    if size is None and len(plain) > limit:
        raise unpacked_size_error(limit, path)
    if size is not None and len(plain) != size:
        raise _damaged_error(f"it unpacks to {len(plain):,} bytes or more, not {size:,}", path)
    return plain


def _read_decompressed(data: bytes | memoryview, kind: str, size: int) -> bytes:
    """Decompress at most `size + 1` bytes: the caller detects data that are too long, at no cost in memory."""
    if kind in ("gz", "bz2"):
        unpacker = zlib.decompressobj(wbits=31) if kind == "gz" else bz2.BZ2Decompressor()
        plain = unpacker.decompress(data, size + 1)
        if len(plain) <= size and not unpacker.eof:
            raise EOFError("it is truncated")
        return plain
    library: Any = arrow.import_arrow_module("pyarrow", f"{kind} compression")
    if kind == "snappy":
        if _snappy_size(data) != size:  # pyarrow pads data that are too short
            raise ValueError(f"expected {size:,} bytes after decompression, found {_snappy_size(data):,}")
        return bytes(library.decompress(data, size, "snappy", asbytes=True))
    with library.CompressedInputStream(library.BufferReader(data), _ARROW_CODECS[kind]) as stream:
        return bytes(stream.read(size + 1))


def _snappy_size(data: bytes | memoryview) -> int:
    """The size at the beginning of raw Snappy data, a varint; -1 if invalid.

    Source: google/snappy, format_description.txt.
    """
    size = 0
    for index, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return size
    return -1


def _damaged_error(why: str, path: str) -> DatasetError:
    return damaged_file_error(f"the compressed file is damaged: {why}", path, copied="file")
