"""Looks at some samples of a dataset: evidence for what they are. Reads a few parts from several shards, never all."""

from __future__ import annotations

import os

import numpy as np

from wdsctl.core.catalog.totals import PartCount
from wdsctl.core.evidence import Evidence, PartEvidence
from wdsctl.core.offsets import Offsets
from wdsctl.core.storage import Range, Storage

SHARDS = 8  # looked into, spread over the dataset
SAMPLES = 4  # of each, spread over the shard
HEAD = 64 << 10  # bytes read of a part
WHOLE = 1 << 20  # bytes up to which a part that looks like JSON is read whole


def gather(root: str, offsets: Offsets, parts: list[PartCount], storage: Storage) -> Evidence:
    """Evidence from the counts of the catalog and the contents of up to 32 samples."""
    heads: dict[str, list[tuple[bytes, int]]] = {part.name: [] for part in parts}
    paths = {row: os.path.join(root, offsets.shards[offsets.shard_of(row)].path) for row in _rows(offsets)}
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


def _rows(offsets: Offsets) -> list[int]:
    filled = [i for i, shard in enumerate(offsets.shards) if shard.samples]
    shards = {filled[i] for i in np.linspace(0, len(filled) - 1, SHARDS).astype(int).tolist()} if filled else set()
    rows: set[int] = set()
    for shard in shards:
        first, last = int(offsets.shard_row[shard]), int(offsets.shard_row[shard + 1]) - 1
        rows |= set(np.linspace(first, last, SAMPLES).astype(int).tolist())
    return sorted(rows)
