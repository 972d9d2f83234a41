"""Shards that begin with a table of offsets, as MDS and LitData have them: a count, offsets, then the samples.

All numbers are 32 bits, little-endian. Offsets are from the start of the file; there is one more than samples.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence

import numpy as np

from wdsctl.core.errors import DatasetError
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named
from wdsctl.core.regular_file import regular


class OffsetShard:
    """One shard, in memory or mapped."""

    def __init__(self, data: bytes | mmap.mmap, path: str, samples: int) -> None:
        """Raises DatasetError WDS233 where the table does not fit the bytes, or the index's count."""
        self._data = data
        self.path = path
        table = 4 * (samples + 2)
        if len(data) < table or struct.unpack_from("<I", data)[0] != samples:
            count = struct.unpack_from("<I", data)[0] if len(data) >= 4 else 0
            raise self.damaged(f"it has {count:,} samples in {len(data):,} bytes, and its index says {samples:,}")
        offsets = np.frombuffer(data[4:table], "<u4").astype(np.int64)
        if offsets[0] < table or (np.diff(offsets) < 0).any() or offsets[-1] > len(data):
            raise self.damaged(f"its table of offsets does not fit its {len(data):,} bytes")
        self._offsets = offsets.tolist()

    @property
    def samples(self) -> int:
        return len(self._offsets) - 1

    def sample(self, row: int) -> bytes:
        return self._data[self._offsets[row] : self._offsets[row + 1]]

    def fields(self, row: int, sizes: Sequence[int | None]) -> list[bytes]:
        """The fields of a sample. `sizes`: of each; those of None stand before the fields, as numbers."""
        return cut(self.sample(row), sizes, f"{named(self.path)}, sample {row:,}")

    def damaged(self, what: str) -> DatasetError:
        return DatasetError(what, hint="copy it again from its origin", where=named(self.path), code="WDS233")


def mapped(path: str) -> bytes | mmap.mmap:
    """The bytes of a file, read when they are looked at."""
    with translated(path, "read"), open(path, "rb", opener=regular) as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.seek(0, 2) else b""


def cut(data: bytes, sizes: Sequence[int | None], where: str) -> list[bytes]:
    """A sample's fields. Raises DatasetError WDS232 where their sizes do not add up to its own."""
    open_sizes = sum(size is None for size in sizes)
    head = 4 * open_sizes
    said = iter(struct.unpack_from(f"<{open_sizes}I", data) if len(data) >= head else ())
    each = [next(said, 0) if size is None else size for size in sizes]
    if head + sum(each) != len(data):
        raise DatasetError(
            f"the fields have {head + sum(each):,} bytes, and the sample {len(data):,}",
            hint="copy the shard again from its origin",
            where=where,
            code="WDS232",
        )
    fields = []
    for size in each:
        fields.append(data[head : head + size])
        head += size
    return fields
