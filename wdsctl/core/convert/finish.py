"""Make datasets of the files that a conversion wrote: catalog, media facts, columns, dataset.yaml, splits.

A polylithic layout also gets a blend file and a cooker for training, and the files for converting it back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Literal

import numpy as np

from wdsctl.core.catalog.splits import SplitShard, sample_flags
from wdsctl.core.convert.carry import (
    CarryPlan,
    ColumnDropped,
    DroppedItem,
    carry_columns,
    dropped_findings,
    media_flags,
    plan_carry,
)
from wdsctl.core.convert.conversion_report import ConvertedDataset
from wdsctl.core.convert.labels import check_masks_not_selected
from wdsctl.core.convert.parts import matches_any, renamed_part_name, transcoded_name
from wdsctl.core.convert.plan_file import PlanFile, PlannedUnit, SampleOrigins, UnitResult
from wdsctl.core.convert.polylithic import blend_yaml, cooker_code
from wdsctl.core.convert.request import ConvertRequest, Stream
from wdsctl.core.convert.sources import OpenSources
from wdsctl.core.dataset.config import DatasetConfig, dump_config, load_config
from wdsctl.core.dataset.location import DatasetLocation, locate, shell_command
from wdsctl.core.dataset.lock import lock_dataset
from wdsctl.core.dataset.polylithic import MARKER_FILE, MONOLITHIC_CONFIG_FILE
from wdsctl.core.directories import join_beneath
from wdsctl.core.errors import DatasetError, Finding, InputError, UsageError
from wdsctl.core.files import remove_tree, write_text
from wdsctl.core.importers.polylithic import PolylithicSource
from wdsctl.core.importers.shards import ShardsSource
from wdsctl.core.index.index import IndexRequest, index_staged
from wdsctl.core.index.media import update_media
from wdsctl.core.index.picture_sizes import write_drawn_on
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.index.write_dataset_yaml import SampleTypeRequest, write_dataset_yaml
from wdsctl.core.media.selection import parse_media_selection
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.staging import CatalogStage, change_catalog, stage_catalog
from wdsctl.core.progress import Progress
from wdsctl.core.samples.field_map import merge_field_maps, parse_field_map, validate_field_map
from wdsctl.core.samples.field_path import FieldPath, PartAccess, parse_field_path
from wdsctl.core.samples.fields import find_parts, is_collecting
from wdsctl.core.samples.naming import FIRST_DOT
from wdsctl.core.samples.types import CRUDE, SAMPLE_TYPES, has_geometry
from wdsctl.core.split.split import ensure_split
from wdsctl.core.split.store import store_key_list
from wdsctl.core.split_rules.names import NO_SPLIT, split_set_and_name
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.views.selections import shard_selection

#: Keys that the lists of splits may have: 20 bytes each in files, and as much in memory.
_MAX_LISTED_KEYS = 50_000_000

#: The files that a conversion writes next to primary and media.
SIDE_FILES = (MARKER_FILE, "blend.yaml", "cook.py", MONOLITHIC_CONFIG_FILE)


@dataclass(frozen=True, slots=True)
class _WrittenDataset:
    """The written units of one output dataset, with the plan and request that they come from."""

    plan: PlanFile
    units: Sequence[PlannedUnit]
    done: Mapping[int, UnitResult]
    request: ConvertRequest
    split_names: Sequence[str]
    config: DatasetConfig | None
    is_new: bool  # no source has a dataset.yaml
    carry_plan: CarryPlan

    @property
    def stream(self) -> Stream:
        return self.units[0].stream

    @property
    def is_jsonl(self) -> bool:
        return self.stream == "primary" and self.request.primary == "jsonl"

    def origins(self, unit: PlannedUnit) -> SampleOrigins:
        return written_origins(self.plan, unit, self.done)


def finish_datasets(
    plan: PlanFile,
    units: Sequence[PlannedUnit],
    done: Mapping[int, UnitResult],
    dest: str,
    opened: OpenSources,
    request: ConvertRequest,
    outer_location: DatasetLocation,
    progress: Progress,
) -> tuple[tuple[ConvertedDataset, ...], list[Finding], list[str]]:
    """Index every written dataset; returns (datasets, findings, notes). May run again after a kill.

    `units`: the units that have samples. `outer_location`: the location of `dest`; the caller holds its lock.
    """
    split_names: list[str] = plan.value("splits", list)
    config = common_config(opened, request)
    prepared = (isinstance(each, (ShardsSource, PolylithicSource)) for each in opened.sources)
    is_new = not any(map(all, zip(prepared, opened.configs, strict=True)))
    carry_plan = plan_carry(opened, request, [unit.stream for unit in units] if request.makes_datasets else ())
    datasets, findings, dropped, notes = [], [], list[DroppedItem](), list[str]()
    for folder, grouped in groupby(units, key=lambda unit: unit.dataset):
        some = list(grouped)
        root = join_beneath(dest, folder).rstrip("/")
        dataset = ConvertedDataset(
            path=root,
            files=len(some),
            samples=sum(done[unit.id].samples for unit in some),
            size_bytes=sum(done[unit.id].size_bytes for unit in some),
        )
        if request.makes_datasets:
            written = _WrittenDataset(plan, some, done, request, split_names, config, is_new, carry_plan)
            dataset, found, lost = _index_dataset(root, dataset, written, outer_location, progress)
            findings += found
            dropped += lost
        datasets.append(dataset)
    if request.compress == "gz":
        notes.append("the loader cannot read compressed shards: unpack them with `wdsctl convert` before training")
    if request.media:
        for folder in sorted({unit.folder for unit in units}):
            root = join_beneath(outer_location.root_to_write, folder)
            facts = {"version": 1, "primary": "primary", "media": "media", "form": request.primary}
            facts |= {"parts": request.media, "part_samples": plan.value("part_samples", dict)}
            facts |= {"shared": True} if plan.has_shared_parts() else {}
            write_text(os.path.join(root, MARKER_FILE), json.dumps(facts, indent=2) + "\n")
            write_training_files(root, config, request.primary, split_names)
        notes.append(
            "to train, pass DEST to the loader as one dataset; or pass its blend.yaml, with the cooker in cook.py"
        )
    if config is None and request.makes_datasets and request.finish:
        findings += lost_field_findings(opened, datasets, request)
    return tuple(datasets), [*findings, *dropped_findings(dropped)], notes


def written_origins(plan: PlanFile, unit: PlannedUnit, done: Mapping[int, UnitResult]) -> SampleOrigins:
    """(samples,) Origins of the samples in a written unit, as `PlanFile.origins`, without samples that are left out."""
    units = done.values() if unit.stream == "primary" else [done[unit.id]]
    left_out = [position for each in units for position in each.left_out]
    found = plan.origins(unit.first, unit.last)
    if unit.stream == "media":
        found = found[found["media"] > 0]
    return found[~np.isin(found["pos"], left_out)] if left_out else found


def _index_dataset(
    root: str,
    converted: ConvertedDataset,
    written: _WrittenDataset,
    outer_location: DatasetLocation,
    progress: Progress,
) -> tuple[ConvertedDataset, list[Finding], list[DroppedItem]]:
    real_root = join_beneath(outer_location.root_to_write, written.units[0].dataset).rstrip("/")
    location = locate(root, writing=True, real_root=real_root)
    lock: AbstractContextManager[None] = nullcontext()
    if location.lock != outer_location.lock:
        lock = lock_dataset(location, wait=written.request.wait, note=progress.note)
    findings: list[Finding] = []
    dropped: list[DroppedItem] = []
    media = 0
    with lock, OpenDataset(location) as dataset:
        index_request = IndexRequest(
            workers=written.request.workers,
            key="key" if written.is_jsonl else None,
            key_until=None if written.is_jsonl else FIRST_DOT,
            skip_key_checks=True,
        )
        with stage_catalog(dataset) as stage:
            report = index_staged(stage, index_request, progress)
            findings += report.findings
            progress.phase("finish")
            if not dataset.has_config():
                config = _destination_config(dataset, written)
                if config is not None:
                    write_text(location.config_path, dump_config(config))
            if report.samples:
                if written.request.finish:
                    base = DatasetConfig(subflavors=written.config.subflavors) if written.config else None
                    write_dataset_yaml(dataset, report.generation, SampleTypeRequest(), progress, base)
                about_sizes = write_drawn_on(dataset, report.generation, "", is_new=written.is_new)[1]
                findings += about_sizes if written.request.finish else ()  # otherwise `prepare` reports them
                if written.request.carries_splits:
                    _carry_splits(dataset, report.generation, written)
                if written.request.finish:
                    ensure_split(dataset, None, "auto", 0, progress)
                media, found, dropped = _compute_media_facts(stage, root, written, progress)
                findings += found
        if report.samples:
            columns, lost = _carry_columns(dataset, report.generation, written, has_media=media > 0, progress=progress)
            dropped += written.carry_plan.dropped_items(location.display_path, written.stream, lost)
            converted = replace(converted, columns=columns, media=media)
        splits = {split.name: split.samples for split in dataset.catalog.splits()}
        sample_type = dataset.config.sample_type if dataset.has_config() else ""
    return replace(converted, sample_type=sample_type, splits=splits), findings, dropped


def common_config(opened: OpenSources, request: ConvertRequest) -> DatasetConfig | None:
    """The dataset.yaml for the samples of all sources, without splits; None if a source has none, or they differ.

    Field maps may differ if `merge_field_maps` can merge them and no part gets another name. Subflavors that differ are
    left out.
    """
    plain = [without_splits(config) for config in opened.configs if config is not None]
    if not plain or len(plain) < len(opened.configs):
        return None
    first = plain[0]
    subflavors = first.subflavors if all(config.subflavors == first.subflavors for config in plain) else {}
    same = [replace(config, field_map=first.field_map, optional=(), subflavors={}) for config in plain]
    maps = [config.field_map for config in plain]
    if any(config != same[0] for config in same):
        return None
    optional = tuple(dict.fromkeys(name for config in plain for name in config.optional))
    if all(field_map == first.field_map for field_map in maps):
        return replace(first, subflavors=subflavors, optional=optional)
    if request.parts.rename or not all(isinstance(source, ShardsSource) for source in opened.sources):
        return None
    parts = [_part_names(source) for source in opened.sources if isinstance(source, ShardsSource)]
    merged = merge_field_maps(first.sample_type, list(zip(maps, parts, strict=True)))
    return None if merged is None else replace(first, field_map=merged, subflavors=subflavors, optional=optional)


def check_one_geometry(request: ConvertRequest, opened: OpenSources) -> None:
    """Raises UsageError for sources whose labels are drawn on different images, since one dataset has one rule, and for
    masks that would be re-encoded as images.
    """
    check_masks_not_selected(request, opened.specs)
    labelled = [spec for spec in opened.specs if has_geometry(name for name, _ in spec.field_map)]
    rules = {spec.drawn_on or "not known": spec.path for spec in labelled}
    if len(rules) > 1:
        listed = ", ".join(f"{path}: {drawn_on}" for drawn_on, path in rules.items())
        raise UsageError(
            f"the labels of the sources are drawn on different images ({listed})",
            hint="convert each source to a dataset of its own, and blend them; or, if a dataset.yaml only does not say "
            "what labels are drawn on, write `drawn_on: shown` or `drawn_on: stored` into it",
        )


def _part_names(source: ShardsSource) -> list[str]:
    with OpenDataset(source.location) as dataset:
        return [part.name for part in dataset.catalog.parts()]


def lost_field_findings(
    opened: OpenSources, datasets: Iterable[ConvertedDataset], request: ConvertRequest
) -> Iterator[Finding]:
    """A warning WDS347 for each source with fields that the detected sample type of a dataset does not read.

    The parts in the message have their names in the destination.
    """
    paths = [locate(dataset.path).config_path for dataset in datasets]
    read = [load_config(path) for path in paths if os.path.exists(path)]
    before = [(spec, config) for spec, config in zip(opened.specs, opened.configs, strict=True) if config is not None]
    for spec, config in before:
        for after in read:
            used = {access for path in parse_field_map(after.field_map).values() for access in path.alternatives}
            renamed = {name: _rename_field_parts(path, request) for name, path in config.field_map.items()}
            lost = [
                f"{name} ({path})"
                for name, path in renamed.items()
                if path is not None and not used.intersection(parse_field_path(path).alternatives)
            ]
            if lost and after.sample_type != CRUDE:
                yield Finding(
                    code="WDS347",
                    severity="warning",
                    message=f"{after.sample_type} does not read {', '.join(lost)} of the samples from {spec.path}",
                )
                break


def without_splits(config: DatasetConfig) -> DatasetConfig:
    """Remove splits and excludes, which `convert` copies per sample, and code, which is in the source's folder."""
    if config.sample_loader or isinstance(config.part_filter, str):
        config = replace(config, sample_loader="", part_filter=(), sample_type=CRUDE)
    return DatasetConfig(
        config.sample_type,
        config.field_map,
        config.subflavors,
        part_filter=config.part_filter,
        optional=config.optional,
        drawn_on=config.drawn_on,
    )


