"""The unit of work of a grouped or stratified split: the value of every sample of one shard, as a hash.

What is read are the parts that hold it, by ranges. A result is a file named after the shard's content and what was
asked, which a run that goes on after a kill finds again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.checked_file import UNFIT, load_checked, save_checked
from wdsctl.core.errors import PermissionDenied, StorageDown, StorageError
from wdsctl.core.offsets import Offsets, offsets_of
from wdsctl.core.split_spec import ValueSpec, parse_spec
from wdsctl.core.storage import Range
from wdsctl.core.stores import storage_for

Words = NDArray[np.uint64]

FORMAT = 1  # raise it when results change
TOGETHER = 16 << 20  # bytes that are read in one go
AT_ONCE = 4096  # samples that are read in one go
NAMED = 3  # samples of a shard without a value that are named


@dataclass(frozen=True, slots=True)
class ValueUnit:
    """`shard` is an index into those of the offsets file. `result`: where the values go; empty to hand them back."""

    root: str
    offsets: str
    shard: int
    spec: str
    is_told: bool = False  # whether the values themselves are wanted, and not their hashes alone
    result: str = ""


@dataclass(frozen=True, slots=True)
class ShardValues:
    """`hashes`: (samples,), 0 for a sample without a value. `texts`: hash -> value, where it was asked for.

    `broken`: why the shard could not be read.
    """

    hashes: Words
    missing: int
    named: tuple[str, ...]  # keys of some without a value
    texts: dict[int, str]
    broken: str = ""


def result_path(folder: str, root_shard: tuple[str, int, str], spec: str, *, is_told: bool) -> str:
    """Where the values of a shard (path, size, layout) go."""
    told = "\0".join(map(str, (FORMAT, *root_shard, spec, is_told)))
    return os.path.join(
        folder, blake2b(told.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest() + ".values"
    )


def run_value_unit(unit: ValueUnit) -> ShardValues | None:
    """The values of one shard, or None where they went into a file."""
    made = values_of(unit)
    if not unit.result or made.broken:
        return made
    facts = {"missing": made.missing, "named": made.named, "texts": list(made.texts.items())}
    save_checked(unit.result, facts, [made.hashes.astype("<u8").tobytes()])
    return None


def load_values(path: str) -> ShardValues | None:
    """Values that a unit left; None where there are none, or the file was damaged."""
    if not os.path.exists(path):
        return None
    loaded = load_checked(path)
    if loaded is None:
        return None
    facts, data = loaded
    try:
        hashes = np.frombuffer(data, "<u8").astype(np.uint64, copy=False)
        texts = {int(number): str(text) for number, text in facts["texts"]}
        return ShardValues(hashes, int(facts["missing"]), tuple(map(str, facts["named"])), texts)
    except UNFIT:
        return None


def values_of(unit: ValueUnit) -> ShardValues:
    """The value of every sample of the shard. A shard that cannot be read has none, and says why."""
    offsets = offsets_of(unit.offsets)
    spec = parse_spec(unit.spec)
    collected = _Collected(int(offsets.shards[unit.shard].samples), is_told=unit.is_told)
    first = int(offsets.shard_row[unit.shard])
    try:
        pairs = _of_parts(unit, offsets, spec) if spec.reads else _of_keys(offsets, unit.shard, spec)
        for row, value in pairs:
            collected.take(row - first, value)
    except StorageDown:
        raise
    except (StorageError, PermissionDenied) as error:
        return ShardValues(np.zeros(len(collected.hashes), np.uint64), len(collected.hashes), (), {}, error.message)
    return collected.done(offsets, first)


def hash_of(value: str) -> int:
    """64 bits of a value, and never 0: the same on every machine, for ever."""
    return int.from_bytes(blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") or 1


class _Collected:
    """Values of one shard as they come."""

    def __init__(self, samples: int, *, is_told: bool) -> None:
        self.hashes: Words = np.zeros(samples, np.uint64)
        self._is_told = is_told
        self._known: dict[str, int] = {}

    def take(self, place: int, value: str | None) -> None:
        if value is None:
            return
        number = self._known.get(value)
        if number is None:
            number = hash_of(value)
            if len(self._known) >= 1 << 16 and not self._is_told:
                self._known.clear()
            self._known[value] = number
        self.hashes[place] = number

    def done(self, offsets: Offsets, first: int) -> ShardValues:
        without = np.flatnonzero(self.hashes == 0)
        named = tuple(offsets.key(first + place) for place in without[:NAMED].tolist())
        texts = {number: value for value, number in self._known.items()} if self._is_told else {}
        return ShardValues(self.hashes, len(without), named, texts)


def _of_keys(offsets: Offsets, shard: int, spec: ValueSpec) -> Iterator[tuple[int, str | None]]:
    for row in range(int(offsets.shard_row[shard]), int(offsets.shard_row[shard + 1])):
        yield row, spec.of_key(offsets.key(row))


def _of_parts(unit: ValueUnit, offsets: Offsets, spec: ValueSpec) -> Iterator[tuple[int, str | None]]:
    shard = offsets.shards[unit.shard]
    path = os.path.join(unit.root, shard.path)
    storage = storage_for(unit.root, {path: shard.size})
    try:
        for batch in _batches(offsets, unit.shard, spec.part):
            data: list[Any] = storage.read_many([Range(path, at, size) for _, at, size in batch])
            yield from ((row, spec.of_part(bytes(each))) for (row, _, _), each in zip(batch, data, strict=True))
    finally:
        storage.close()


def _batches(offsets: Offsets, shard: int, part: str) -> Iterator[list[tuple[int, int, int]]]:
    """(row, offset, size) of the samples that have the part, a few at a time."""
    batch: list[tuple[int, int, int]] = []
    total = 0
    for row in range(int(offsets.shard_row[shard]), int(offsets.shard_row[shard + 1])):
        for name, at, size in offsets.parts(row):
            if name != part:
                continue
            if batch and (total + size > TOGETHER or len(batch) == AT_ONCE):
                yield batch
                batch, total = [], 0
            batch.append((row, at, size))
            total += size
            break
    if batch:
        yield batch
