"""Samples of a raw folder that have another name now: told by their bytes, which the shards still have."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import IO

from wdsctl.core.naming import shard_key, split_name
from wdsctl.core.raw_sample import RawSample
from wdsctl.core.shard_record import ShardRecord, keys_of

_CHUNK = 1 << 20  # bytes that are compared at once

#: The parts of a sample in a shard: name, bytes, and where they begin.
_Stored = list[tuple[str, int, int]]


def renamed_samples(
    source: str, dest: str, samples: Sequence[RawSample], records: Iterable[ShardRecord]
) -> dict[str, str]:
    """The new key of every sample of the shards below `dest` that is there by another name, byte for byte.

    Of several samples with the same bytes each is taken once, in the order of keys. Cost: the headers of every shard of
    which samples have vanished, and the bytes of those that have the sizes of a new sample.
    """
    now = {sample.key for sample in samples}
    known: set[str] = set()
    vanished: dict[str, set[str]] = {}
    for record in records:
        keys = set(keys_of(record))
        known |= keys
        if record.state != "planned" and keys - now:
            vanished[record.name] = keys - now
    by_shape: dict[tuple[tuple[str, int], ...], list[RawSample]] = {}
    for sample in samples:
        if sample.key not in known:
            by_shape.setdefault(tuple((part.name, part.size_bytes) for part in sample.parts), []).append(sample)
    renamed: dict[str, str] = {}
    for name, keys in vanished.items() if by_shape else ():
        # Of a shard that is gone or damaged nothing can be told: its samples have vanished.
        with suppress(OSError, tarfile.TarError), open(os.path.join(dest, name), "rb") as shard:
            for key, parts in sorted(_stored(shard, keys).items()):
                new = by_shape.get(tuple((part, size) for part, size, _ in parts), [])
                same = next((sample for sample in new if _is_same(source, sample, shard, parts)), None)
                if same is not None:
                    new.remove(same)
                    renamed[key] = same.key
    return renamed


def _stored(shard: IO[bytes], keys: set[str]) -> dict[str, _Stored]:
    """The parts of these samples, by name. In the shard, their keys have no dots."""
    keys_there = {shard_key(key): key for key in keys}
    found: dict[str, _Stored] = {}
    with tarfile.open(fileobj=shard, mode="r:") as members:
        for member in members:
            named = split_name(member.name)
            if named is not None and named[0] in keys_there and member.isreg():
                found.setdefault(keys_there[named[0]], []).append((named[1], member.size, member.offset_data))
    return {key: sorted(parts) for key, parts in found.items()}


def _is_same(source: str, sample: RawSample, shard: IO[bytes], parts: _Stored) -> bool:
    for name, size, offset in parts:
        shard.seek(offset)
        with open(os.path.join(source, f"{sample.key}.{name}"), "rb") as file:
            left = size
            while left:
                here, there = file.read(min(left, _CHUNK)), shard.read(min(left, _CHUNK))
                if not here or here != there:
                    return False
                left -= len(here)
    return True
