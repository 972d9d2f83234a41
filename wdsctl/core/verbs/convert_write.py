"""Writes the units of a conversion that are not in their places yet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby

from wdsctl.core.convert import exporters
from wdsctl.core.convert.paths import forget_partials, unfold
from wdsctl.core.convert.plan_file import Done, DoneFile, PlanFile, PlannedUnit
from wdsctl.core.convert.recipe import Recipe
from wdsctl.core.convert.target import Unit
from wdsctl.core.convert.unit import UnitJob, forget_sources, unit_path, write_unit
from wdsctl.core.files import write_text
from wdsctl.core.folders import inside
from wdsctl.core.lock import check_held
from wdsctl.core.parallel import map_units
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.stores import workers_for
from wdsctl.core.verbs.convert_report import ConvertOptions

#: While it is there, all units of a folder of files are written, and their files are on the way to their places.
UNFOLDING = "unfolding"

#: Which units are done.
DONE = "done.sqlite"

_PRELOAD = ("wdsctl.core.convert.unit", "wdsctl.core.convert.importers.shards", "wdsctl.core.convert.exporters.shards")


def write_units(
    plan: PlanFile,
    recipe: Recipe,
    work: str,
    fingerprint: str,
    options: ConvertOptions,
    place: Place,
    progress: Progress,
) -> tuple[dict[int, Done], int]:
    """Write the units that are not there yet: (all that are done, how many were written now)."""
    units = plan.units()
    dest = place.written
    written = 0
    with DoneFile(os.path.join(work, DONE), fingerprint) as known:
        is_whole = os.path.exists(os.path.join(work, UNFOLDING))
        before = known.all().items()
        done = {number: each for number, each in before if is_whole or _is_there(dest, units[number], each)}
        beside = {unit.folder for unit in units} if recipe.media else set()
        forget_partials(dest, {os.path.dirname(unit_path("", unit)) for unit in units} | beside)
        # The media come first: a sample whose media failed must not be in the primary.
        for stream, some in groupby(units, key=lambda unit: unit.stream):
            mine = list(some)
            left = [unit for unit in mine if unit.id not in done]
            if not left:
                continue
            name = f"write {stream}".rstrip()
            progress.phase(name, items=sum(u.samples for u in left), size_bytes=sum(u.size_bytes for u in left))
            jobs = _jobs(plan.path, left, recipe, dest, done, units)
            workers = min((workers_for(spec.path, options.workers) for spec in recipe.sources), default=1)
            try:
                with closing(map_units(write_unit, jobs, workers, preload=_PRELOAD)) as results:
                    for i, result in results:
                        check_held(place.lock)
                        known.add(result)
                        done[left[i].id] = result
                        written += bool(result.samples)
                        progress.advance(items=left[i].samples, size_bytes=left[i].size_bytes)
            finally:
                forget_sources()
    return done, written


def _jobs(
    plan: str,
    units: Sequence[PlannedUnit],
    recipe: Recipe,
    dest: str,
    done: Mapping[int, Done],
    all_units: Sequence[PlannedUnit],
) -> Iterator[UnitJob]:
    media = [done[unit.id] for unit in all_units if unit.stream == "media" and unit.id in done]
    left_out = sorted(pos for each in media for pos in each.left_out)
    as_is = sorted(pos for each in media for pos in each.as_is)
    for unit in units:
        if unit.stream != "primary":
            yield UnitJob(plan, unit, dest, recipe)
            continue
        gone, kept = (tuple(p for p in some if unit.first <= p <= unit.last) for some in (left_out, as_is))
        yield UnitJob(plan, unit, dest, recipe, gone, kept)


def _is_there(dest: str, unit: PlannedUnit, done: Done) -> bool:
    """Whether the unit is in its place, of the size it had; one without samples has none."""
    if not done.samples:
        return True
    path = unit_path(dest, unit)
    return os.path.isdir(path) or (os.path.isfile(path) and os.path.getsize(path) == done.size_bytes)


def finish_target(units: Sequence[PlannedUnit], done: Mapping[int, Done], recipe: Recipe, dest: str, work: str) -> None:
    if recipe.media:
        return
    target = exporters.get(recipe.target)
    if not target.suffix:
        # From here on files leave the folders of their units: who goes on must not take these for unwritten.
        write_text(os.path.join(work, UNFOLDING), "")
        for unit in units:
            unfold(unit_path(dest, unit), inside(dest, unit.folder))
    for folder, some in groupby(units, key=lambda unit: unit.folder):
        facts = ((unit.name, done[unit.id]) for unit in some)
        written = [Unit(name, each.samples, each.size_bytes, each.facts) for name, each in facts]
        target.finish(os.path.join(dest, folder), written, dict(recipe.target_options))
