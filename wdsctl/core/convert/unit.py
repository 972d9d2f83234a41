"""Writes one unit of a conversion: reads its samples, changes them as they are to be changed, hands them to the target.

A worker's side: everything it needs is in the plan and the recipe, and what it makes depends on nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple, cast

from wdsctl.core.convert import exporters, importers
from wdsctl.core.convert.part_rules import is_media, new_name
from wdsctl.core.convert.plan_file import Done, Item, PlanFile, PlannedUnit
from wdsctl.core.convert.recipe import PartRules, Recipe, SourceSpec
from wdsctl.core.convert.references import REFERENCES, line_of, references_of
from wdsctl.core.convert.source import Detailed, LargePart, Part, Source
from wdsctl.core.convert.target import Target
from wdsctl.core.errors import DatasetError, StorageDown, WdsctlError
from wdsctl.core.files import drafted
from wdsctl.core.folders import inside
from wdsctl.core.transcode.parts import means, transcoded, written_name

AnyPart = Part | LargePart

_AHEAD = 64  # samples that the storage is told of at a time


class UnitJob(NamedTuple):
    """`root`: the destination. `left_out` and `as_is`: what the media of these samples have come to before."""

    plan: str
    unit: PlannedUnit
    root: str
    recipe: Recipe
    left_out: tuple[int, ...] = ()
    as_is: tuple[int, ...] = ()


class Failure(NamedTuple):
    """A sample that failed. `is_kept`: it went along as it was."""

    pos: int
    key: str
    code: str
    message: str
    is_kept: bool
    hint: str = ""


def write_unit(job: UnitJob) -> Done:
    """Write a unit and put it into its place: whole or absent. Raises what stops the run; samples that fail do not.

    Raises StorageError, PermissionDenied; and what is wrong with a sample, where `on_error` is `error`.
    """
    unit, recipe = job.unit, job.recipe
    path = unit_path(job.root, unit)
    failures: list[Failure] = []
    target = _target(recipe, unit)
    with drafted(path) as draft:
        with PlanFile(job.plan) as plan:
            samples = _samples(plan, job, failures)
            written = target.write(
                draft.path, cast("Iterator[tuple[str, Iterator[Part]]]", samples), dict(recipe.target_options)
            )
        if written.samples:
            draft.publish()
    left_out = tuple(failure.pos for failure in failures if not failure.is_kept)
    as_is = tuple(failure.pos for failure in failures if failure.is_kept)
    told = json.dumps(_counted(failures))
    return Done(unit.id, written.samples, written.size_bytes, written.facts, left_out, as_is, told)


def unit_path(root: str, unit: PlannedUnit) -> str:
    """Where a unit goes: ROOT/FOLDER/NAME; of a polylithic layout in `primary` or `media` in that folder.

    Raises InputError WDS415 where a plan that was found in the destination leads out of it.
    """
    return inside(root, unit.folder, unit.stream, unit.name)


def _samples(plan: PlanFile, job: UnitJob, failures: list[Failure]) -> Iterator[tuple[str, Iterator[AnyPart]]]:
    recipe, gone, as_is = job.recipe, frozenset(job.left_out), frozenset(job.as_is)
    items = plan.items(job.unit.first, job.unit.last)
    while some := list(islice(items, _AHEAD)):
        _foretell(recipe, some)
        for item in some:
            if item.pos in gone:
                continue
            parts = _made(recipe, job.unit, item, failures, is_kept=item.pos in as_is)
            if parts:
                yield item.key, iter(parts)


def _counted(failures: list[Failure]) -> list[tuple[str, str, str, bool, str, int]]:
    """The first failure of each kind, and how many there were: (key, code, message, is_kept, hint, count)."""
    counts = Counter((failure.code, failure.is_kept) for failure in failures)
    first = {(failure.code, failure.is_kept): failure for failure in reversed(failures)}
    return [(*failure[1:], counts[kind]) for kind, failure in sorted(first.items())]


def _foretell(recipe: Recipe, items: list[Item]) -> None:
    for number in {item.source for item in items}:
        source = _opened(recipe.sources[number])
        places = [item.place for item in items if item.source == number]
        # Neighbours are what systems read ahead by themselves.
        if source.detailed is not None and places[-1] - places[0] != len(places) - 1:
            source.detailed.will_need(places)


def _made(
    recipe: Recipe, unit: PlannedUnit, item: Item, failures: list[Failure], *, is_kept: bool
) -> list[AnyPart] | None:
    """The parts of a sample in this unit, by name; None where it is left out."""
    try:
        if _is_plain(recipe) and not unit.stream:
            source = _opened(recipe.sources[item.source])
            if source.detailed is not None:
                return _once(_some(list(source.detailed.read_some(item.place, _any))))
        parts, media = _read(recipe, unit, item, is_kept=is_kept)
        if not unit.stream:
            _some(parts)
    except StorageDown:
        raise
    except WdsctlError as error:
        if recipe.on_error == "error":
            raise _of_sample(error, item) from error
        failures.append(Failure(item.pos, item.key, error.code, _said(error), is_kept=False, hint=error.hint))
        return None
    try:
        made = parts if is_kept else [_transcoded(recipe, part) for part in parts]
        return _arranged(recipe, unit, item, made, media)
    except WdsctlError as error:
        if recipe.on_error == "error":
            raise _of_sample(error, item) from error
        keeps = recipe.on_error == "keep" and error.code == "WDS341"
        failures.append(Failure(item.pos, item.key, error.code, _said(error), is_kept=keeps, hint=error.hint))
        return _arranged(recipe, unit, item, parts, media) if keeps else None


def _said(error: WdsctlError) -> str:
    """What is wrong and where: the row of a table, say, which the sample's key does not tell."""
    return f"{error.where}: {error.message}" if error.where else error.message


