"""The sources of a conversion: what form each has, which samples of it are meant, and the catalog they are found by."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from wdsctl.core.catalog.quick import current_generation
from wdsctl.core.command_line import command_at
from wdsctl.core.convert import importers
from wdsctl.core.convert.importers.polylithic import PolylithicSource
from wdsctl.core.convert.importers.shards import ShardsSource
from wdsctl.core.convert.paths import check_there, source_names
from wdsctl.core.convert.recipe import SourceSpec
from wdsctl.core.convert.source import Importer, Recognised, Source
from wdsctl.core.dataset_yaml import DatasetConfig, load
from wdsctl.core.errors import DatasetError, InputError, UsageError
from wdsctl.core.findings import Finding
from wdsctl.core.lock import locked
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import Progress
from wdsctl.core.root_name import parse_root
from wdsctl.core.selections import Selected
from wdsctl.core.urls import is_url, plain
from wdsctl.core.verbs.convert_report import ConvertOptions, ConvertSource, Rejected
from wdsctl.core.verbs.index import IndexRequest, index_at
from wdsctl.core.view_definition import Definition

_ALMOST = 0.001  # scores that are nearer than this are alike


@dataclass(slots=True)
class Opened:
    """The open sources, what workers need to open them too, and what is known of the datasets they are."""

    specs: list[SourceSpec] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    told: list[ConvertSource] = field(default_factory=list)
    configs: list[DatasetConfig | None] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)  # what is wrong with shards, as their index tells it
    marks: list[bytes] = field(default_factory=list)  # what the files of each were like when it was opened

    @property
    def split_names(self) -> list[tuple[str, ...]]:
        """Of each source, the names of its splits."""
        return [tuple(getattr(source, "split_names", ())) for source in self.sources]

    def close(self) -> None:
        for source in self.sources:
            source.__exit__(None, None, None)


def recognised(path: str, form: str) -> tuple[Importer, ConvertSource]:
    """The importer of a source: the one that is named, or the one that it looks like most. Raises InputError."""
    if form:
        return importers.get(form), ConvertSource(path=path, form=form, reason="as told")
    found: list[tuple[Importer, Recognised]] = importers.find(path)
    if not found or (len(found) > 1 and found[0][1].score - found[1][1].score < _ALMOST):
        importers.best(path)  # raises, and says which they are
    (importer, seen), others = found[0], found[1:]
    rejected = tuple(Rejected(form=other.name, reason=it.reason) for other, it in others)
    return importer, ConvertSource(path=path, form=importer.name, reason=seen.reason, rejected=rejected)


def open_sources(
    texts: Sequence[str], options: ConvertOptions, work: str, progress: Progress, *, workers: int
) -> Opened:
    """Open every source. Shards without a catalog are indexed into `work`. Raises what is wrong with any of them."""
    opened = Opened()
    roots = [parse_root(plain(text)) for text in texts]
    names = source_names(root.root for root in roots)
    for number, (root, view) in enumerate(roots):
        check_there(root)
        importer, told = recognised(root, options.from_form)
        is_asked = importer.name != "shards" or options.from_form
        mine = {name: value for name, value in options.form_options.items() if is_asked and not name.startswith("to.")}
        config = None
        if importer.name == "shards":
            private = os.path.join(work, f"source-{number}")
            place = _indexed(root, mine.get("catalog"), private, workers, options.wait, opened.findings, progress)
            mine |= {"catalog": place.meta, "generation": str(current_generation(place.catalog))}
            mine |= ({"view": view} if view else {}) | ({"split": options.split} if options.split else {})
            config = load(place.dataset_yaml) if os.path.exists(place.dataset_yaml) else None
        elif view or options.split or options.where:
            raise UsageError(
                f"a source of the form {importer.name} has no views, splits or catalog",
                where=root,
                hint="prepare it first; or convert it whole, and select from the result",
            )
        elif importer.name == "polylithic":
            config = _config_of_media(root)
        path = root if is_url(root) else os.path.abspath(root)  # as workers open it: marks have paths in them
        source = importer.open(path, mine)
        for place in source.places if isinstance(source, PolylithicSource) else ():
            _check_is_as_indexed(place, opened.findings, progress)
        if options.where and isinstance(source, ShardsSource):
            source.restrict(_where(locate(root, mine["catalog"]), options.where, progress))
        opened.specs.append(SourceSpec(importer.name, path, tuple(sorted(mine.items())), names[number]))
        opened.sources.append(source)
        opened.marks.append(_files_mark(source))
        opened.told.append(replace(told, path=f"{told.path}@{view}" if view else told.path))
        opened.configs.append(config)
    return opened


def check_unchanged(opened: Opened) -> None:
    """Raises DatasetError WDS202 where the files of a source are not what they were when it was opened: what was read
    of it by place may be of other samples.
    """
    for spec, source, before in zip(opened.specs, opened.sources, opened.marks, strict=True):
        if isinstance(source, _Watched):
            now = source.files_mark()
        else:  # it may remember what it listed
            with importers.get(spec.importer).open(spec.path, dict(spec.options)) as again:
                now = again.mark()
        if now != before:
            raise DatasetError(
                "the source has changed while it was converted",
                where=spec.path,
                hint="convert again, with `--yes`, when nothing writes to the source",
                code="WDS202",
            )


def digests(opened: Opened) -> list[str]:
    """Of each source, what its samples follow from: its files, and what of them is chosen."""
    known = zip(opened.sources, opened.marks, strict=True)
    return [(source.mark() if isinstance(source, _Watched) else mark).hex() for source, mark in known]


@runtime_checkable
class _Watched(Protocol):
    """A source whose `mark` tells more than what its files are like."""

    def files_mark(self) -> bytes: ...


def _files_mark(source: Source) -> bytes:
    return source.files_mark() if isinstance(source, _Watched) else source.mark()


def _where(place: Place, where: str, progress: Progress) -> Selected:
    from wdsctl.core.verbs.view_select import choose

    return choose(place, Definition(where=where), progress).selected


def _config_of_media(root: str) -> DatasetConfig | None:
    """What the samples were before they were taken apart."""
    path = os.path.join(root, "monolithic.yaml")
    return load(path) if os.path.exists(path) else None


def _indexed(
    root: str,
    catalog: str | None,
    private: str,
    workers: int,
    wait: float,
    findings: list[Finding],
    progress: Progress,
) -> Place:
    """The place of a catalog that is up to date: the dataset's own, or one made for this conversion alone."""
    place = locate(root, catalog)
    if not os.path.exists(place.catalog):
        mine = Place(place.root, private, place.only)
        with locked(mine.lock, wait=wait, note=progress.note):
            report = index_at(mine, IndexRequest(workers=workers, missing="drop"), progress)
        findings += [found for found in report.findings if found.code != "WDS113"]
        if not report.samples:
            raise InputError("there are no samples in it", where=place.shown, hint="check the path", code="WDS003")
        return mine
    _check_is_as_indexed(place, findings, progress)
    return place


def _check_is_as_indexed(place: Place, findings: list[Finding], progress: Progress) -> None:
    """Raises DatasetError WDS344 where shards are not what the catalog says: they are read by it."""
    seen = index_at(place, IndexRequest(dry_run=True, missing="keep"), progress)
    findings += [found for found in seen.findings if found.severity == "error"]
    moved = seen.added + seen.changed + seen.removed
    if moved or any(finding.code == "WDS306" for finding in seen.findings):
        raise DatasetError(
            f"the source is not what its catalog says: {seen.added:,} shards are new, {seen.changed:,} have changed, "
            f"{seen.removed:,} are gone",
            where=place.shown,
            hint=f"{command_at(place, 'index')}, then convert again",
            code="WDS344",
        )
