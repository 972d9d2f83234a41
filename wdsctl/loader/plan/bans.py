"""Bans: samples of the order that are left out. Bans are masks over positions, so that no other sample moves.

A ban begins at the current draw of a lane when the user first passes the ban, and states keep it from then on. If a
lane reads earlier draws again, for a window or a buffer, it includes the banned samples, so that the plan does not
change, but it does not hand them on. Bans are never removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from wdsctl.core.checkpoint.state import shorten_list
from wdsctl.core.errors import UsageError
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.text import short_repr
from wdsctl.loader.plan.growth import is_complete
from wdsctl.loader.reading.source import SampleRef
from wdsctl.loader.runtime.logs import logger

if TYPE_CHECKING:
    from wdsctl.loader.plan.components import Component, SourceRange
    from wdsctl.loader.plan.open_blend import OpenBlend


BanEntry = list[Any]  # JSON: keys, and [source, id] of samples
BanHistory = list[list[int]]  # of a lane: (entry, the draw from which it applies)

CHECK_CHUNK_SAMPLES = 1024  # samples that are checked together
MAX_SEARCHED_SAMPLES = 1_000_000  # samples of all datasets, in which the keys of bans are searched


@dataclass(frozen=True, slots=True)
class Bans:
    """`entries`: sets of samples that were banned together, in the order in which the user passed them."""

    entries: tuple[tuple[Any, ...], ...] = ()

    def with_entry(self, ban: Iterable[Any]) -> Bans:
        """The bans and one more entry, of samples not banned yet. Raises UsageError for values that name no sample."""
        known = {each for entry in self.entries for each in entry}
        new = tuple(dict.fromkeys(each for each in map(_parse_ban, ban) if each not in known))
        return Bans((*self.entries, new)) if new else self

    def history(self, saved: Sequence[Sequence[int]], draws: int) -> BanHistory:
        """The history of a lane at `draws`: the bans that began earlier, and those that begin here."""
        return [list(each) for each in saved] + [[i, draws] for i in range(len(saved), len(self.entries))]

    def ban_filter(self, history: BanHistory) -> Callable[[SampleRef, int | None], int] | None:
        """A function that returns the number of the entry that bans a reference at a draw, counted from 1; 0 if none
        does. With draw None, a ban applies whenever the reference was drawn. None if there are no bans."""
        if not history:
            return None
        since: dict[Any, tuple[int, int]] = {}
        for entry, begin in history:
            for each in self.entries[entry]:
                since.setdefault(each, (entry + 1, begin))

        def banned_by(ref: SampleRef, draw: int | None) -> int:
            source, block, i = ref
            found = (since.get(block.keys[i]), since.get((source.number, block.ids[i])))
            return min((each[0] for each in found if each and (draw is None or draw >= each[1])), default=0)

        return banned_by

    def to_state(self) -> list[BanEntry]:
        return [[each if isinstance(each, str) else list(each) for each in entry] for entry in self.entries]


def warn_of_unknown_bans(known: Bans, bans: Bans, open_blend: OpenBlend) -> None:
    """Log a warning if some of `bans` that are not in `known` name no sample of the datasets: they exclude nothing.

    Keys are searched only in datasets of up to `MAX_SEARCHED_SAMPLES` samples together, whose catalogs are on this
    machine: some 0.2 us per sample. Restore keys are always checked.
    """
    new = [each for entry in bans.entries[len(known.entries) :] for each in entry]
    unknown = [each for each in new if not isinstance(each, str) and not _names_sample(each, open_blend)]
    unknown += _find_unknown_keys([each for each in new if isinstance(each, str)], open_blend)
    if unknown:
        logger.warning(
            "%d of %d new bans exclude nothing: no dataset of this job has a sample with this key, or this (source, "
            "id) of a restore key: %s; check the spelling, and that restore keys are of this job",
            len(unknown),
            len(new),
            shorten_list(list(map(short_repr, unknown))),
        )


def _names_sample(ban: tuple[int, int], open_blend: OpenBlend) -> bool:
    """Whether (source, id) names a sample in the catalog of a source."""
    number, sample = ban
    if not 0 <= number < len(open_blend.sources):
        return False
    shard, i = sample >> INDEX_BITS, sample & ((1 << INDEX_BITS) - 1)
    return any(each.id == shard and i < each.samples for each in open_blend.sources[number].offsets.shards)


def _find_unknown_keys(keys: Sequence[str], open_blend: OpenBlend) -> list[str]:
    """The keys that no dataset has; none of them if a search would take long."""
    opened = {id(source.offsets): source.offsets for source in open_blend.sources}.values()
    indexes = [each for each in opened if isinstance(each, Offsets) and not each.is_partial]
    if len(indexes) < len(opened) or sum(index.samples for index in indexes) > MAX_SEARCHED_SAMPLES:
        return []
    left = {key.encode("utf-8", "surrogatepass"): key for key in keys}
    for index in indexes:
        for start in range(0, index.samples if left else 0, CHECK_CHUNK_SAMPLES):
            stop = min(start + CHECK_CHUNK_SAMPLES, index.samples)
            columns = index.check_range(start, stop)
            bounds = columns.key_start[start : stop + 1].tolist()
            text = bytes(columns.key_text[bounds[0] : bounds[-1]])
            found = {text[begin - bounds[0] : end - bounds[0]] for begin, end in pairwise(bounds)}
            left = {name: key for name, key in left.items() if name not in found}
    return list(left.values())


def check_samples_left(bans: Bans, open_blend: OpenBlend, batches_drawn: int) -> None:
    """Raise UsageError WDS514 if all samples of a component are banned, and it is still drawn after `batches_drawn`
    batches of the job.

    Checks the samples of each component in order, up to the first that is not banned: some 5 us per sample.
    """
    banned = {each for entry in bans.entries for each in entry}
    if not banned:
        return
    present = max(i for i, begin in enumerate(open_blend.begin_batches) if begin <= batches_drawn)
    for number, component in enumerate(open_blend.components):
        if any(blend.weights[number] for blend in open_blend.mixtures[present:]) and not _has_samples_left(
            component, banned
        ):
            instead = (
                ", or set the weight of the dataset to 0 and resume with adopt_weights=True"
                if len(open_blend.components) > 1
                else ""
            )
            raise UsageError(
                f"ban leaves no samples of {open_blend.component_names[number]}: all of its samples are banned",
                hint=f"ban fewer samples{instead}; to undo a ban that the state holds, resume from an older state",
                code="WDS514",
            )


def _has_samples_left(component: Component, banned: set[Any]) -> bool:
    return not is_complete(component) or any(
        _range_has_samples_left(piece, banned) for piece in component.source_ranges
    )


def _range_has_samples_left(source_range: SourceRange, banned: set[Any]) -> bool:
    source = source_range.source
    index, end = source.offsets, source_range.first_position + source_range.positions
    for start in range(source_range.first_position, end, CHECK_CHUNK_SAMPLES):
        for row in source.selection.rows(np.arange(start, min(start + CHECK_CHUNK_SAMPLES, end))).tolist():
            shard = index.shard_of(row)
            number = index.shards[shard].id << INDEX_BITS | row - int(index.shard_row[shard])
            if index.key(row) not in banned and (source.number, number) not in banned:
                return True
    return False


def bans_from_state(entries: Sequence[BanEntry]) -> Bans:
    return Bans(tuple(tuple(_parse_ban(each) for each in entry) for entry in entries))


def _parse_ban(ban: Any) -> Any:
    """A key, or (source, id) of a restore key, which also has the pass, and what hooks made of the sample."""
    if isinstance(ban, str):
        return ban
    if isinstance(ban, Sequence) and len(ban) in {2, 3, 4, 7} and all(isinstance(part, int) for part in ban):
        return (ban[0], ban[1]) if len(ban) == 2 else (ban[0], ban[2])
    raise UsageError(
        f"ban contains {ban!r}, expected the key or the restore key of a sample",
        hint="pass strings such as '000123', or the `__restore_key__` of samples",
    )
