"""Makes datasets of a conversion's files: index, dataset.yaml, splits by sample.

Of a polylithic layout, also what it needs to be trained from, and to be put together again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.drafting import drafting
from wdsctl.core.convert.blend import blend_text, cook_text
from wdsctl.core.convert.importers.polylithic import MARK
from wdsctl.core.convert.origins import origins_of
from wdsctl.core.convert.part_rules import new_name
from wdsctl.core.convert.plan_file import Done, PlanFile, PlannedUnit
from wdsctl.core.convert.recipe import Recipe
from wdsctl.core.dataset_yaml import DatasetConfig, dump, load
from wdsctl.core.errors import DatasetError, InputError
from wdsctl.core.field_path import Access, FieldPath, parse_field_path
from wdsctl.core.fields import validate_field_map
from wdsctl.core.files import write_text
from wdsctl.core.findings import Finding
from wdsctl.core.folders import inside
from wdsctl.core.json_text import read_json
from wdsctl.core.lock import check_held, locked
from wdsctl.core.naming import FIRST_DOT
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import Progress
from wdsctl.core.sample_types import CRUDE
from wdsctl.core.selections import part_of
from wdsctl.core.split_rules import SplitRule, set_and_name
from wdsctl.core.splitting import SplitShard
from wdsctl.core.transcode.parts import written_name
from wdsctl.core.verbs.convert_carry import Carrying, Lost, carry, carrying_of, lost_findings, lost_of
from wdsctl.core.verbs.convert_report import ConvertedDataset, ConvertOptions
from wdsctl.core.verbs.convert_sources import Opened
from wdsctl.core.verbs.describe import Asked, describe
from wdsctl.core.verbs.index import IndexRequest, index_at
from wdsctl.core.verbs.split import settle_split

#: What a dataset was called before it was taken apart: its dataset.yaml, beside primary and media.
MONOLITHIC = "monolithic.yaml"

#: All that a conversion leaves beside primary and media.
BESIDE = (MARK, "blend.yaml", "cook.py", MONOLITHIC)


class Written(NamedTuple):
    """All units of a plan are in their places below `dest`; `units` are those that have samples."""

    plan: PlanFile
    units: Sequence[PlannedUnit]
    done: Mapping[int, Done]
    recipe: Recipe
    dest: str


@dataclass(frozen=True, slots=True)
class Finished:
    datasets: tuple[ConvertedDataset, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]


def finish(written: Written, opened: Opened, options: ConvertOptions, outer: Place, progress: Progress) -> Finished:
    """Prepare every dataset that was written, as far as it can be trained from. Again after a kill, it goes on."""
    plan, units, done, recipe, dest = written
    names: list[str] = read_json(plan.facts()["splits"])
    config = common_config(opened.configs)
    carrying = carrying_of(opened, recipe, [unit.stream for unit in units] if options.is_prepared else ())
    datasets, findings, notes, lost = [], [], list[str](), list[Lost]()
    for below, some in groupby(units, key=lambda unit: unit.dataset):
        mine = list(some)
        root = inside(dest, below).rstrip("/")
        size = sum(done[unit.id].size_bytes for unit in mine)
        made = ConvertedDataset(
            path=root, files=len(mine), samples=sum(done[unit.id].samples for unit in mine), size_bytes=size
        )
        if options.is_prepared:
            work = _Work(plan, mine, done, recipe, names, config, options, carrying)
            made, found, gone = _prepared(root, made, work, outer, progress)
            findings += found
            lost += gone
        datasets.append(made)
    if options.compress == "gz":
        notes.append("compressed shards cannot be trained from: `wdsctl convert` unpacks them")
    if recipe.media:
        for folder in sorted({unit.folder for unit in units}):
            _write_beside(inside(outer.written, folder), config, recipe, names)
        notes.append("blend.yaml trains from both, with the cooker in cook.py beside it")
    return Finished(tuple(datasets), (*findings, *lost_findings(lost)), tuple(notes))


@dataclass(frozen=True, slots=True)
class _Work:
    """What one dataset is made ready from."""

    plan: PlanFile
    units: Sequence[PlannedUnit]
    done: Mapping[int, Done]
    recipe: Recipe
    names: Sequence[str]  # of the splits
    config: DatasetConfig | None
    options: ConvertOptions
    carrying: Carrying


def _prepared(
    root: str, made: ConvertedDataset, work: _Work, outer: Place, progress: Progress
) -> tuple[ConvertedDataset, list[Finding], list[Lost]]:
    place = locate(root, writing=True, home=inside(outer.written, work.units[0].dataset).rstrip("/"))
    lock: AbstractContextManager[None] = nullcontext()
    if place.lock != outer.lock:
        lock = locked(place.lock, wait=work.options.wait, note=progress.note)
    is_lines = work.units[0].stream == "primary" and work.recipe.primary == "jsonl"
    lost: list[Lost] = []
    with lock:
        request = IndexRequest(
            workers=work.options.workers,
            key="key" if is_lines else None,
            key_until=None if is_lines else FIRST_DOT,
            is_ours=True,
        )
        report = index_at(place, request, progress)
        progress.phase("finish")
        if not os.path.exists(place.dataset_yaml):
            config = _config(place, work)
            if config is not None:
                write_text(place.dataset_yaml, dump(config))
        if report.samples:
            describe(place, report.generation, Asked(), progress)
            _carry_splits(place, work)
            settle_split(place, None, "auto", 0, progress)
            columns, media, lost = _carry(place, report.generation, work, progress)
            made = replace(made, columns=columns, media=media)
        with Catalog(place.catalog) as catalog:
            splits = {split.name: split.samples for split in catalog.splits()}
    kind = load(place.dataset_yaml).sample_type if os.path.exists(place.dataset_yaml) else ""
    return replace(made, sample_type=kind, splits=splits), list(report.findings), lost


def common_config(configs: Iterable[DatasetConfig | None]) -> DatasetConfig | None:
    """What all sources say of their samples; None where they differ, or one says nothing."""
    plain = [None if config is None else _of_samples(config) for config in configs]
    return plain[0] if plain and all(config == plain[0] for config in plain) else None


def _of_samples(config: DatasetConfig) -> DatasetConfig:
    """Without splits and excludes, which are carried over by sample, and without code, which lies elsewhere."""
    if config.sample_loader or isinstance(config.part_filter, str):
        config = replace(config, sample_loader="", part_filter=(), sample_type=CRUDE)
    return DatasetConfig(
        config.sample_type,
        config.field_map,
        config.subflavors,
        part_filter=config.part_filter,
        optional=config.optional,
    )


def _config(place: Place, work: _Work) -> DatasetConfig | None:
    """dataset.yaml as the source had it, with the parts under their new names; None where it has to be found out."""
    config = work.config
    if work.units[0].stream:
        return DatasetConfig(subflavors=config.subflavors if config else {})
    if config is None:
        return None
    with Catalog(place.catalog) as catalog:
        there = [part.name for part in catalog.parts()]
    changed = {name: _moved(source, work.recipe) for name, source in config.field_map.items()}
    kept = tuple(_new(name, work.recipe) or "" for name in config.part_filter)
    fitting = {name: path for name, path in changed.items() if path is not None}
    if len(fitting) < len(changed) or "" in kept:
        return None
    try:
        validate_field_map(config.sample_type, fitting, there, where="dataset.yaml")
    except (DatasetError, InputError):
        return None
    names = (name if name in fitting else _new(name, work.recipe) or "" for name in config.optional)
    return replace(config, field_map=fitting, part_filter=kept, optional=tuple(filter(None, names)))


def _moved(source: str, recipe: Recipe) -> str | None:
    """A field's path with the new names of its parts; None where nothing is left of it."""
    accesses = [
        Access(new, access.steps)
        for access in parse_field_path(source).alternatives
        if (new := _new(access.part, recipe)) is not None
    ]
    return str(FieldPath(tuple(dict.fromkeys(accesses)))) if accesses else None


