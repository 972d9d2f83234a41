"""What a catalog says of one shard: values, by the standard library alone."""

from __future__ import annotations

from dataclasses import dataclass, field

MISSING = "missing"  # the status of a shard that has vanished, and whose rows were kept (`--missing keep`)


@dataclass(frozen=True, slots=True)
class ShardRow:
    id: int
    path: str
    size: int  # bytes
    mtime_ns: int
    samples: int
    parts: int
    status: str
    code: str | None
    layout_hash: str
    sha256: str | None = None  # of the whole file; None where nobody asked for it


@dataclass(frozen=True, slots=True)
class Held:
    """Where the samples of one shard are: split -> (samples, one bit a sample, or None for all of them).

    `former`: the same of samples that go back to a split once they are no longer excluded.
    """

    layout_hash: str
    parts: dict[str, tuple[int, bytes | None]]
    samples: int  # of the shard, in whatever split or none
    former: dict[str, tuple[int, bytes | None]] = field(default_factory=dict)
