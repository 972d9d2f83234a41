"""What the loader asks of an index: where every part of every sample is. The seam for other indexes than ours.

`wdsctl.core.offsets.Offsets` is the one that `prepare` makes. Another one, read from Energon's files or parsed from
headers on the spot, needs these arrays and nothing else: rows are samples, in shard order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class IndexedShard(Protocol):
    @property
    def id(self) -> int: ...

    @property
    def path(self) -> str:
        """Relative to the dataset's root."""

    @property
    def size(self) -> int:
        """Bytes: a file of another size is not the one that was indexed."""

    @property
    def samples(self) -> int: ...

    @property
    def layout_hash(self) -> str:
        """Equal for shards in which everything is in the same place."""


class Columns(Protocol):
    """Those of a `ShardIndex` that readers of samples need."""

    @property
    def key_start(self) -> Ints: ...

    @property
    def key_text(self) -> memoryview: ...

    @property
    def layout(self) -> NDArray[np.uint32] | None: ...

    @property
    def part_start(self) -> Ints | None: ...

    @property
    def part_offset(self) -> Ints: ...

    @property
    def part_size(self) -> Ints: ...


class ShardIndex(Protocol):
    @property
    def generation(self) -> int:
        """Which state of the dataset this is."""

    @property
    def shards(self) -> Sequence[IndexedShard]: ...

    @property
    def layouts(self) -> Sequence[tuple[str, ...]]:
        """The lists of part names that samples have, in tar order."""

    @property
    def shard_row(self) -> Ints:
        """(shards + 1,): the row of each shard's first sample."""

    @property
    def key_start(self) -> Ints:
        """(samples + 1,): where each key begins in `key_text`."""

    @property
    def key_text(self) -> memoryview:
        """All keys, UTF-8."""

    @property
    def layout(self) -> NDArray[np.uint32] | None:
        """(samples,): index into `layouts`; None where all samples have the first."""

    @property
    def part_start(self) -> Ints | None:
        """(samples + 1,): the first part of each sample; None where all samples have one layout."""

    @property
    def part_offset(self) -> Ints:
        """(parts,): bytes from the start of the shard."""

    @property
    def part_size(self) -> Ints:
        """(parts,): bytes."""

    def checked(self, rows: Ints) -> Columns:
        """The columns, of which only what these rows have may be used: it is what was written. Raises CatalogError."""

    def shard_of(self, row: int) -> int:
        """The index in `shards` of the shard that a sample is in."""

    def key(self, row: int) -> str: ...

    def parts(self, row: int) -> list[tuple[str, int, int]]:
        """(part name, offset in the shard, size) of one sample, in tar order."""
