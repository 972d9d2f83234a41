"""What a loader has done so far: exact counts, and the seconds each stage took."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from operator import add, attrgetter, sub


@dataclass(slots=True)
class Stats:
    """Counts of what was handed out since this loader was made; a restored loader counts from zero again.

    With workers, seconds are theirs: more of them than passed on the clock.
    """

    batches: int = 0
    samples: int = 0  # that went into batches; packs count as one
    skipped: int = 0  # by SkipSample
    failed: int = 0  # left out because something failed
    causes: Counter[str] = field(default_factory=Counter)  # of these, by hook and error; never changed in place
    banned: int = 0
    left_out: int = 0  # of packing buffers: select_samples_to_pack did not want them
    too_long: int = 0  # for a pack: dropped, cut or split
    packed: int = 0  # of lengths in packs that were made
    pack_capacity: int = 0  # of those packs
    flushed: int = 0  # batches of groups that went before they were full
    load_seconds: float = 0.0  # reading, decoding and building samples
    encode_seconds: float = 0.0  # in cookers and encode_sample
    batch_seconds: float = 0.0  # in batch and encode_batch

    def copy(self) -> Stats:
        return Stats(*_values(self))

    def minus(self, before: Stats) -> Stats:
        """What was counted since."""
        return Stats(*map(sub, _values(self), _values(before)))

    def plus(self, more: Stats) -> Stats:
        return Stats(*map(add, _values(self), _values(more)))

    def __reduce__(self) -> tuple[object, ...]:
        # Some come with every batch.
        return Stats, _values(self)

    @property
    def packing_efficiency(self) -> float:
        """The share of the packs' capacity that is filled; 0 where nothing was packed."""
        return self.packed / self.pack_capacity if self.pack_capacity else 0.0


#: All fields at once: `dataclasses.astuple` takes ten times as long, and this is done for every batch.
_values = attrgetter(*(each.name for each in fields(Stats)))
