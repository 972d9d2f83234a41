"""Which samples go into which shard, decided from sizes before a byte is written. Pure: no file is touched."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import count
from typing import NamedTuple

from wdsctl.core.errors import UsageError
from wdsctl.core.naming import shard_key
from wdsctl.core.raw_sample import RawSample
from wdsctl.core.shard_names import check_template
from wdsctl.core.tar_header import END, member_bytes

MARK_BYTES = 8  # per sample


class PlannedShard(NamedTuple):
    """`samples[start:stop]` go to the shard `name`, whose number in the template is `ordinal`.

    `size_bytes` is what the tar will have, to the byte. `marks` are `MARK_BYTES` a sample: names, sizes and mtimes of
    its files, hashed. `digest` is the hash of them all.
    """

    name: str
    ordinal: int
    start: int
    stop: int
    size_bytes: int
    digest: str
    marks: bytes


def plan_shards(
    samples: Sequence[RawSample],
    shard_samples: int,
    shard_size: int,
    template: str,
    first_index: int = 0,
    taken: Container[str] = (),
) -> list[PlannedShard]:
    """Cut `samples`, in order, into shards of at most `shard_samples` samples and `shard_size` bytes of tar.

    A sample that is larger has a shard of its own. Numbers count up from `first_index`; names in `taken` are passed
    over. Raises UsageError. Cost: about 2 µs a file.
    """
    check_limits(shard_samples, shard_size)
    check_template(template)
    numbers = count(first_index)
    shards = []
    for start, stop, size_bytes in _cut(samples, shard_samples, shard_size):
        ordinal = next(numbers)
        while (name := template.format(index=ordinal)) in taken:
            ordinal = next(numbers)
        marks = marks_of(samples[start:stop])
        shards.append(PlannedShard(name, ordinal, start, stop, size_bytes, digest(marks), marks))
    return shards


def tar_bytes(samples: Iterable[RawSample]) -> int:
    """What a shard of these samples has, to the byte."""
    return sum(map(sample_bytes, samples)) + len(END)


def sample_bytes(sample: RawSample) -> int:
    """What a sample takes up in a tar, headers and padding included."""
    key = shard_key(sample.key)
    return sum(member_bytes(f"{key}.{name}".encode(), size) for name, size, _ in sample.parts)


def mark(sample: RawSample) -> bytes:
    """Tells whether a sample's files are still what they were: names, sizes and times of change, in 8 bytes."""
    key, parts = sample
    # A slash cannot be in a part's name, nor a zero byte in a key.
    facts = "/".join([f"{name}/{size}/{mtime_ns}" for name, size, mtime_ns in parts])
    return blake2b(f"{key}\0{facts}".encode(), digest_size=MARK_BYTES).digest()


def marks_of(samples: Iterable[RawSample]) -> bytes:
    return b"".join(map(mark, samples))


def digest(marks: bytes) -> str:
    return blake2b(marks, digest_size=16).hexdigest()


def _cut(samples: Sequence[RawSample], shard_samples: int, shard_size: int) -> Iterator[tuple[int, int, int]]:
    """(first sample, one past the last, bytes of the tar) of each shard."""
    start = 0
    size = len(END)
    for i, sample in enumerate(samples):
        more = sample_bytes(sample)
        if i > start and (i - start == shard_samples or size + more > shard_size):
            yield start, i, size
            start, size = i, len(END)
        size += more
    if samples:
        yield start, len(samples), size


def check_limits(shard_samples: int, shard_size: int) -> None:
    """Raises UsageError where no sample would fit."""
    if shard_samples < 1:
        raise UsageError("a shard needs at least one sample", hint="--shard-samples 10000 is the default")
    if shard_size < 1:
        raise UsageError("a shard needs at least one byte", hint="--shard-size 1GiB is the default")