def _destination_config(dataset: OpenDataset, written: _WrittenDataset) -> DatasetConfig | None:
    """The sources' dataset.yaml with the new names of parts, without optional fields that no sample has; None if the
    sample type must be detected.
    """
    config = written.config
    if written.stream:
        return DatasetConfig(subflavors=config.subflavors if config else {})
    if config is None:
        return None
    parts = [part.name for part in dataset.catalog.parts()]
    request = written.request
    renamed = {name: _rename_field_parts(source, request) for name, source in config.field_map.items()}
    part_filter = tuple(_destination_part_name(name, request) or "" for name in config.part_filter)
    field_map = {name: path for name, path in renamed.items() if path is not None}
    if len(field_map) < len(renamed) or "" in part_filter:
        return None
    kinds = {field.name: field.kind for field in SAMPLE_TYPES.get(config.sample_type, ())}
    absent = {
        name
        for name, path in field_map.items()
        if name in config.optional and not find_parts(parse_field_path(path), parts, kinds.get(name, "any"))
    }
    field_map = {name: path for name, path in field_map.items() if name not in absent}
    try:
        validate_field_map(config.sample_type, field_map, parts, where="dataset.yaml")
    except (DatasetError, InputError):
        return None
    optional = (
        name if name in field_map else _destination_part_name(name, request) or ""
        for name in config.optional
        if name not in absent
    )
    return replace(config, field_map=field_map, part_filter=part_filter, optional=tuple(filter(None, optional)))


