"""Rows of the catalog from the columns of a scan, and back. Made in blocks, to bound memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.json_text import read_json
from wdsctl.core.offsets import ShardRows
from wdsctl.core.plain_members import Ints
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.shard_scan import ShardScan, texts

ROWS = 50_000  # samples turned into Python objects at a time

SampleRow: TypeAlias = tuple[int, str, int, int, str]


def sample_rows(shard_id: int, scan: ShardScan, numbers: Ints) -> Iterator[SampleRow]:
    """(id, key, offset, size, parts) of every sample. Some 0.5 µs a sample."""
    return chain.from_iterable(_blocks(shard_id, scan, numbers))


def _blocks(shard_id: int, scan: ShardScan, numbers: Ints) -> Iterator[Iterable[SampleRow]]:
    key_ends = np.append(0, np.cumsum(scan.key_sizes, dtype=np.int64))
    part_ends = np.append(0, np.cumsum(scan.counts, dtype=np.int64))
    named = numbers[scan.part_names]
    first_id = shard_id << INDEX_BITS
    for start in range(0, scan.samples, ROWS):
        rows = slice(start, min(start + ROWS, scan.samples))
        parts = slice(int(part_ends[start]), int(part_ends[rows.stop]))
        offsets, counts = scan.offsets[rows], scan.counts[rows]
        relative = scan.part_offsets[parts] - np.repeat(offsets, counts)
        yield zip(
            range(first_id + start, first_id + rows.stop),
            texts(scan.keys, key_ends[start : rows.stop + 1]),
            offsets.tolist(),
            scan.sizes[rows].tolist(),
            _as_json(named[parts], relative, scan.part_sizes[parts], counts),
            strict=True,
        )


def _as_json(names: Ints, offsets: Ints, sizes: Ints, counts: NDArray[np.uint32]) -> Iterable[str]:
    """[[ext, offset, size], ...] of each sample."""
    count = int(counts[0])
    if (counts == count).all():
        table = np.stack([names, offsets, sizes], axis=1).reshape(len(counts), 3 * count)
        return _alike(table)
    columns = zip(names.tolist(), offsets.tolist(), sizes.tolist(), strict=True)
    texts = [f"[{name},{offset},{size}]" for name, offset, size in columns]
    ends = np.cumsum(counts, dtype=np.int64).tolist()
    return ["[" + ",".join(texts[a:b]) + "]" for a, b in zip([0, *ends], ends, strict=False)]


def _alike(table: Ints) -> Iterable[str]:
    """The JSON of samples with equally many parts. What is the same in all rows goes into the form: half the time.

    Where one number differs, as of lines, each of its values is written once: there are far fewer than samples.
    """
    same = (table == table[0]).all(axis=0)
    fields = [str(value) if fixed else "%d" for value, fixed in zip(table[0].tolist(), same, strict=True)]
    form = "[" + ",".join("[" + ",".join(fields[i : i + 3]) + "]" for i in range(0, len(fields), 3)) + "]"
    differing = table[:, ~same].T
    if not len(differing):
        return [form] * len(table)
    if len(differing) > 1:
        return map(form.__mod__, zip(*differing.tolist(), strict=True))
    values, which = np.unique(differing[0], return_inverse=True)
    written = np.array([form % value for value in values.tolist()], np.object_)
    repeated: list[str] = written[which].tolist()
    return repeated


def part_counts(shard_id: int, scan: ShardScan, numbers: Ints) -> Iterator[tuple[int, int, int, int, int]]:
    """(shard, ext, samples, bytes, empty) of every part that the shard has."""
    if len(scan.part_names) == 0:
        return
    names = scan.part_names
    if any(finding.code == "WDS107" for finding in scan.findings):
        # A part that a sample has twice counts once: what is asked is how many samples have it.
        samples = np.repeat(np.arange(scan.samples), scan.counts)
        names = (np.unique((samples << 32) + names) & 0xFFFFFFFF).astype(np.uint32)
    if len(scan.extensions) == 1:
        filled = int(np.count_nonzero(scan.part_sizes))
        yield shard_id, int(numbers[0]), len(names), int(scan.part_sizes.sum()), len(scan.part_sizes) - filled
        return
    having = np.bincount(names, minlength=len(scan.extensions))
    sizes = np.bincount(scan.part_names, scan.part_sizes, len(scan.extensions))
    empty = np.bincount(scan.part_names, scan.part_sizes == 0, len(scan.extensions))
    for i, number in enumerate(numbers.tolist()):
        if having[i]:
            yield shard_id, number, int(having[i]), int(sizes[i]), int(empty[i])


def shard_rows(rows: Iterable[tuple[str, int, str]]) -> ShardRows:
    """The columns of a shard from the (key, offset, parts) of its samples, in their order. About 2 µs a sample."""
    keys: list[bytes] = []
    counts: list[int] = []
    parts: list[tuple[int, int, int]] = []
    for key, offset, text in rows:
        told = read_json(text)
        keys.append(key.encode())
        counts.append(len(told))
        parts += [(name, offset + at, size) for name, at, size in told]
    names, offsets, sizes = np.array(parts, np.int64).reshape(-1, 3).T.copy()
    return ShardRows(
        keys=b"".join(keys),
        key_sizes=np.array([len(key) for key in keys], np.uint32),
        counts=np.array(counts, np.uint32),
        part_names=names,
        part_offsets=offsets,
        part_sizes=sizes,
    )
