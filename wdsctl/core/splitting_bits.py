"""Samples of a shard as flags and as bits: what splits, excludes and quarantines are added up and taken apart with."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.splitting import SplitShard

Flags = NDArray[np.bool_]
Labels = NDArray[np.int16]

NOWHERE = -1  # the label of a sample that is in no split


def flags_of(part: SplitShard | None, count: int) -> Flags:
    """(count,): which samples of a shard are in this part of it."""
    if part is None:
        return np.zeros(count, np.bool_)
    if part.bits is None:
        return np.full(count, part.samples > 0)
    return np.unpackbits(np.frombuffer(part.bits, np.uint8), count=count, bitorder="little").astype(np.bool_)


def part_of(shard: int, flags: Flags) -> SplitShard | None:
    """The part of a shard that these samples are; None where there are none."""
    samples = int(np.count_nonzero(flags))
    if not samples:
        return None
    return SplitShard(shard, samples, None if samples == len(flags) else packed(flags))


def packed(flags: Flags) -> bytes:
    """One bit a sample, the lowest first."""
    return np.packbits(flags, bitorder="little").tobytes()


def labels_of(parts: Iterable[SplitShard | None], count: int) -> Labels:
    """(count,): for each sample of a shard which of these parts has it, from 0; the last where several do."""
    labels = np.full(count, NOWHERE, np.int16)
    for number, part in enumerate(parts):
        if part is None:
            continue
        if part.bits is None and part.samples:
            labels[:] = number
        elif part.samples:
            labels[flags_of(part, count)] = number
    return labels


def parts_of(shard: int, labels: Labels, names: Iterable[str]) -> dict[str, SplitShard]:
    """What each split has of a shard, by these labels: only the splits that have something."""
    found = ((name, part_of(shard, labels == number)) for number, name in enumerate(names))
    return {name: part for name, part in found if part is not None}


def scattered(part: SplitShard, free: Flags) -> SplitShard:
    """A part of the free samples of a shard, as a part of the shard."""
    flags = np.zeros(len(free), np.bool_)
    flags[np.flatnonzero(free)[flags_of(part, int(free.sum()))]] = True
    return part_of(part.shard, flags) or SplitShard(part.shard, 0, b"")


def without(part: SplitShard, gone: SplitShard, count: int) -> SplitShard | None:
    """A part of a shard of `count` samples without those of another."""
    if gone.bits is None and gone.samples:
        return None
    return part_of(part.shard, flags_of(part, count) & ~flags_of(gone, count))
