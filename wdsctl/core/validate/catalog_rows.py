"""Level `structure`: whether the offsets file and the rows of samples have the positions that a shard has.

`index` writes both from one scan, but the files may come from elsewhere, or from a failing disk. Cost: 1.5 µs per
sample with rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import numpy as np

from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.rows import sample_rows
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.errors import Finding
from wdsctl.core.offsets.read import ShardColumns, open_cached_offsets
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.shards.shard_scan import ShardScan
from wdsctl.core.tar_header import TAR_BLOCK_BYTES

_ROWS = 'SELECT id, "key", "offset", size, parts FROM sample WHERE id >= ? AND id < ? ORDER BY id'


def scan_of_offsets(offsets_path: str, row: ShardRow) -> ShardScan:
    """What a scan of a plain tar would find that has the layout in the offsets file (`is_as_indexed`)."""
    offsets = open_cached_offsets(offsets_path)
    i = next(i for i, shard in enumerate(offsets.shards) if shard.id == row.id)
    columns = offsets.shard_columns(i, {name: number for number, name in enumerate(offsets.extensions)})
    last = np.cumsum(columns.counts, dtype=np.int64) - 1
    starts = columns.part_offsets[np.append(0, last[:-1] + 1)] - TAR_BLOCK_BYTES
    ends = columns.part_offsets[last] + columns.part_sizes[last]
    return ShardScan(
        status="ok",
        keys=columns.keys,
        key_sizes=columns.key_sizes,
        offsets=starts,
        sizes=ends - ends % -TAR_BLOCK_BYTES - starts,
        counts=columns.counts,
        extensions=tuple(offsets.extensions),
        part_names=columns.part_names.astype(np.uint32),
        part_offsets=columns.part_offsets,
        part_sizes=columns.part_sizes,
        findings=(),
    )


def check_offsets(offsets_path: str, row: ShardRow, scan: ShardScan) -> Iterator[Finding]:
    """A finding if the offsets file has another path or layout of a shard than the catalog, whose hash the scan has."""
    offsets = open_cached_offsets(offsets_path)
    i = next((i for i, shard in enumerate(offsets.shards) if shard.id == row.id), None)
    names = {name: number for number, name in enumerate(scan.extensions)}
    others = dict.fromkeys(offsets.extensions, len(names))  # no part of the scan has this number
    if (
        i is None
        or offsets.shards[i].path != row.path
        or not _are_equal(offsets.shard_columns(i, others | names), scan)
    ):
        yield Finding(
            code="WDS302",
            severity="error",
            message="the offsets file of the catalog has another path, other keys, parts or positions than the shard",
            shard=row.path,
        )


def _are_equal(columns: ShardColumns, scan: ShardScan) -> bool:
    names = ("key_sizes", "counts", "part_names", "part_offsets", "part_sizes")
    return columns.keys == scan.keys and all(
        np.array_equal(getattr(columns, name), getattr(scan, name)) for name in names
    )


def check_rows(catalog: Catalog, row: ShardRow, scan: ShardScan) -> Iterator[Finding]:
    """A finding for the samples of a shard whose rows in the catalog differ from its scan."""
    if not catalog.has_sample_rows:
        return
    numbers = dict(catalog.rows("SELECT name, id FROM ext"))
    known = np.array([numbers.get(name, -1) for name in scan.extensions], np.int64)
    first = row.id << INDEX_BITS
    rows = catalog.iter_rows(_ROWS, first, first + (1 << INDEX_BITS))
    pairs = zip_longest(sample_rows(row.id, scan, known), rows)
    count, first_wrong = 0, None
    for expected, actual in pairs:
        if expected != actual:
            count, first_wrong = count + 1, first_wrong or expected
    if count:
        yield Finding(
            code="WDS302",
            severity="error",
            message="samples whose rows in the catalog have other keys, parts or positions than the shard",
            shard=row.path,
            key=first_wrong[1] if first_wrong else "",
            offset=first_wrong[2] if first_wrong else None,
            count=count,
        )
