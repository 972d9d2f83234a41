"""A set of splits as Energon's `split.yaml`."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass

from wdsctl.core.catalog.split_rows import Parts
from wdsctl.core.errors import UsageError
from wdsctl.core.files import write_text
from wdsctl.core.folders import resolved
from wdsctl.core.formats.split_yaml import split_yaml, unsayable_key, unsayable_parts
from wdsctl.core.place import locate
from wdsctl.core.progress import SILENT
from wdsctl.core.splitting_bits import flags_of
from wdsctl.core.verbs.presence import check_catalog
from wdsctl.core.verbs.split_ground import Ground
from wdsctl.core.verbs.split_state import ground_of, no_such_set, parts_of_set, state_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """`path`: where it went; empty where it is only handed back, as `text`."""

    root: str
    set: str
    path: str
    text: str
    splits: dict[str, int]  # shards of each
    excluded: int  # entries


def export_split(
    root: str, path: str, *, of_set: str = "", catalog: str | None = None, overwrite: bool = False
) -> ExportReport:
    """Write the splits of a set to `path`; to nowhere if it is empty.

    Raises DatasetError WDS217 where the format cannot say it: shards that are divided between splits, names with
    braces; UsageError where the file is there; InputError WDS211 where there are no such splits.
    """
    place = locate(root, catalog)
    check_catalog(place)
    state = state_of(place)
    if of_set not in state.rules:
        raise no_such_set(of_set, state, place.shown)
    if path and os.path.exists(path) and not overwrite:
        raise UsageError("the file is there", where=path, hint="`--yes` writes over it")
    ground = ground_of(place, 1, SILENT, keeps=False)
    parts = parts_of_set(place, of_set)
    shards, samples = _left_out(ground, parts)
    splits = {name: [row.path for row in ground.rows if row.id in mine] for name, mine in parts.items()}
    text = split_yaml(splits, shards, samples)
    if path:
        write_text(resolved(path), text)
    return ExportReport(
        root=place.shown,
        set=of_set,
        path=path,
        text=text,
        splits={name: len(paths) for name, paths in splits.items()},
        excluded=len(shards) + len(samples),
    )


def _left_out(ground: Ground, parts: Parts) -> tuple[list[str], list[str]]:
    """Shards of which no split has anything, and samples of the others that no split has."""
    shards: list[str] = []
    samples: list[str] = []
    torn = [row.path for row in ground.rows if sum(row.id in mine for mine in parts.values()) > 1]
    if torn:
        raise unsayable_parts(len(torn), torn[0])
    for row in ground.rows:
        mine = next((found[row.id] for found in parts.values() if row.id in found), None)
        if mine is None:
            shards.append(row.path)
        elif mine.bits is not None:
            first = ground.first_row(row)
            keys = [ground.offsets.key(first + i) for i in range(row.samples)]
            gone = [key for key, is_in in zip(keys, flags_of(mine, row.samples), strict=True) if not is_in]
            times, gone_times = Counter(keys), Counter(gone)
            both = next((key for key in gone_times if times[key] != gone_times[key]), None)
            if both is not None:
                raise unsayable_key(f"{row.path}/{both}")
            samples += [f"{row.path}/{key}" for key in gone_times]
    return shards, samples