def check_renames_in_lists(config: DatasetConfig | None, request: ConvertRequest) -> None:
    """Raises UsageError for a rename that would change the order of the media in a list, which is that of their names.

    A new extension is not refused: the order is that of the rest of the name.
    """
    if config is None or not request.parts.rename:
        return
    kinds = {field.name: field.kind for field in SAMPLE_TYPES.get(config.sample_type, ())}
    for name, source in config.field_map.items():
        path, kind = parse_field_path(source), kinds.get(name, "any")
        has_several = len(path.alternatives) > 1 or any(access.is_pattern for access in path.alternatives)
        for old, new in request.parts.rename:
            moves = old.rpartition(".")[0] != new.rpartition(".")[0]
            if moves and has_several and is_collecting(path, kind) and find_parts(path, (old,), kind):
                raise UsageError(
                    f"the field {name} takes {source} sorted by name, and the new name {new!r} may change that "
                    f"order (now {old!r})",
                    where="--rename-part",
                    hint=f"omit the rename; if no sample has several such parts, write `{name}: {old}` in "
                    "dataset.yaml first",
                )


def _rename_field_parts(source: str, request: ConvertRequest) -> str | None:
    """The path of a field with the new names of its parts; None if the destination has none of them.

    A pattern stays, beside the new names of parts that it matches and that are renamed or transcoded.
    """
    accesses = []
    for access in parse_field_path(source).alternatives:
        if access.is_pattern:
            accesses += [access, *_renamed_by_pattern(access.part, request)]
        elif (name := _destination_part_name(access.part, request)) is not None:
            accesses.append(PartAccess(name, access.steps))
    return str(FieldPath(tuple(dict.fromkeys(accesses)))) if accesses else None


