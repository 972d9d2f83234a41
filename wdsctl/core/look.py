"""Looks at some samples of a dataset: evidence for what they are. Reads a few parts from several shards, never all."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.catalog.totals import PartCount
from wdsctl.core.evidence import Evidence, PartEvidence
from wdsctl.core.offsets import Offsets
from wdsctl.core.storage import Range, Storage

SHARDS = 8  # looked into, spread over the dataset
SAMPLES = 4  # of each, spread over the shard
OFTEN = 0.05  # the share of samples from which on a part is looked at, in further samples where need be
HEAD = 64 << 10  # bytes read of a part
WHOLE = 1 << 20  # bytes up to which a part that looks like JSON is read whole


def gather(root: str, offsets: Offsets, parts: list[PartCount], storage: Storage) -> Evidence:
    """Evidence from the counts of the catalog and the contents of up to 32 samples, and four for a part they lack."""
    heads: dict[str, list[tuple[bytes, int]]] = {part.name: [] for part in parts}
    often = [part.name for part in parts if part.samples >= OFTEN * offsets.samples]
    paths = {row: os.path.join(root, offsets.shards[offsets.shard_of(row)].path) for row in _rows(offsets, often)}
    # One may have vanished, its rows kept.
    there = {path for path in set(paths.values()) if storage.exists(path)}
    rows = [(row, path) for row, path in paths.items() if path in there]
    storage.will_need(Range(path, at, min(size, HEAD)) for row, path in rows for _, at, size in offsets.parts(row))
    for row, path in rows:
        for name, offset, size in offsets.parts(row):
            head = storage.read(path, offset, min(size, HEAD))
            if len(head) < size <= WHOLE and head.lstrip()[:1] in (b"{", b"["):
                head = storage.read(path, offset, size)
            heads[name].append((head, size))
    return Evidence(
        offsets.samples,
        tuple(
            PartEvidence(
                part.name,
                part.samples,
                tuple(head for head, _ in heads[part.name]),
                tuple(size for _, size in heads[part.name]),
            )
            for part in parts
        ),
    )


def _rows(offsets: Offsets, often: Iterable[str]) -> list[int]:
    filled = [i for i, shard in enumerate(offsets.shards) if shard.samples]
    shards = {filled[i] for i in np.linspace(0, len(filled) - 1, SHARDS).astype(int).tolist()} if filled else set()
    ranges = [(int(offsets.shard_row[shard]), int(offsets.shard_row[shard + 1])) for shard in sorted(shards)]
    rows = {first + place for first, end in ranges for place in _spread(end - first)}
    if offsets.layout is not None:
        for name in often:
            having = [i for i, names in enumerate(offsets.layouts) if name in names]
            if not np.isin(offsets.layout[sorted(rows)], having).any():
                rows |= _having(offsets.layout, having, ranges)
    return sorted(rows)


def _having(layout: NDArray[np.uint32], wanted: list[int], ranges: Iterable[tuple[int, int]]) -> set[int]:
    """Some rows of these layouts, of the first of the ranges that has any."""
    for first, end in ranges:
        found = np.flatnonzero(np.isin(layout[first:end], wanted))
        if found.size:
            return {first + int(found[place]) for place in _spread(found.size)}
    return set()


def _spread(count: int) -> list[int]:
    """SAMPLES places of `count`, from the first to the last."""
    places: list[int] = np.linspace(0, count - 1, SAMPLES).astype(int).tolist()
    return places
