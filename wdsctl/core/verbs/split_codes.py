"""What is known of shards by codes of findings, for `split --exclude-code`.

What a validation has found holds until the shard is another or all its samples are looked at again on the same level,
whatever else was validated since: see wdsctl/core/catalog/ledger_checks.py. Parts that samples lack, and keys that
stand in several shards, follow from the catalog alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import checks
from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.checks.placed import Placed, from_text
from wdsctl.core.dataset_yaml import DatasetConfig, load
from wdsctl.core.key_list import key_list
from wdsctl.core.splitting_bits import Flags
from wdsctl.core.verbs.split_ground import Ground
from wdsctl.core.verbs.validate_parts import expected_parts, incomplete, needed_parts

#: What the catalog alone tells: keys that stand in several shards, samples without a part that they need.
OF_KEYS, OF_PARTS = "WDS106", "WDS108"
OF_CATALOG = frozenset((OF_KEYS, OF_PARTS))


@dataclass(frozen=True, slots=True)
class Known:
    """What validations have found by some codes, by shard and layout, and by level the shards that were looked at."""

    found: dict[tuple[str, str], tuple[Placed, ...]] = field(default_factory=dict)
    levels: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict)  # only those that found something

    def of(self, row: ShardRow) -> tuple[Placed, ...]:
        return self.found.get((row.path, row.layout_hash), ())

    def unseen(self, rows: Collection[ShardRow]) -> int:
        """How many of these shards were not looked at, with all their samples, on the levels that found something."""
        seen = frozenset.intersection(*self.levels.values()) if self.levels else None
        return 0 if seen is None else sum((row.path, row.layout_hash) not in seen for row in rows)


def known_by(ledger: Ledger, codes: Collection[str]) -> Known | None:
    """What is known by these codes; None where nothing is known at all, for nobody has validated the dataset."""
    rows = [row for row in checks(ledger).values() if row.shard]
    if not rows:
        return None
    found: dict[tuple[str, str], tuple[Placed, ...]] = {}
    levels: set[str] = set()
    for row in rows:
        told = from_text(row.findings) if any(code in row.findings for code in codes) else ()
        placed = tuple(each for each in told if each.finding.code in codes)
        if placed:
            levels.add(row.level)
            found[row.shard, row.layout_hash] = (*found.get((row.shard, row.layout_hash), ()), *placed)
    seen = {
        level: frozenset((row.shard, row.layout_hash) for row in rows if (row.level, row.reach) == (level, "all"))
        for level in sorted(levels)
    }
    return Known(dict(sorted(found.items())), seen)


def known_of_catalog(ground: Ground, code: str) -> Iterator[tuple[ShardRow, Flags]]:
    """By shard, the samples that one of the codes of `OF_CATALOG` is about, as `validate` would tell it now.

    Raises CatalogError WDS307 where keys are not in the catalog.
    """
    return _again(ground) if code == OF_KEYS else _lacking(ground)


def _again(ground: Ground) -> Iterator[tuple[ShardRow, Flags]]:
    """All samples of keys that stand in several shards, but for the first of each."""
    with Catalog(ground.place.catalog) as catalog:
        _, repeated = catalog.repeated_keys(sys.maxsize)
    listed = key_list([each.key for each in repeated])
    seen = np.zeros(len(repeated), np.bool_)
    for rows, index in ground.together(ground.rows if repeated else ()):
        found = listed.find(ground.offsets, index)
        at = np.flatnonzero(found >= 0)
        keys, firsts = np.unique(found[at], return_index=True)
        again = np.zeros(len(index), np.bool_)
        again[at] = True
        again[at[firsts[~seen[keys]]]] = False
        seen[keys] = True
        ends = np.cumsum([row.samples for row in rows])
        for row, mine in zip(rows, np.split(again, ends[:-1]), strict=True):
            if mine.any():
                yield row, mine


def _lacking(ground: Ground) -> Iterator[tuple[ShardRow, Flags]]:
    """The samples without a part that they should have."""
    path = ground.place.dataset_yaml
    config = load(path) if os.path.exists(path) else DatasetConfig()
    wanted = [*needed_parts(config), *expected_parts(ground.offsets, config)]
    for shard, places in incomplete(ground.offsets, wanted).items():
        row = ground.by_path[shard]
        flags = np.zeros(row.samples, np.bool_)
        flags[places] = True
        yield row, flags