def _renamed_by_pattern(pattern: str, request: ConvertRequest) -> list[PartAccess]:
    """The names in the destination that a pattern of the source no longer matches."""
    transcoded = [each.parts for each in (request.image, request.audio) if each is not None]
    named = [old for old, _ in request.parts.rename] + [name for names in transcoded for name in names]
    new_names = [_destination_part_name(name, request) for name in (pattern, *named) if matches_any(name, (pattern,))]
    return [
        PartAccess(name, is_pattern="*" in name)
        for name in new_names
        if name is not None and not matches_any(name, (pattern,))
    ]


def _destination_part_name(name: str, request: ConvertRequest) -> str | None:
    """The name of a part after renaming and transcoding; None if the destination does not have the part."""
    new_name = renamed_part_name(request.parts, name)
    return None if new_name is None else transcoded_name(new_name, request.image, request.audio)


def _carry_splits(dataset: OpenDataset, generation: int, written: _WrittenDataset) -> None:
    """Copy the splits of every sample from its source, unless the destination has splits already."""
    if not written.split_names or written.stream == "media":
        return
    if dataset.catalog.splits():
        return
    shards = {shard.path: shard for shard in dataset.catalog.shards()}
    found: dict[int, list[SplitShard]] = {number: [] for number in range(len(written.split_names))}
    for unit in written.units:
        shard = shards.get(unit.name)
        bits = written.origins(unit)["splits"]
        if shard is None or shard.samples != len(bits):
            continue  # a damaged shard, which `index` has reported
        for number, parts in found.items():
            part = shard_selection(shard.id, (bits >> number & 1).astype(np.bool_))
            if part.samples:
                parts.append(part)
    splits = {name: found[number] for number, name in enumerate(written.split_names) if found[number]}
    _write_splits(dataset, generation, splits)