def _new(name: str, recipe: Recipe) -> str | None:
    """What a part is called when it has been renamed and written anew."""
    new = new_name(recipe.parts, name)
    if new is None:
        return None
    return written_name(new, recipe.image, recipe.audio)


def _carry_splits(place: Place, work: _Work) -> None:
    """Give every sample the splits that it had in its source. Nothing is done where the source had none."""
    if not work.names or work.units[0].stream == "media":
        return
    with Catalog(place.catalog) as catalog:
        shards = {shard.path: shard for shard in catalog.shards()}
        if catalog.splits():
            return
    found: dict[int, list[SplitShard]] = {b: [] for b in range(len(work.names))}
    for unit in work.units:
        shard = shards.get(unit.name)
        bits = origins_of(work.plan, unit, work.done)["splits"]
        if shard is None or shard.samples != len(bits):
            continue  # a damaged shard, which the index has told
        for b, parts in found.items():
            part = part_of(shard.id, (bits >> b & 1).astype(np.bool_))
            if part.samples:
                parts.append(part)
    _write_splits(place, {name: found[b] for b, name in enumerate(work.names) if found[b]})


def _carry(place: Place, generation: int, work: _Work, progress: Progress) -> tuple[tuple[str, ...], int, list[Lost]]:
    """Columns and facts of media; none where the index found other samples in a shard than were written."""
    units = {unit.name: unit for unit in work.units}
    with Catalog(place.catalog) as catalog:
        shards = catalog.shards()
    stream = work.units[0].stream
    if any(each.path not in units or each.samples != work.done[units[each.path].id].samples for each in shards):
        return (), 0, lost_of(place.shown, work.carrying, stream, work.carrying.unfit(stream))
    return carry(
        place,
        generation,
        work.carrying,
        stream,
        lambda path: origins_of(work.plan, units[path], work.done),
        progress,
    )


def _write_splits(place: Place, splits: Mapping[str, Sequence[SplitShard]]) -> None:
    """Each set as its splits were met; shares are what they have, so that samples that come later are dealt alike."""
    sets: dict[str, dict[str, Sequence[SplitShard]]] = {}
    for name, parts in splits.items():
        of_set, short = set_and_name(name)
        sets.setdefault(of_set, {})[short] = parts
    with drafting(place.catalog, ready=partial(check_held, place.lock)) as draft:
        for of_set, named in sets.items():
            shares = {short: float(sum(part.samples for part in parts)) for short, parts in named.items()}
            draft.splits.begin_set(of_set, SplitRule(shares, by="sample"))
            for short, parts in named.items():
                draft.splits.add(of_set, short, parts)


def _write_beside(folder: str, config: DatasetConfig | None, recipe: Recipe, names: Sequence[str]) -> None:
    """Beside primary and media: how to train from both, and how to make one of them again."""
    facts = {"version": 1, "primary": "primary", "media": "media", "form": recipe.primary, "parts": recipe.media}
    write_text(os.path.join(folder, MARK), json.dumps(facts, indent=2) + "\n")
    write_text(os.path.join(folder, "blend.yaml"), blend_text([name for name in names if "/" not in name]))
    write_text(os.path.join(folder, "cook.py"), cook_text(config or DatasetConfig(), recipe))
    path = os.path.join(folder, MONOLITHIC)
    if config is not None:
        write_text(path, dump(config))
