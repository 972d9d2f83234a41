"""The sources of a conversion: what form each has, which samples of it are meant, and the catalog they are found by."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, runtime_checkable

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.quick import current_generation
from wdsctl.core.checks.kinds import MEDIA, kind_of
from wdsctl.core.command_line import command_at
from wdsctl.core.convert import importers
from wdsctl.core.convert.importers.polylithic import PolylithicSource
from wdsctl.core.convert.importers.shards import ShardsSource
from wdsctl.core.convert.paths import check_there, source_names
from wdsctl.core.convert.recipe import SourceSpec
from wdsctl.core.convert.source import Importer, Recognised, Source
from wdsctl.core.dataset_yaml import DatasetConfig, load
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.findings import Finding
from wdsctl.core.line_files import unpacker
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import Progress
from wdsctl.core.root_name import parse_root
from wdsctl.core.selections import Selected
from wdsctl.core.urls import is_url, plain
from wdsctl.core.verbs.convert_indexed import check_is_as_indexed, indexed
from wdsctl.core.verbs.convert_report import ConvertOptions, ConvertSource, Rejected
from wdsctl.core.view_definition import Definition

_ALMOST = 0.001  # scores that are nearer than this are alike
_OURS = {"packed": "files", "polylithic": "refs"}  # an option that nobody else gives this importer


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
        importers.check_readable(path)
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
    """Open every source. Shards without a catalog are indexed into `work`. Raises what is wrong with any of them.

    Compressed tars beside the shards of a catalog are a source of their own, as no catalog has them.
    """
    opened = Opened()
    roots = [parse_root(plain(text)) for text in texts]
    names = source_names(root.root for root in roots)
    for number, (root, view) in enumerate(roots):
        check_there(root)
        importer, told = recognised(root, options.from_form)
        asked = _Asked(root, view, names[number], replace(told, path=f"{root}@{view}" if view else root))
        if importer.name == "shards":
            _open_shards(opened, asked, os.path.join(work, f"source-{number}"), options, workers, progress)
            continue
        if asked.is_selected(options):
            raise UsageError(
                f"a source of the form {importer.name} has no views, splits or catalog",
                where=root,
                hint="prepare it first; or convert it whole, and select from the result",
            )
        spec = _spec(importer.name, root, _said(options, importer.name), names[number])
        _add(opened, spec, asked.told, _described(importer.name, root), options, progress)
    return opened


class _Asked(NamedTuple):
    """A source as it was asked for. `name`: what stands before its keys where they are prefixed."""

    root: str
    view: str
    name: str
    told: ConvertSource

    def is_selected(self, options: ConvertOptions) -> bool:
        return bool(self.view or options.split or options.where)


def _open_shards(
    opened: Opened, asked: _Asked, private: str, options: ConvertOptions, workers: int, progress: Progress
) -> None:
    root, view, name, told = asked
    mine = _said(options, told.form) if options.from_form else {}
    found: list[Finding] = []
    place = indexed(root, mine.get("catalog"), private, workers, options.wait, found, progress)
    is_selected = asked.is_selected(options)
    packed = [] if options.from_form or is_selected else _packed(found)
    # A dataset of compressed tars alone, which was indexed before: its samples are in these.
    is_empty = bool(packed) and any(each.code == "WDS119" for each in found)
    # A selection is of what is in the catalog, so that nothing is left out.
    unfit = {"WDS113"} if is_selected else {"WDS119"} if is_empty else set()
    opened.findings += [each for each in found if each.code not in unfit]
    mine |= {"catalog": place.meta, "generation": str(current_generation(place.catalog))}
    mine |= ({"view": view} if view else {}) | ({"split": options.split} if options.split else {})
    config = load(place.dataset_yaml) if os.path.exists(place.dataset_yaml) else None
    if options.layout == "monolithic" and (refs := _refs(place, config)):
        mine |= {**_said(options, "polylithic"), "refs": json.dumps(refs)}
        told = replace(told, form="polylithic", reason=f"its dataset.yaml says where {', '.join(refs)} lead")
    if packed:
        told = replace(told, rejected=tuple(each for each in told.rejected if each.form != "packed"))
    if not is_empty:
        _add(opened, _spec(told.form, root, mine, name), told, config, options, progress)
    if packed:
        told = ConvertSource(path=root, form="packed", reason=f"compressed tars, such as {packed[0]}")
        spec = _spec("packed", root, {"files": json.dumps(packed)}, name if is_empty else f"{name}-packed")
        _add(opened, spec, told, None, options, progress)


def _said(options: ConvertOptions, form: str) -> dict[str, str]:
    """The options of the form of the sources. Raises UsageError for the one that is told the form here."""
    if _OURS.get(form) in options.form_options:
        raise UsageError(f"{form} has no option {_OURS[form]!r}", hint="leave it out")
    return {name: value for name, value in options.form_options.items() if not name.startswith("to.")}


def _add(
    opened: Opened,
    spec: SourceSpec,
    told: ConvertSource,
    config: DatasetConfig | None,
    options: ConvertOptions,
    progress: Progress,
) -> None:
    mine = dict(spec.options)
    source = importers.get(spec.importer).open(spec.path, mine)
    for place in source.places if isinstance(source, PolylithicSource) else ():
        check_is_as_indexed(place, opened.findings, progress)
    dataset = source.primary if isinstance(source, PolylithicSource) else source
    if options.where and isinstance(dataset, ShardsSource):
        dataset.restrict(_where(locate(spec.path, mine["catalog"]), options.where, progress))
    opened.specs.append(spec)
    opened.sources.append(source)
    opened.marks.append(_files_mark(source))
    opened.told.append(told)
    opened.configs.append(config)


def _spec(form: str, root: str, options: dict[str, str], name: str) -> SourceSpec:
    path = root if is_url(root) else os.path.abspath(root)  # as workers open it: marks have paths in them
    return SourceSpec(form, path, tuple(sorted(options.items())), name)


def _packed(findings: list[Finding]) -> list[str]:
    """Takes the compressed tars that an index has left out, and that can be read, from its findings."""
    packed = [each for each in findings if each.code == "WDS113" and not unpacker(each.shard)]
    findings[:] = [each for each in findings if each not in packed]
    return [each.shard for each in packed]


def _refs(place: Place, config: DatasetConfig | None) -> dict[str, str]:
    """Which fields name media of which stores, where nothing is kept apart any more; empty of a dataset with media.

    Raises UsageError where it has none, and nobody says where they are.
    """
    if config is not None and config.refs:
        return config.refs
    with Catalog(place.catalog) as catalog:
        parts = [part.name for part in catalog.parts()]
    if any(kind_of(part) in MEDIA for part in parts):
        return {}
    raise UsageError(
        f"--layout monolithic: there are no media in it ({', '.join(parts)}), and nothing says where they are",
        where=place.shown,
        hint="name the folder that polylithic.json is in, where there is one; or the blend file that says it: "
        "`wdsctl convert BLEND.yaml DEST -O media=FIELD`; or "
        f"{command_at(place, 'validate', '--level', 'refs', '--refs', 'FIELD=STORE')} writes it into dataset.yaml",
    )


def _described(form: str, root: str) -> DatasetConfig | None:
    """What the samples are where the form itself says it; None where it has to be found out."""
    if form == "polylithic":  # what they were before they were taken apart
        path = os.path.join(root, "monolithic.yaml")
        return load(path) if os.path.exists(path) else None
    if form == "imagefolder":
        from wdsctl.core.convert.importers.image_folder import described

        return described(root)
    return None


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
