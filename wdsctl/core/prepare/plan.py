"""Decide from sizes which samples go into which shard, before anything is written. Pure: reads no file."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import count
from typing import NamedTuple

from wdsctl.core.catalog.ledger import ShardRecord, pack_keys
from wdsctl.core.samples.naming import RawSample, check_shard_template, dotless_key
from wdsctl.core.shards.write import check_limits
from wdsctl.core.tar_header import END_OF_ARCHIVE, member_bytes

SAMPLE_DIGEST_BYTES = 8  # per sample


class PlannedShard(NamedTuple):
    """The shard `name` of `samples[start:stop]`. `ordinal`: its number in the template.

    `size_bytes`: the exact size of the tar. `sample_digests`: a hash of `SAMPLE_DIGEST_BYTES` bytes for each sample, of
    the names, sizes and mtimes of its files. `digest`: the hash of `sample_digests`.
    """

    name: str
    ordinal: int
    start: int
    stop: int
    size_bytes: int
    digest: str
    sample_digests: bytes


def plan_shards(
    samples: Sequence[RawSample],
    shard_samples: int,
    shard_size: int,
    template: str,
    first_index: int = 0,
    taken_names: Container[str] = (),
) -> list[PlannedShard]:
    """Cut `samples`, in order, into shards of at most `shard_samples` samples and `shard_size` bytes of tar.

    A larger sample gets a shard of its own. Shards are numbered from `first_index`; names in `taken_names` are skipped.
    Raises UsageError. Cost: about 2 µs per file.
    """
    check_limits(shard_samples, shard_size)
    check_shard_template(template)
    numbers = count(first_index)
    shards = []
    for start, stop, size_bytes in _shard_bounds(samples, shard_samples, shard_size):
        ordinal = next(numbers)
        while (name := template.format(index=ordinal)) in taken_names:
            ordinal = next(numbers)
        digests = sample_digests(samples[start:stop])
        shards.append(PlannedShard(name, ordinal, start, stop, size_bytes, shard_digest(digests), digests))
    return shards


def tar_size_bytes(samples: Iterable[RawSample]) -> int:
    """The exact size of a shard of these samples."""
    return sum(map(sample_size_bytes, samples)) + len(END_OF_ARCHIVE)


def sample_size_bytes(sample: RawSample) -> int:
    """The bytes of a sample in a tar, with headers and padding."""
    key = dotless_key(sample.key)
    return sum(member_bytes(f"{key}.{name}".encode(), size) for name, size, _ in sample.parts)


def sample_digest(sample: RawSample) -> bytes:
    """A digest of the names, sizes and mtimes of a sample's files: it changes when they do."""
    key, parts = sample
    # The separators are unambiguous: part names have no slash, and keys have no zero byte.
    facts = "/".join([f"{name}/{size}/{mtime_ns}" for name, size, mtime_ns in parts])
    return blake2b(f"{key}\0{facts}".encode(), digest_size=SAMPLE_DIGEST_BYTES).digest()


def sample_digests(samples: Iterable[RawSample]) -> bytes:
    return b"".join(map(sample_digest, samples))


def shard_digest(digests: bytes) -> str:
    return blake2b(digests, digest_size=16).hexdigest()


def _shard_bounds(samples: Sequence[RawSample], shard_samples: int, shard_size: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, stop, bytes of the tar) for each shard."""
    start = 0
    size = len(END_OF_ARCHIVE)
    for i, sample in enumerate(samples):
        more = sample_size_bytes(sample)
        if i > start and (i - start == shard_samples or size + more > shard_size):
            yield start, i, size
            start, size = i, len(END_OF_ARCHIVE)
        size += more
    if samples:
        yield start, len(samples), size


def planned_record(shard: PlannedShard, samples: Sequence[RawSample]) -> ShardRecord:
    """The record of a shard before it is written. `samples`: the list that `start` and `stop` refer to."""
    keys = pack_keys(samples[i].key for i in range(shard.start, shard.stop))
    count = shard.stop - shard.start
    return ShardRecord(
        shard.name, shard.ordinal, count, shard.size_bytes, shard.digest, keys, shard.sample_digests, "planned"
    )
