"""`validate ROOT@VIEW`: of what was found in the shards of a view, what is about its samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.checks.placed import Placed
from wdsctl.core.findings import Finding
from wdsctl.core.offsets import Offsets
from wdsctl.core.selections import Selected
from wdsctl.core.splitting_bits import flags_of
from wdsctl.core.verbs.validate_shards import Outcome


def keep_view(outcome: Outcome, rows: Sequence[ShardRow], chosen: Selected, offsets: Offsets | Finding) -> None:
    """Forget what was found of samples that the view does not have. What is of a whole shard stays.

    `rows`: the shards of the view. A shard is read as a whole all the same, so that what was found in it is known to
    later runs.
    """
    for row in rows:
        flags = flags_of(chosen[row.id], row.samples)
        kept = []
        for placed in outcome.placed.pop(row.path, []):
            places = tuple(place for place in placed.places if place < row.samples and flags[place])
            if places == placed.places:
                kept.append(placed)
            elif places:
                kept.append(_of(placed, places, row, offsets))
        if kept:
            outcome.placed[row.path] = kept


def _of(placed: Placed, places: tuple[int, ...], row: ShardRow, offsets: Offsets | Finding) -> Placed:
    """The finding with the first of these samples in the place of the first of all."""
    finding = replace(placed.finding, count=len(places))
    if places[0] != placed.places[0]:
        key = _key(offsets, row, places[0])
        finding = replace(finding, key=key, offset=None)
    return placed._replace(finding=finding, places=places)


def _key(offsets: Offsets | Finding, row: ShardRow, place: int) -> str:
    """Empty where the offsets cannot be used."""
    if isinstance(offsets, Finding):
        return ""
    starts = {shard.path: int(start) for shard, start in zip(offsets.shards, offsets.shard_row, strict=False)}
    return offsets.key(starts[row.path] + place) if row.path in starts else ""
