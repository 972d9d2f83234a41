"""`split_config`: the splits of a dataset by a file of Energon's form, in the place of those in its catalog.

What the catalog excludes, or has in quarantine, is in no split of a file either. Source of the form: see
`wdsctl.core.formats.split_yaml`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from wdsctl.core.braces import expanded
from wdsctl.core.catalog.quick import current_excluded
from wdsctl.core.counted import counted
from wdsctl.core.errors import DatasetError, InputError
from wdsctl.core.fields import did_you_mean
from wdsctl.core.formats.energon_meta import found_beside
from wdsctl.core.formats.split_yaml import SplitYaml, load_split_yaml
from wdsctl.core.key_list import key_list
from wdsctl.core.offsets import Offsets
from wdsctl.core.offsets_bounds import ShardEntry
from wdsctl.core.place import ENERGON_META, Place
from wdsctl.core.split_patterns import Patterns, shard_and_key
from wdsctl.core.splitting import SplitShard
from wdsctl.core.splitting_bits import Flags, flags_of, part_of

_NAMED = 3  # names in a message


def split_file(place: Place, name: str) -> str:
    """Where a file of this name is: beside dataset.yaml, or where Energon keeps its own. Raises InputError."""
    found = found_beside(place, name)
    if not os.path.isfile(found):
        raise InputError(
            f"there is no split_config {name!r}",
            where=found,
            hint=f"it is a file beside dataset.yaml, or in {ENERGON_META}, as Energon's split.yaml is",
        )
    return found


def split_of_file(place: Place, path: str, split: str) -> tuple[int, list[SplitShard]]:
    """The generation of the catalog, and the split that the file at `path` has by this name, in id order.

    Raises DatasetError WDS217 with file and line where the file is none, or names what the dataset does not have;
    InputError WDS211 where it has no such split; what catalog and offsets raise.
    Cost: a look-up a shard, and the keys of shards of which single samples are left out.
    """
    read = load_split_yaml(path)
    patterns = read.rule.patterns.get(split)
    if patterns is None:
        raise InputError(
            f"the file has no split {split!r}; it has {', '.join(read.rule.patterns)}",
            where=read.document.where("split_parts"),
            hint=did_you_mean(split, read.rule.patterns) or "split_part= chooses one",
            code="WDS211",
        )
    generation, excluded = current_excluded(place.catalog)
    offsets = Offsets(place.offsets(generation))
    gone = _gone(offsets, read, excluded)
    chosen = _matching(offsets, patterns, read.document.where("split_parts", split))
    parts = (_left(shard, gone.get(shard.id)) for shard in chosen if shard.samples)
    return generation, sorted(filter(None, parts), key=lambda part: part.shard)


def _matching(offsets: Offsets, patterns: Iterable[str], where: str) -> list[ShardEntry]:
    """The shards that are named. Raises DatasetError where a name is of none."""
    wanted = list(patterns)
    table = Patterns(wanted)
    found = {shard.path: table.find(shard.path) for shard in offsets.shards}
    check_named(absent(wanted, found), where)
    return [shard for shard in offsets.shards if found[shard.path]]


def absent(patterns: Iterable[str], found: Mapping[str, list[int]]) -> list[str]:
    """The names of shards that are not there, one by one where a range names them."""
    used = {number for numbers in found.values() for number in numbers}
    missing: list[str] = []
    for number, pattern in enumerate(patterns):
        if pattern.startswith("re:"):
            missing += [] if number in used else [pattern]
        else:
            missing += [name for name in expanded(pattern) if name not in found]
    return missing


def check_named(missing: Sequence[str], where: str) -> None:
    """Raise DatasetError WDS217 where names in a file are not in the dataset."""
    if missing:
        more = ", ..." if len(missing) > _NAMED else ""
        raise DatasetError(
            f"{counted(len(missing), 'name')} in the file {'is' if len(missing) == 1 else 'are'} not in the dataset: "
            f"{', '.join(missing[:_NAMED])}{more}",
            where=where,
            hint="paths are meant from the root of the dataset; `wdsctl ls DATASET` lists its shards",
            code="WDS217",
        )


def _gone(offsets: Offsets, read: SplitYaml, excluded: Mapping[int, SplitShard]) -> dict[int, Flags]:
    """By shard, which of its samples are left out: by the file, or by the catalog."""
    by_path = {shard.path: (place, shard) for place, shard in enumerate(offsets.shards)}
    gone = {
        shard.id: flags_of(excluded.get(shard.id), shard.samples) for shard in offsets.shards if shard.id in excluded
    }
    where = read.document.where("exclude")
    for shard in _matching(offsets, read.excludes.shards, where):
        gone[shard.id] = np.ones(shard.samples, np.bool_)
    wanted: dict[str, list[str]] = {}
    for name in (each for text in read.excludes.samples for each in expanded(text)):
        path, key = shard_and_key(name, by_path)
        wanted.setdefault(path, []).append(key)
    missing: list[str] = []
    for path, keys in wanted.items():
        if path not in by_path:
            missing += [f"{path}/{key}" for key in keys]
            continue
        place, shard = by_path[path]
        listed = key_list(keys)
        found = listed.find(offsets, np.arange(*offsets.shard_row[place : place + 2].tolist()))
        gone[shard.id] = gone.get(shard.id, np.zeros(shard.samples, np.bool_)) | (found >= 0)
        there = set(found.tolist())
        missing += [f"{path}/{key}" for row, key in enumerate(keys) if row not in there]
    check_named(missing, where)
    return gone


def _left(shard: ShardEntry, gone: Flags | None) -> SplitShard | None:
    return SplitShard(shard.id, shard.samples) if gone is None else part_of(shard.id, ~gone)
