"""Reads `split_config`: splits from a file in Energon's format, instead of those in the catalog.

Samples that the catalog excludes, and those in quarantine, are in no split of a file either. `split_yaml` describes the
format.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from wdsctl.core.catalog.splits import SampleFlags, SplitShard, sample_flags, shard_from_flags
from wdsctl.core.dataset.location import ENERGON_META_FOLDER, DatasetLocation
from wdsctl.core.dataset.shard_names import expand_braces
from wdsctl.core.dataset.shard_patterns import ShardPatterns, split_shard_and_key
from wdsctl.core.energon.meta import find_meta_file
from wdsctl.core.energon.split_yaml import SplitYaml, load_split_yaml, names_of_literal_pattern
from wdsctl.core.errors import DatasetError, InputError
from wdsctl.core.offsets.bounds import ShardEntry
from wdsctl.core.offsets.key_list import key_list
from wdsctl.core.offsets.read import Offsets, ShardIndex
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.text import pluralize

_MAX_NAMED = 3  # names in a message


def find_split_file(location: DatasetLocation, name: str) -> str:
    """The path of a split file: beside dataset.yaml, or in Energon's folder. Raises InputError if there is none."""
    found = find_meta_file(location, name)
    if not os.path.isfile(found):
        raise InputError(
            f"split_config {name!r} does not exist",
            where=found,
            hint=f"put the file beside dataset.yaml, or into {ENERGON_META_FOLDER} like Energon's split.yaml",
        )
    return found


def read_split_from_file(
    dataset: OpenDataset, path: str, split: str, *, in_file_order: bool = False
) -> list[SplitShard]:
    """The shards of one split of the file at `path`, by id or in the file's order.

    Raises DatasetError WDS217 with file and line if the file is invalid or names what the dataset does not have,
    InputError WDS211 if it has no such split; CatalogError.
    Cost: a lookup per shard, and the keys of shards from which single samples are excluded.
    """
    read = load_split_yaml(path)
    patterns = read.rule.patterns.get(split)
    if patterns is None:
        raise InputError(
            f"the file has no split {split!r}; it has {', '.join(read.rule.patterns)}",
            where=read.document.where("split_parts"),
            hint=did_you_mean(split, read.rule.patterns) or "pass one of these splits with split_part=",
            code="WDS211",
        )
    dataset.catalog.check_not_media_folder()
    offsets = dataset.offsets()
    excluded_flags = _excluded_flags(offsets, read, dataset.catalog.split_reader.excluded())
    chosen = _match_shards(offsets, patterns, read.document.where("split_parts", split))
    parts = (
        shard_from_flags(shard.id, ~excluded_flags[shard.id])
        if shard.id in excluded_flags
        else SplitShard(shard.id, shard.samples)
        for shard in chosen
        if shard.samples
    )
    found = sorted(filter(None, parts), key=lambda part: part.shard)
    return sort_by_patterns(found, offsets, patterns) if in_file_order else found


def sort_by_patterns(parts: Sequence[SplitShard], offsets: ShardIndex, patterns: Sequence[str]) -> list[SplitShard]:
    """Shards in the order in which the patterns of a split.yaml name them. Others stay behind, in their order."""
    if not patterns:
        return list(parts)
    names = (
        name
        for pattern in patterns
        for name in (names_of_literal_pattern(pattern) if pattern.startswith("re:") else expand_braces(pattern))
    )
    places: dict[str, int] = {}
    for name in names:
        places.setdefault(name, len(places))
    paths = {shard.id: shard.path for shard in offsets.shards}
    return sorted(parts, key=lambda part: places.get(paths.get(part.shard, ""), len(places)))


def _match_shards(offsets: Offsets, patterns: Iterable[str], where: str) -> list[ShardEntry]:
    """The shards that match. Raises DatasetError if a name matches none."""
    names = list(patterns)
    table = ShardPatterns(names)
    found = {shard.path: table.find(shard.path) for shard in offsets.shards}
    check_none_missing(find_absent(names, found), where)
    return [shard for shard in offsets.shards if found[shard.path]]


def find_absent(patterns: Iterable[str], found: Mapping[str, list[int]]) -> list[str]:
    """The names without a shard; a range is expanded."""
    used = {number for numbers in found.values() for number in numbers}
    missing: list[str] = []
    for number, pattern in enumerate(patterns):
        if pattern.startswith("re:"):
            missing += [] if number in used else names_of_literal_pattern(pattern)
        else:
            missing += [name for name in expand_braces(pattern) if name not in found]
    return missing


def check_none_missing(missing: Sequence[str], where: str) -> None:
    """Raise DatasetError WDS217 for names that are not in the dataset."""
    if missing:
        more = ", ..." if len(missing) > _MAX_NAMED else ""
        raise DatasetError(
            f"{pluralize(len(missing), 'name')} in the file {'is' if len(missing) == 1 else 'are'} not in the dataset: "
            f"{', '.join(missing[:_MAX_NAMED])}{more}",
            where=where,
            hint="write paths below the root of the dataset, without wildcards; `wdsctl ls DATASET` lists its shards",
            code="WDS217",
        )


def _excluded_flags(
    offsets: Offsets, split_yaml: SplitYaml, excluded: Mapping[int, SplitShard]
) -> dict[int, SampleFlags]:
    """By shard, the samples that the file or the catalog excludes."""
    by_path = {shard.path: (index, shard) for index, shard in enumerate(offsets.shards)}
    excluded_flags = {
        shard.id: sample_flags(excluded.get(shard.id), shard.samples)
        for shard in offsets.shards
        if shard.id in excluded
    }
    where = split_yaml.document.where("exclude")
    for shard in _match_shards(offsets, split_yaml.excludes.shards, where):
        excluded_flags[shard.id] = np.ones(shard.samples, np.bool_)
    keys_by_shard: dict[str, list[str]] = {}
    for name in (each for text in split_yaml.excludes.samples for each in expand_braces(text)):
        path, key = split_shard_and_key(name, by_path)
        keys_by_shard.setdefault(path, []).append(key)
    missing: list[str] = []
    for path, keys in keys_by_shard.items():
        if path not in by_path:
            missing += [f"{path}/{key}" for key in keys]
            continue
        index, shard = by_path[path]
        key_rows = key_list(keys)
        found = key_rows.find(offsets, np.arange(*offsets.shard_row[index : index + 2].tolist()))
        excluded_flags[shard.id] = excluded_flags.get(shard.id, np.zeros(shard.samples, np.bool_)) | (found >= 0)
        matched_rows = set(found.tolist())
        missing += [f"{path}/{key}" for row, key in enumerate(keys) if row not in matched_rows]
    check_none_missing(missing, where)
    return excluded_flags