def _compute_media_facts(
    stage: CatalogStage, root: str, written: _WrittenDataset, progress: Progress
) -> tuple[int, list[Finding], list[DroppedItem]]:
    """Compute media facts if the sources have them; returns (number of media, findings, dropped items)."""
    settings, request = written.carry_plan.media, written.request
    if settings is None or written.is_jsonl:
        return 0, [], []
    selection = parse_media_selection(settings.selection)
    names = [part.name for part in stage.dataset.catalog.parts()]
    if selection.globs or any(selection.guess_by_name(f".{name}") != "no" for name in names):
        media_request = MediaRequest(selection=settings.selection, keyframes=settings.keyframes)
        report, found = update_media(
            stage.dataset, media_request, workers=request.workers, dry_run=False, progress=progress
        )
        stage.after_publish(partial(remove_tree, stage.location.media_work_folder))
        media = sum(report.counts.values()) if report is not None else 0
        if media:
            return media, found, []
    if written.stream == "primary" or not (request.parts.rename or request.image or request.audio):
        return 0, [], []
    reason = f"`{' '.join(media_flags(settings))}` matches no part"
    return 0, [], [DroppedItem("media facts", reason, shell_command("index", root, "--media"))]


def _carry_columns(
    dataset: OpenDataset, generation: int, written: _WrittenDataset, *, has_media: bool, progress: Progress
) -> tuple[tuple[str, ...], list[tuple[str, ColumnDropped]]]:
    """Copy columns; returns (names of the copied columns, dropped columns).

    Drops all columns if `index` found another number of samples in a shard.
    """
    units = {unit.name: unit for unit in written.units}
    shards = dataset.catalog.shards()
    carried = written.carry_plan.columns.get(written.stream, ())
    if any(each.path not in units or each.samples != written.done[units[each.path].id].samples for each in shards):
        reason = "the shards do not contain the samples that the conversion wrote"
        return (), [(column.name, ColumnDropped(reason, column.spec)) for column in carried]
    return carry_columns(
        dataset,
        generation,
        carried,
        lambda path: written.origins(units[path]),
        has_media=has_media,
        progress=progress,
    )


