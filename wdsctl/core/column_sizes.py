"""The column `size:PART`: bytes of a part, from the offsets file alone."""

from __future__ import annotations

import numpy as np

from wdsctl.core.offsets import Offsets
from wdsctl.core.shard_index import Ints


def sizes_of(offsets: Offsets, rows: slice, part: str) -> Ints:
    """(rows,): bytes of the part in each of these samples; 0 where one lacks it, and of its last where it has two."""
    columns = offsets.checked_range(rows.start, rows.stop)
    places = np.array([_last(layout, part) for layout in offsets.layouts] or [-1], np.int64)
    if columns.layout is None or columns.part_start is None:
        width = len(offsets.layouts[0]) if offsets.layouts else 0
        first = np.arange(rows.start, rows.stop, dtype=np.int64) * width
        place = np.full(len(first), places[0])
    else:
        first = columns.part_start[rows]
        place = places[columns.layout[rows]]
    has = place >= 0
    found = np.zeros(len(first), np.int64)
    found[has] = columns.part_size[first[has] + place[has]]
    return found


def _last(layout: tuple[str, ...], part: str) -> int:
    return max((i for i, name in enumerate(layout) if name == part), default=-1)
