"""Is there anything to work on: a catalog, and samples in it? If not, why not, and what is there instead."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from wdsctl.core.catalog.catalog import ShardRow
from wdsctl.core.catalog.identity import missing
from wdsctl.core.catalog.quick import refuse_media_folder
from wdsctl.core.command_line import command, command_at
from wdsctl.core.counted import counted
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.findings import Finding
from wdsctl.core.lock import writer
from wdsctl.core.place import Place
from wdsctl.core.shard_list import holds_shards

#: Of members that make no part of a sample, and of shards that have no samples for another reason.
_WHY = ("WDS112", "WDS111", "WDS118")


def check_catalog(place: Place) -> None:
    """Raise what helps most where there is no catalog: that it is being made, that there are no shards, or how to make
    one; or that the one there is is of a folder of media. CatalogError WDS301 or WDS304, InputError WDS003 or WDS322.
    """
    if os.path.exists(place.catalog):
        refuse_media_folder(place.catalog)
        return
    held = writer(place.lock)
    if held:
        raise CatalogError(
            f"the dataset is being prepared, and has no catalog yet: {held}",
            where=place.lock,
            hint="wait for it; if it is surely dead, remove the lock file",
            code="WDS304",
        )
    raise missing(place.catalog) if holds_shards(place.root, place.only) else no_shards(place)


def no_shards(place: Place) -> InputError:
    return InputError(
        "no tar files here, and no JSONL",
        where=place.shown,
        hint=f"raw files become shards by {command('prepare', place.shown, 'DEST')}",
        code="WDS003",
    )


def no_samples(place: Place, rows: Sequence[ShardRow], findings: Iterable[Finding] = ()) -> list[Finding]:
    """One finding where the dataset has no samples: what is there instead, as far as `findings` of its shards tell."""
    if any(row.samples for row in rows):
        return []
    counts: Counter[str] = Counter()
    words: dict[str, str] = {}
    for finding in findings:
        counts[finding.code] += finding.count
        words.setdefault(finding.code, finding.message)
    instead = [f"{counts[code]:,} {words[code]}" for code in _WHY if code in counts]
    broken = sum(row.code is not None for row in rows)
    if broken:
        instead.append(f"{counted(broken, 'shard')} that cannot be used")
    elif not instead and "WDS115" in counts:
        instead.append("no members at all")
    there = f": {'; '.join(instead)}" if instead else ""
    message = f"no samples in {counted(len(rows), 'shard')}{there} ({command_at(place, 'validate')} tells more)"
    return [Finding(code="WDS119", severity="error", message=message)]
