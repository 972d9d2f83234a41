"""The unit of work of `--media`: one shard, its media looked at, the result a file that a later run finds again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.findings import Finding
from wdsctl.core.media.facts import Unreadable
from wdsctl.core.media.found import Found, FoundMedium, save_found
from wdsctl.core.media.look import AT_ONCE, HEAD, Candidate, look, medium_of, unreadable_findings
from wdsctl.core.media.selection import Claim, Selection, parse_selection
from wdsctl.core.offsets import Offsets, offsets_of
from wdsctl.core.storage import Range, Storage
from wdsctl.core.stores import storage_for


@dataclass(frozen=True, slots=True)
class ShardUnit:
    """`shard` is an index into those of the offsets file; `result` is where what is found goes."""

    root: str
    offsets: str
    shard: int
    selection: str
    result: str
    keyframes: bool = False


def run_shard_unit(unit: ShardUnit) -> Finding | None:
    """Look at the media of one shard, and save what is found. A shard that cannot be read is told of, not raised."""
    try:
        save_found(found_in(unit), unit.result)
    except (StorageError, PermissionDenied) as error:
        path = offsets_of(unit.offsets).shards[unit.shard].path
        return Finding(code=error.code, severity="error", message=f"its media: {error.message}", shard=path)
    return None


def found_in(unit: ShardUnit) -> Found:
    """The media of one shard. Raises StorageError and PermissionDenied."""
    offsets = offsets_of(unit.offsets)
    shard = offsets.shards[unit.shard]
    path = os.path.join(unit.root, shard.path)
    storage = storage_for(unit.root, {path: shard.size})
    # Of a part that a sample has twice, the last one counts, as everywhere.
    media: dict[tuple[int, str], FoundMedium] = {}
    unreadable: list[tuple[Candidate, str]] = []
    try:
        for candidate, head in _with_heads(storage, candidates(offsets, unit.shard, path, unit.selection)):
            facts = look(storage, candidate, head)
            if isinstance(facts, Unreadable):
                unreadable.append((candidate, facts.reason))
            if facts is not None:
                media[candidate.row, candidate.part] = medium_of(storage, candidate, facts, keyframes=unit.keyframes)
    finally:
        storage.close()
    return Found(tuple(media.values()), tuple(unreadable_findings(unreadable, shard.path)))


def candidates(offsets: Offsets, shard: int, path: str, selection: str) -> Iterator[Candidate]:
    """The parts of a shard that may be media, in tar order."""
    wanted = parse_selection(selection)
    by_layout = [_claims(wanted, layout) for layout in offsets.layouts]
    first, end = offsets.shard_row[shard : shard + 2].tolist()
    layouts = offsets.checked_range(first, end).layout
    for row in range(first, end):
        claims = by_layout[0 if layouts is None else int(layouts[row])]
        if claims is not None and not any(claim != "no" for claim in claims):
            continue
        key = offsets.key(row)
        for i, (part, at, size) in enumerate(offsets.parts(row)):
            claim = wanted.claim(f"{key.rpartition('/')[2]}.{part}") if claims is None else claims[i]
            if claim != "no":
                yield Candidate(row - first, key, part, path, at, size, claim)


def _claims(wanted: Selection, layout: tuple[str, ...]) -> list[Claim] | None:
    """What is claimed of each part of a layout; None where that depends on the sample's key, too."""
    return None if wanted.globs else [wanted.claim(f".{part}") for part in layout]


def _with_heads(storage: Storage, wanted: Iterator[Candidate]) -> Iterator[tuple[Candidate, bytes]]:
    while some := list(islice(wanted, AT_ONCE)):
        ranges = [Range(each.path, each.offset, min(each.size, HEAD)) for each in some]
        yield from zip(some, storage.read_many(ranges), strict=True)
