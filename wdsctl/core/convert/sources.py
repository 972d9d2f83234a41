"""Open the sources of a conversion: recognise their formats, index shards without a catalog, select samples.

The catalog of shards must be up to date.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from wdsctl.core import importers
from wdsctl.core.convert.conversion_report import ConvertSource, RejectedFormat
from wdsctl.core.convert.request import ConvertRequest, SourceSpec
from wdsctl.core.dataset.config import DatasetConfig, load_config
from wdsctl.core.dataset.destination import require_source, unique_source_names
from wdsctl.core.dataset.location import ENERGON_META_FOLDER, DatasetLocation, shell_command, shell_command_at
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.dataset.polylithic import is_polylithic
from wdsctl.core.dataset.shard_names import unpack_command
from wdsctl.core.energon.meta import energon_meta
from wdsctl.core.errors import DatasetError, Finding, InputError, UsageError
from wdsctl.core.importers.polylithic import PolylithicSource
from wdsctl.core.importers.protocol import (
    DescribedSource,
    FieldUse,
    FormatMatch,
    Importer,
    ResolvedSource,
    Source,
    SourceDescription,
)
from wdsctl.core.importers.shards import ShardsSource
from wdsctl.core.importers.splits.shards import default_split_rule, split_findings_of_source
from wdsctl.core.index.energon import import_energon_meta
from wdsctl.core.index.index import IndexRequest, index_locked
from wdsctl.core.index.missing import check_links_inside
from wdsctl.core.media.kinds import MEDIA_KINDS, part_kind
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset, parse_root
from wdsctl.core.progress import Progress
from wdsctl.core.split.split import ensure_split
from wdsctl.core.storage.source_files import forget_listings
from wdsctl.core.text import join_with_and, pluralize
from wdsctl.core.urls import is_url, normalize_root, redact_secrets
from wdsctl.core.views.definition import ViewDefinition


def ensure_indexed(
    root: str,
    catalog: str | None,
    private_catalog: str,
    workers: int,
    wait: float,
    findings: list[Finding],
    progress: Progress,
) -> DatasetLocation:
    """The location of an up-to-date catalog: the dataset's own, or a new one in `private_catalog`.

    Adds findings to the list. Raises DatasetError WDS344 if the dataset's catalog is out of date, InputError WDS003 if
    a dataset without a catalog has no samples. Cost: indexes a dataset without a catalog, imports the settings of
    Energon, and divides it into the splits that names or a field tell.
    """
    location = open_dataset(root, catalog).location
    if os.path.exists(location.catalog_path):
        check_index_is_current(location, findings, progress)
        return location
    private = DatasetLocation(location.root, private_catalog, location.single_file)
    with OpenDataset(private) as dataset, hold_lock(private.lock, wait=wait, note=progress.note):
        report = index_locked(dataset, IndexRequest(workers=workers, missing="drop"), progress)
        if report.samples:
            taken = import_energon_meta(dataset, report, workers, progress)
            findings += taken.findings if taken is not None else ()
            if not dataset.catalog.rows("SELECT 1 FROM split LIMIT 1"):
                findings += _split_unprepared(dataset, progress)
    findings += report.findings
    if not report.samples and not any(found.code == "WDS113" for found in report.findings):
        raise InputError(
            "no samples found in the source", where=location.display_path, hint="check the path", code="WDS003"
        )
    return private


def _split_unprepared(dataset: OpenDataset, progress: Progress) -> list[Finding]:
    """Divide a dataset that nobody has prepared as `prepare` does, if names or a field tell splits."""
    rule = default_split_rule(dataset, uses_field=True)
    findings = split_findings_of_source(dataset)
    if rule is None:
        return findings
    split, _ = ensure_split(dataset, None, "auto", 0, progress, default=lambda: rule)
    return [*split.findings, *findings]


def check_index_is_current(location: DatasetLocation, findings: list[Finding], progress: Progress) -> None:
    """Raises DatasetError WDS344 if the shards differ from their catalog. Adds errors of the shards to `findings`."""
    with OpenDataset(location) as dataset:
        report = index_locked(dataset, IndexRequest(dry_run=True, missing="keep"), progress)
    findings += [found for found in report.findings if found.severity == "error"]
    for missing in (found for found in report.findings if found.code == "WDS306"):
        check_links_inside(location, [missing.shard])
        more = " and more" if missing.count > 1 else ""
        raise DatasetError(
            f"{pluralize(missing.count, 'shard')} of the source missing: {missing.shard}{more}",
            where=location.display_path,
            hint="restore the shards; or remove them from the catalog: "
            f"{shell_command_at(location, 'index', '--missing', 'drop')}",
            code="WDS344",
        )
    if report.added + report.changed + report.removed:
        counts = {"new": report.added, "changed": report.changed, "missing": report.removed}
        text = ", ".join(pluralize(number, f"{change} shard") for change, number in counts.items() if number)
        raise DatasetError(
            f"the catalog of the source is out of date: {text}",
            where=location.display_path,
            hint=f"run {shell_command_at(location, 'index')}, then convert again",
            code="WDS344",
        )


_SCORE_TOLERANCE = 0.001  # scores that differ by less are equal
_INTERNAL_OPTIONS = {
    "packed": "files",
    "polylithic": "refs",
    "csv": "cell-types",
}  # only `open_sources` may set these options

#: What is wrong with the splits of a source; nothing, if the caller makes others.
_SPLIT_FINDINGS = frozenset(["WDS213", "WDS254", "WDS258", "WDS260"])


@dataclass(slots=True)
class OpenSources:
    """The open sources, in parallel lists, with the specs by which workers open them.

    `findings`: problems of their shards. `unused`: the files that no sample has, of each source. `files_digests`: a
    digest of each source's files at the time of opening.
    """

    specs: list[SourceSpec] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    reports: list[ConvertSource] = field(default_factory=list)
    configs: list[DatasetConfig | None] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unused: list[tuple[str, ...]] = field(default_factory=list)
    files_digests: list[bytes] = field(default_factory=list)

    @property
    def split_names(self) -> list[tuple[str, ...]]:
        """The names of the splits of each source."""
        return [tuple(getattr(source, "split_names", ())) for source in self.sources]

    def close(self) -> None:
        for source in self.sources:
            source.__exit__(None, None, None)


def recognise_source(path: str, format_name: str) -> tuple[Importer, ConvertSource]:
    """The importer of a source: the named one, or the one with the highest score.

    Raises InputError WDS235 if no format matches, or several match equally well.
    """
    if format_name:
        importers.check_readable(path)
        return importers.get_importer(format_name), ConvertSource(
            path=path, form=format_name, reason=importers.CHOSEN_BY_USER
        )
    found: list[tuple[Importer, FormatMatch]] = importers.find_importers(path)
    if not found or (len(found) > 1 and found[0][1].score - found[1][1].score < _SCORE_TOLERANCE):
        importers.best_importer(path)  # raises, and lists them
    (importer, match), others = found[0], found[1:]
    rejected = tuple(RejectedFormat(form=other.name, reason=it.reason) for other, it in others)
    return importer, ConvertSource(path=path, form=importer.name, reason=match.reason, rejected=rejected)


def open_sources(source_texts: Sequence[str], request: ConvertRequest, work: str, progress: Progress) -> OpenSources:
    """Open every source. Writes the catalogs of shards without one to `work`. Raises the errors of all importers.

    Compressed tars next to indexed shards become a separate source, since catalogs do not list them.
    """
    opened = OpenSources()
    roots = [parse_root(normalize_root(text)) for text in source_texts]
    names = unique_source_names(root.root for root in roots)
    for number, (root, view) in enumerate(roots):
        if is_url(root):
            progress.phase("recognise")  # shows that the store does not answer
        require_source(root)
        importer, report = recognise_source(root, request.from_format)
        report = replace(report, path=f"{root}@{view}" if view else root)
        is_selected = bool(view or request.split or request.where)
        if importer.name == "shards":
            private_catalog = os.path.join(work, f"source-{number}")
            _open_shards(
                opened, root, view, names[number], report, private_catalog, request, progress, is_selected=is_selected
            )
            continue
        selects_in_primary = importer.name == "polylithic" and is_polylithic(root)
        if is_selected and not selects_in_primary:
            raise UsageError(
                f"a source of the format {importer.name} has no views, splits or catalog",
                where=root,
                hint="convert all of it, then select from the result",
            )
        options = _source_options(request, importer.name) | _selection_options(view, request)
        spec = _make_spec(importer.name, root, options, names[number])
        _add_source(opened, spec, report, _format_config(importer.name, root, request), request, progress)
    return opened


def _open_shards(
    opened: OpenSources,
    root: str,
    view: str,
    name: str,
    report: ConvertSource,
    private_catalog: str,
    request: ConvertRequest,
    progress: Progress,
    *,
    is_selected: bool,
) -> None:
    """Open a source of shards, and the compressed tars next to them.

    `name`: the prefix for keys that collide. `is_selected`: the request converts only a selection of the samples.
    """
    options = _source_options(request, report.form) if request.from_format else {}
    findings: list[Finding] = []
    location = ensure_indexed(
        root, options.get("catalog"), private_catalog, request.workers, request.wait, findings, progress
    )
    with OpenDataset(location) as dataset:
        generation, split_names = dataset.catalog.generation, dataset.catalog.split_names()
        config = dataset.config if dataset.has_config() else None
    if location.meta == private_catalog and request.split:
        _check_split_of_unprepared(root, split_names, request.split)
    compressed = [] if request.from_format or is_selected else _take_compressed_tars(findings)
    # An indexed dataset that consists only of compressed tars.
    has_no_shards = bool(compressed) and any(found.code == "WDS119" for found in findings)
    # A selection uses the catalog, which does not list compressed tars: ignoring them loses nothing.
    ignored = {"WDS113"} if is_selected else {"WDS119"} if has_no_shards else set()
    opened.findings += [found for found in findings if found.code not in ignored]
    options |= {"catalog": location.meta, "generation": str(generation)}
    options |= _selection_options(view, request)
    if request.layout == "monolithic" and (refs := _media_refs(location, config)):
        options |= {**_source_options(request, "polylithic"), "refs": json.dumps(refs)}
        report = replace(report, form="polylithic", reason=f"dataset.yaml names stores for {', '.join(refs)}")
    if compressed:
        report = replace(report, rejected=tuple(each for each in report.rejected if each.form != "packed"))
    if not has_no_shards:
        _add_source(opened, _make_spec(report.form, root, options, name), report, config, request, progress)
    if compressed:
        report = ConvertSource(
            path=root, form="packed", reason=f"the folder has compressed tars, such as {compressed[0]}"
        )
        options = {"files": json.dumps(compressed)}
        spec = _make_spec("packed", root, options, name if has_no_shards else f"{name}-packed")
        _add_source(opened, spec, report, _compressed_config(root, request), request, progress)


def _check_split_of_unprepared(root: str, names: Sequence[str], split: str) -> None:
    """Raise InputError WDS211 if a source whose catalog is temporary has no such split by its names or fields."""
    if split not in names:
        has = (
            f"its folders and fields name {join_with_and(names)}" if names else "none is named by its folders or fields"
        )
        divide = shell_command("prepare", redact_secrets(root), "--split", "train=8,val=1,test=1")
        raise InputError(
            f"the source is not prepared, and has no split {split!r}: {has}",
            where=redact_secrets(root),
            hint=f"divide it first: {divide}",
            code="WDS211",
        )


def _selection_options(view: str, request: ConvertRequest) -> dict[str, str]:
    """The options that select a view and a split."""
    return ({"view": view} if view else {}) | ({"split": request.split} if request.split else {})


def _source_options(request: ConvertRequest, format_name: str) -> dict[str, str]:
    """The options of the importer. Raises UsageError for an option that only `open_sources` sets."""
    internal = _INTERNAL_OPTIONS.get(format_name)
    if internal in request.format_options:
        raise UsageError(f"{format_name} has no option {internal!r}", hint="omit the option")
    return {name: value for name, value in request.format_options.items() if not name.startswith("to.")}


def _add_source(
    opened: OpenSources,
    spec: SourceSpec,
    report: ConvertSource,
    config: DatasetConfig | None,
    request: ConvertRequest,
    progress: Progress,
) -> None:
    options = dict(spec.options)
    source = importers.open_source(spec.importer, spec.path, options)
    for location in source.locations if isinstance(source, PolylithicSource) else ():
        check_index_is_current(location, opened.findings, progress)
    dataset = source.primary if isinstance(source, PolylithicSource) else source
    if request.where and isinstance(dataset, ShardsSource):
        from wdsctl.core.views.select import evaluate_definition

        with OpenDataset(dataset.location) as source_dataset:
            chosen = evaluate_definition(source_dataset, ViewDefinition(where=request.where), progress)
        dataset.restrict(chosen.selection)
    about = source.describe() if isinstance(source, DescribedSource) else SourceDescription()
    opened.findings += [
        found for found in about.findings if request.carries_splits or found.code not in _SPLIT_FINDINGS
    ]
    opened.unused.append(about.unused)
    if isinstance(source, ResolvedSource):
        spec = replace(spec, options=tuple(sorted((options | dict(source.worker_options)).items())))
    known = about.config or config
    if known is not None:
        spec = replace(spec, field_map=tuple(known.field_map.items()), drawn_on=known.drawn_on)
    opened.specs.append(spec)
    opened.sources.append(source)
    opened.files_digests.append(source.files_digest() if isinstance(source, _HasFilesDigest) else source.digest())
    uses = about.field_uses if request.carries_splits else map(_without_split, about.field_uses)
    opened.reports.append(replace(report, fields=tuple(uses)))
    opened.configs.append(known)


def _without_split(use: FieldUse) -> FieldUse:
    is_split = use.becomes == "split" or use.becomes.startswith("split ")
    return FieldUse(use.name, "no split", "--split divides the samples") if is_split else use


def _make_spec(format_name: str, root: str, options: dict[str, str], name: str) -> SourceSpec:
    path = root if is_url(root) else os.path.abspath(root)  # workers open the same path: digests contain paths
    return SourceSpec(format_name, path, tuple(sorted(options.items())), name)


def _take_compressed_tars(findings: list[Finding]) -> list[str]:
    """Remove the compressed tars that `packed` can read from the findings of `index`; returns their paths."""
    readable = [found for found in findings if found.code == "WDS113" and not unpack_command(found.shard)]
    findings[:] = [found for found in findings if found not in readable]
    return [found.shard for found in readable]


def _media_refs(location: DatasetLocation, config: DatasetConfig | None) -> dict[str, str]:
    """JSON field -> the store of its media, for `--layout monolithic`; empty if the dataset contains its media.

    Raises UsageError if the dataset has no media, and its dataset.yaml names no stores.
    """
    if config is not None and config.refs:
        return config.refs
    with OpenDataset(location) as dataset:
        parts = [part.name for part in dataset.catalog.parts()]
    if any(part_kind(part) in MEDIA_KINDS for part in parts):
        return {}
    raise UsageError(
        f"--layout monolithic: the dataset has no media (its parts: {', '.join(parts)}) and names no stores with media",
        where=location.display_path,
        hint="convert the folder with polylithic.json; or the blend file: "
        "`wdsctl convert BLEND.yaml DEST -O media=FIELD`; or write the stores into dataset.yaml: "
        f"{shell_command_at(location, 'validate', '--level', 'refs', '--refs', 'FIELD=STORE')}",
    )


def _format_config(format_name: str, root: str, request: ConvertRequest) -> DatasetConfig | None:
    """The dataset.yaml that the format defines; None if the sample type must be detected."""
    if format_name == "polylithic":  # describes the complete samples
        path = os.path.join(root, "monolithic.yaml")
        return load_config(path) if os.path.exists(path) else None
    return _compressed_config(root, request) if format_name == "packed" else None


def _compressed_config(root: str, request: ConvertRequest) -> DatasetConfig | None:
    """Energon's dataset.yaml beside compressed tars; None if there is none.

    Raises InputError if Energon has split the dataset, as validation samples would become training samples.
    """
    with energon_meta(root) as meta:
        config = meta.config() if meta.is_prepared() else None
        if request.carries_splits and meta.is_prepared() and meta.split("" if config is None else config.split_config):
            raise InputError(
                f"the splits and excludes of {ENERGON_META_FOLDER} name compressed tars, which have no splits",
                where=redact_secrets(root),
                hint=f"unpack the tars, write their new names into the files of {ENERGON_META_FOLDER}, and run `wdsctl "
                f"index` on the folder; or move {ENERGON_META_FOLDER} away to convert without it",
            )
    return None if config is None else replace(config, split_config="")


def check_sources_unchanged(opened: OpenSources) -> None:
    """Raises DatasetError WDS202 if files of a source changed after opening: indexes may mean other samples."""
    forget_listings()
    for spec, source, before in zip(opened.specs, opened.sources, opened.files_digests, strict=True):
        if isinstance(source, _HasFilesDigest):
            now = source.files_digest()
        else:  # open it again: the open source may have a cached listing
            with importers.open_source(spec.importer, spec.path, dict(spec.options)) as reopened:
                now = reopened.digest()
        if now != before:
            raise DatasetError(
                "the source changed during the conversion",
                where=spec.path,
                hint="convert again with `--yes` when no other process writes to the source",
                code="WDS202",
            )


def source_digests(opened: OpenSources) -> list[str]:
    """A digest of each source, of its files and of the selected samples."""
    known = zip(opened.sources, opened.files_digests, strict=True)
    return [(source.digest() if isinstance(source, _HasFilesDigest) else digest).hex() for source, digest in known]


@runtime_checkable
class _HasFilesDigest(Protocol):
    """A source whose `digest` covers more than its files."""

    def files_digest(self) -> bytes: ...
