"""`prepare`, the main job: raw files or tars become a dataset that trains: shards, catalog, sample type, split."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.dataset_yaml import DatasetConfig, SplitRule, dump, load
from wdsctl.core.detect import Detection, detect
from wdsctl.core.errors import DatasetError, InputError, UsageError
from wdsctl.core.fields import check_sample_type, validate_field_map
from wdsctl.core.files import write_text
from wdsctl.core.formats.folder import OnMissing
from wdsctl.core.lock import locked
from wdsctl.core.look import gather
from wdsctl.core.offsets import Offsets
from wdsctl.core.os_errors import translated
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.ratios import By
from wdsctl.core.sample_types import CRUDE
from wdsctl.core.shard_list import holds_shards
from wdsctl.core.storage import LocalStorage
from wdsctl.core.verbs.index import IndexReport, IndexRequest, Missing, check_shards, index_at, say_where
from wdsctl.core.verbs.journal import Entry, journal
from wdsctl.core.verbs.split import SplitReport, split_at
from wdsctl.core.verbs.write_folder import FolderOptions, FolderReport, write_folder

Source = Literal["folder", "tars"]

WHOLE = {"train": 1.0}  # the split of those who ask for none: everything is for training


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions:
    """What may be asked of `prepare`. The first five concern raw folders only."""

    shard_samples: int = 10_000
    shard_size: int = 1 << 30  # bytes
    template: str = "shard-{index:06d}.tar"
    parts: tuple[str, ...] = ()  # what a complete raw sample has; empty: what at least half of them have
    on_missing: OnMissing = "error"
    split: Mapping[str, float] | None = None  # None: keep the split there is, or everything is `train`
    split_by: By = "auto"
    seed: int = 0
    sample_type: str = ""  # empty: detect it
    field_map: Mapping[str, str] = field(default_factory=dict)
    redetect: bool = False  # write dataset.yaml anew
    workers: int = 1
    catalog: str | None = None
    missing: Missing = "error"
    exclude: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareReport:
    """What was done, step by step. Steps that a dry run cannot foresee are None; so is the split of no samples."""

    source: str
    dest: str
    from_folder: bool
    folder: FolderReport | None
    index: IndexReport | None
    detection: Detection | None  # None where dataset.yaml was there and was left alone
    split: SplitReport | None
    up_to_date: bool
    dry_run: bool


def look(source: str) -> Source:
    """Whether a folder holds shards or raw files. Raises InputError if it holds nothing, PermissionDenied."""
    place = locate(source)
    if holds_shards(place.root):
        return "tars"
    if not os.listdir(place.root):
        raise InputError("the folder is empty", where=source, hint="check the path", code="WDS003")
    return "folder"


def prepare(
    source: str, dest: str | None = None, options: PrepareOptions | None = None, *, progress: Progress = SILENT
) -> PrepareReport:
    """Make `source` a dataset that trains: in place if it holds tars, into `dest` if it is a folder of raw files.

    Run again, it does what is left to do: the rest of a run that was killed, new files, nothing.
    """
    options = options or PrepareOptions()
    _check_options(options)
    from_folder = dest is not None or look(source) == "folder"
    if from_folder and dest is None:
        raise UsageError(
            "raw files become shards in a folder of their own, and none was named",
            where=source,
            hint=f"wdsctl prepare {source} DEST",
        )
    root = dest or source
    if from_folder:
        _check_raw(locate(source).root)
        if options.dry_run:
            return _foreseen(source, root, options, progress)
        with translated(root):
            os.makedirs(root, exist_ok=True)
    place = locate(root, options.catalog, writing=True)
    if options.dry_run:
        report = index_at(place, _index_request(options), progress)
        return _report(source, root, options, index=report)
    if not from_folder:
        check_shards(place, options.exclude)
    say_where(place, options.catalog, progress)
    with locked(place.lock), journal(place, "prepare", [source, root], progress) as entry:
        folder = _write(source, root, options, entry, progress) if from_folder else None
        indexed = index_at(place, _index_request(options), progress)
        entry.findings += indexed.findings
        described = _describe(place, indexed, options, progress)
        split = _split(place, indexed, options, progress)
        return _report(source, root, options, folder=folder, index=indexed, described=described, split=split)


def _check_options(options: PrepareOptions) -> None:
    """Refuse what can be told to be wrong before hours of work."""
    if options.sample_type:
        check_sample_type(options.sample_type, where="--sample-type")
        if options.field_map:
            validate_field_map(options.sample_type, options.field_map, where="--field-map")


def _check_raw(source: str) -> None:
    """Refuse a folder of shards as raw files: they would become parts of samples of other shards."""
    with translated(source, "list"):
        tars = sorted(name for name in os.listdir(source) if name.endswith(".tar") and not name.startswith("."))
    if tars:
        raise UsageError(
            f"the source holds shards already, such as {tars[0]}, and is prepared in place",
            where=source,
            hint=f"wdsctl prepare {source}",
        )


def _index_request(options: PrepareOptions) -> IndexRequest:
    return IndexRequest(
        workers=options.workers, missing=options.missing, exclude=options.exclude, dry_run=options.dry_run
    )


def _folder_options(options: PrepareOptions) -> FolderOptions:
    return FolderOptions(
        shard_samples=options.shard_samples,
        shard_size=options.shard_size,
        template=options.template,
        parts=options.parts,
        on_missing=options.on_missing,
        workers=options.workers,
        dry_run=options.dry_run,
    )


def _write(source: str, dest: str, options: PrepareOptions, entry: Entry, progress: Progress) -> FolderReport:
    if entry.ledger is None:
        raise DatasetError(
            "the plan of the shards cannot be kept", where=dest, hint="choose a catalog that is writable"
        )
    return write_folder(source, dest, _folder_options(options), ledger=entry.ledger, progress=progress)


def _foreseen(source: str, dest: str, options: PrepareOptions, progress: Progress) -> PrepareReport:
    """A dry run from a raw folder: the shards are planned, and what comes after them depends on them."""
    from wdsctl.core.catalog.ledger import Ledger

    ledger_path = locate(dest, options.catalog).ledger if os.path.isdir(dest) else os.devnull
    with Ledger.peek(ledger_path) as ledger:
        folder = write_folder(source, dest, _folder_options(options), ledger=ledger, progress=progress)
    return _report(source, dest, options, folder=folder)


@dataclass(frozen=True, slots=True)
class _Described:
    """What dataset.yaml was made from, and whether it is another now."""

    detection: Detection | None
    is_new: bool


def _describe(place: Place, indexed: IndexReport, options: PrepareOptions, progress: Progress) -> _Described:
    """Write dataset.yaml, unless it is there and nobody asks for another."""
    asked = bool(options.sample_type or options.field_map or options.redetect)
    there = os.path.exists(place.dataset_yaml)
    if (there and not asked) or indexed.samples == 0:
        return _Described(None, is_new=False)
    progress.phase("detect")
    with Catalog(place.catalog) as catalog:
        parts = catalog.parts()
    storage = LocalStorage()
    try:
        found = detect(gather(place.root, Offsets(place.offsets(indexed.generation)), parts, storage))
    finally:
        storage.close()
    before = load(place.dataset_yaml) if there else DatasetConfig()
    sample_type, field_map = _chosen(found, options, [part.name for part in parts])
    config = replace(before, sample_type=sample_type, field_map=field_map)
    is_new = not there or config != before
    if is_new:
        write_text(place.dataset_yaml, dump(config))
    return _Described(found, is_new=is_new)


def _chosen(found: Detection, options: PrepareOptions, names: list[str]) -> tuple[str, dict[str, str]]:
    """What the user says wins; what they leave open is taken from the detection, where that fits."""
    sample_type = options.sample_type or found.sample_type
    field_map = dict(options.field_map)
    if not field_map and sample_type == found.sample_type:
        field_map = dict(found.field_map)
    if sample_type != CRUDE and not field_map:
        raise UsageError(
            f"the samples do not look like {sample_type}, so its fields must be named",
            hint=f"--sample-type {sample_type} --field-map FIELD=PART,... (parts: {', '.join(names)})",
            code="WDS221",
        )
    validate_field_map(sample_type, field_map, names, where="--field-map")
    return sample_type, field_map


@dataclass(frozen=True, slots=True)
class _Divided:
    """The split as it is, and whether it was made now."""

    report: SplitReport | None
    is_new: bool


def _split(place: Place, indexed: IndexReport, options: PrepareOptions, progress: Progress) -> _Divided:
    """Make the split that is asked for, unless it is there: new shards have followed its rule already."""
    if indexed.samples == 0:
        return _Divided(None, is_new=False)
    with Catalog(place.catalog) as catalog:
        rule, counts = catalog.split_rule(), catalog.splits()
    wanted = dict(options.split) if options.split is not None else None
    if rule is not None and (wanted is None or _is_same(rule, wanted, options)):
        by: Literal["shard", "sample"] = "sample" if rule.by == "sample" else "shard"
        report = SplitReport(root=place.root, by=by, seed=rule.seed, splits=tuple(counts), dry_run=False)
        return _Divided(report, is_new=False)
    return _Divided(split_at(place, wanted or WHOLE, options.split_by, options.seed, progress), is_new=True)


def _is_same(rule: SplitRule, wanted: dict[str, float], options: PrepareOptions) -> bool:
    by = options.split_by in ("auto", rule.by)
    return by and options.seed == rule.seed and wanted == rule.shares and list(wanted) == list(rule.shares)


def _report(
    source: str,
    dest: str,
    options: PrepareOptions,
    *,
    folder: FolderReport | None = None,
    index: IndexReport | None = None,
    described: _Described | None = None,
    split: _Divided | None = None,
) -> PrepareReport:
    is_new = (step is not None and step.is_new for step in (described, split))
    unchanged = index is not None and index.up_to_date and not any(is_new)
    return PrepareReport(
        source=source,
        dest=dest,
        from_folder=folder is not None,
        folder=folder,
        index=index,
        detection=described.detection if described else None,
        split=split.report if split else None,
        up_to_date=unchanged and (folder is None or folder.written == 0),
        dry_run=options.dry_run,
    )