def _read(recipe: Recipe, unit: PlannedUnit, item: Item, *, is_kept: bool = False) -> tuple[list[AnyPart], list[str]]:
    """The parts that go into this unit under their new names, and the names that those have which are kept apart."""
    source = _opened(recipe.sources[item.source])
    media: list[str] = []

    def wanted(name: str) -> bool:
        new = new_name(recipe.parts, name)
        if new is None:
            return False
        if not unit.stream:
            return True
        belongs = is_media(new, recipe.media)
        if belongs:
            media.append(new if is_kept else written_name(new, recipe.image, recipe.audio))
        return belongs == (unit.stream == "media")

    if source.detailed is not None:
        found = source.detailed.read_some(item.place, wanted)
    else:
        found = tuple(part for part in source.source.read(item.place) if wanted(part.name))
    return [_renamed(part, recipe.parts) for part in found], media


def _any(_name: str) -> bool:
    return True


@lru_cache(maxsize=1)
def _is_plain(recipe: Recipe) -> bool:
    """Whether all parts go along as they are."""
    return recipe.parts == PartRules() and recipe.image is None and recipe.audio is None


def _some(parts: list[AnyPart]) -> list[AnyPart]:
    """The parts of a sample. Raises DatasetError WDS232 where there are none: nothing is left out without a word."""
    if not parts:
        raise DatasetError(
            "the sample has no part that goes along",
            hint="look at it in the source: all of its fields are empty",
            code="WDS232",
        )
    return parts


def _once(parts: list[AnyPart]) -> list[AnyPart]:
    """The parts of a sample, sorted by name. Raises DatasetError WDS342 where two have one name."""
    for one, other in pairwise(parts):
        if one.name == other.name:
            raise _twice(one.name)
    return parts


def _renamed(part: AnyPart, rules: PartRules) -> AnyPart:
    new = new_name(rules, part.name)
    if new is None or new == part.name:
        return part
    return Part(new, part.data) if isinstance(part, Part) else replace(part, name=new)


def _transcoded(recipe: Recipe, part: AnyPart) -> AnyPart:
    if recipe.image is None and recipe.audio is None:
        return part
    if not any(options is not None and means(part.name, options) for options in (recipe.image, recipe.audio)):
        return part  # a large one is not read
    return Part(*transcoded(part.name, part.data, recipe.image, recipe.audio))


def _arranged(recipe: Recipe, unit: PlannedUnit, item: Item, parts: list[AnyPart], media: list[str]) -> list[AnyPart]:
    """Sorted by name, with the references that a primary needs. Raises DatasetError WDS342 where two have one name."""
    made = _once(sorted(parts, key=lambda part: part.name))
    if unit.stream != "primary":
        return made
    if any(part.name == REFERENCES for part in made):
        raise _twice(REFERENCES)
    if recipe.primary == "jsonl":
        return [Part("json", line_of(item.key, made, media))]
    return sorted([*made, references_of(item.key, media)], key=lambda part: part.name)


def _twice(name: str) -> DatasetError:
    return DatasetError(
        f"the sample would have two parts {name}",
        hint="rename one of them: `--rename-part`, or leave one out: `--drop-parts`",
        code="WDS342",
    )


def _of_sample(error: WdsctlError, item: Item) -> WdsctlError:
    error.where = f"sample {item.key}" + (f", {error.where}" if error.where else "")
    return error


class _Open(NamedTuple):
    source: Source
    detailed: Detailed | None


@lru_cache(maxsize=64)
def _opened(spec: SourceSpec) -> _Open:
    """One open source a process: its descriptors and maps serve all units."""
    source = importers.get(spec.importer).open(spec.path, dict(spec.options))
    return _Open(source, source if isinstance(source, Detailed) else None)


def forget_sources() -> None:
    """Close what this process has opened: for those that live on, as callers without workers do."""
    _opened.cache_clear()


def _target(recipe: Recipe, unit: PlannedUnit) -> Target:
    if unit.stream == "primary" and recipe.primary == "jsonl":
        from wdsctl.core.convert.exporters.lines import EXPORTER

        return EXPORTER
    return exporters.get(recipe.target if unit.stream != "primary" else "shards")
