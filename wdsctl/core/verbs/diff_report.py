"""What `diff` answers with."""

from __future__ import annotations

from dataclasses import dataclass

from wdsctl.core.findings import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """One of the two. `samples`, `size_bytes` of its shards: of a view, its samples, and the shards that it has."""

    root: str
    view: str
    generation: int
    shards: int
    samples: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedShard:
    path: str
    first_samples: int
    second_samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamedShard:
    first: str
    second: str
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardsDiff:
    """Counts, and the first of each kind. `rewritten`: the same layout, and another SHA-256 in the catalogs."""

    same: int
    added: int
    removed: int
    changed: int
    rewritten: int
    renamed: int
    first_added: tuple[str, ...]
    first_removed: tuple[str, ...]
    first_changed: tuple[ChangedShard, ...]
    first_rewritten: tuple[str, ...]
    first_renamed: tuple[RenamedShard, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleDifference:
    """`kind`: added, removed, moved or changed. Shards are empty where the sample is not."""

    kind: str
    key: str
    first_shard: str
    second_shard: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesDiff:
    """A sample is moved where its key and its parts (by name and size) are the same in another shard, changed where the
    key is the same and the parts are not. `first_differences` has some of each kind, by key."""

    same: int
    added: int
    removed: int
    moved: int
    changed: int
    first_differences: tuple[SampleDifference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitDrift:
    """A split of either side; None where a side has none of this name. `entered` and `left`: samples of both sides that
    are in it on the second side alone, and on the first alone."""

    name: str
    first_samples: int | None
    second_samples: int | None
    entered: int
    left: int

    @property
    def is_same(self) -> bool:
        return self.first_samples == self.second_samples and not (self.entered or self.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffReport:
    """`splits` is None where those of a side are not known: of an older generation. `content`: bytes were compared.
    `unreadable`: shards whose bytes could not be."""

    first: ComparedSide
    second: ComparedSide
    content: bool
    shards: ShardsDiff
    samples: SamplesDiff
    splits: tuple[SplitDrift, ...] | None
    unreadable: tuple[Finding, ...]
    seconds: float

    @property
    def is_same(self) -> bool:
        shards, samples = self.shards, self.samples
        return not (
            (shards.added or shards.removed or shards.changed or shards.rewritten or shards.renamed)
            or (samples.added or samples.removed or samples.moved or samples.changed)
            or not all(split.is_same for split in self.splits or ())
        )
