"""What a loader counts while it hands out batches: samples, failures, seconds, and reads from stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import add, attrgetter, sub

from wdsctl.core.storage.storage import ReadCounts

MAX_SKIP_REASONS = 100  # counted by a lane; reasons that name the sample would use memory without end
OTHER_REASONS = "other reasons"

_NO_READS = ReadCounts()


class StoreCounts(dict[str, ReadCounts]):
    """Counts of reads by store; never changed in place."""

    def __add__(self, more: StoreCounts) -> StoreCounts:
        if not more:
            return self
        return StoreCounts({**self, **{path: self.get(path, _NO_READS).plus(each) for path, each in more.items()}})

    def __sub__(self, before: StoreCounts) -> StoreCounts:
        if self is before:
            return StoreCounts()
        found = {path: each.minus(before.get(path, _NO_READS)) for path, each in self.items()}
        return StoreCounts({path: each for path, each in found.items() if any(each)})


@dataclass(slots=True)
class Stats:
    """Counts of what was handed out since this loader was created; a restored loader counts from zero again.

    With workers, seconds are added up over workers: more than the elapsed time.
    """

    batches: int = 0
    samples: int = 0  # in batches; a pack counts as one
    skipped: int = 0  # by SkipSample
    skip_reasons: Counter[str] = field(default_factory=Counter)  # of SkipSample("reason"); never changed in place
    failed: int = 0  # left out because a hook or reading failed
    causes: Counter[str] = field(default_factory=Counter)  # of failures, see `describe_cause`; never changed in place
    banned: int = 0
    left_out: int = 0  # of packing buffers, by select_samples_to_pack
    too_long: int = 0  # for a pack: dropped, cut or split
    packed: int = 0  # sum of the lengths in packs
    pack_capacity: int = 0  # sum of the capacities of these packs
    flushed: int = 0  # batches of groups that were not full
    load_seconds: float = 0.0  # reading, decoding and building samples
    encode_seconds: float = 0.0  # in cookers and encode_sample
    batch_seconds: float = 0.0  # in batch and encode_batch
    #: What was read from stores, by the dataset's path; empty for local data. With background reads: also for batches
    #: to come.
    stores: StoreCounts = field(default_factory=StoreCounts)

    def copy(self) -> Stats:
        return Stats(*_values(self))

    def count_skip(self, skip: Exception) -> None:
        """Count a skipped sample, by the reason of its `SkipSample` if that has one."""
        self.skipped += 1
        if skip.args:
            reason = str(skip)
            if reason not in self.skip_reasons and len(self.skip_reasons) >= MAX_SKIP_REASONS:
                reason = OTHER_REASONS
            self.skip_reasons = self.skip_reasons + Counter({reason: 1})

    def count_reads(self, reads: Mapping[str, ReadCounts]) -> None:
        """Add what was read from stores."""
        self.stores = self.stores + StoreCounts(reads)

    def minus(self, before: Stats) -> Stats:
        """What was counted since `before`."""
        return Stats(*map(sub, _values(self), _values(before)))

    def plus(self, more: Stats) -> Stats:
        return Stats(*map(add, _values(self), _values(more)))

    def forget_counts_since(self, before: Stats) -> None:
        """Forget what was counted since `before`, but not times and reads: the work was done and counted earlier."""
        for name in _COUNT_FIELDS:
            setattr(self, name, getattr(before, name))

    def __reduce__(self) -> tuple[object, ...]:
        # Some come with every batch.
        return Stats, _values(self)

    @property
    def packing_efficiency(self) -> float:
        """The share of the packs' capacity that is filled; 0 if nothing was packed."""
        return self.packed / self.pack_capacity if self.pack_capacity else 0.0


#: All fields at once: `dataclasses.astuple` takes ten times as long, and this is done for every batch.
_values = attrgetter(*(each.name for each in fields(Stats)))

_COUNT_FIELDS = [each.name for each in fields(Stats) if each.name != "stores" and not each.name.endswith("_seconds")]