def _write_splits(dataset: OpenDataset, generation: int, splits: Mapping[str, Sequence[SplitShard]]) -> None:
    """Write the split sets. Their rules name the samples: by shares, a rebuilt catalog could have other splits."""
    sets: dict[str, dict[str, Sequence[SplitShard]]] = {}
    for full_name, parts in splits.items():
        split_set, name = split_set_and_name(full_name)
        sets.setdefault(split_set, {})[name] = parts
    location = dataset.location
    offsets = Offsets(location.offsets_path(generation))
    with change_catalog(dataset) as draft:
        for split_set, parts_by_name in sets.items():
            draft.splits.begin_set(split_set, _rule_of_splits(location, offsets, parts_by_name))
            for name, parts in parts_by_name.items():
                draft.splits.add_split_shards(split_set, name, parts)


def _rule_of_splits(
    location: DatasetLocation, offsets: Offsets, splits: Mapping[str, Sequence[SplitShard]]
) -> SplitRule:
    """The rule by which a rebuilt catalog has the same splits: a stored list of keys for each split but the largest,
    which also gets the samples that are added later. If a sample is in no split, all splits have lists.

    Shares for a single split with all samples, and for more than `_MAX_LISTED_KEYS`.
    """
    counts = {name: sum(part.samples for part in parts) for name, parts in splits.items()}
    rest = max(counts, key=lambda name: counts[name]) if sum(counts.values()) == offsets.samples else ""
    listed = {name: parts for name, parts in splits.items() if name != rest}
    if not listed or sum(counts[name] for name in listed) > _MAX_LISTED_KEYS:
        return SplitRule({name: float(count) for name, count in counts.items()}, by="sample")
    first_rows = {shard.id: int(row) for shard, row in zip(offsets.shards, offsets.shard_row[:-1], strict=True)}
    sizes = {shard.id: shard.samples for shard in offsets.shards}
    keys = {}
    for name, parts in listed.items():
        rows = (first_rows[p.shard] + at for p in parts for at in np.flatnonzero(sample_flags(p, sizes[p.shard])))
        keys[name] = store_key_list(location, name, (offsets.key(int(row)) for row in rows))
    return SplitRule({}, keys=keys, rest=rest or NO_SPLIT)


def write_training_files(
    folder: str, config: DatasetConfig | None, primary_form: Literal["tar", "jsonl"], split_names: Iterable[str]
) -> None:
    """Write the files for training from primary and media: blend.yaml, cook.py, and last the config of the samples."""
    write_text(os.path.join(folder, "blend.yaml"), blend_yaml([name for name in split_names if "/" not in name]))
    write_text(os.path.join(folder, "cook.py"), cooker_code(config or DatasetConfig(), primary_form))
    if config is not None:
        write_text(os.path.join(folder, MONOLITHIC_CONFIG_FILE), dump_config(config))
