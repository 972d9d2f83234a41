"""What a conversion finds in its destination: nothing, what it has written itself, or what it must not mix with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from wdsctl.core.command_line import command
from wdsctl.core.convert.paths import check_empty, forget_partials, remove
from wdsctl.core.convert.plan_file import PlanFile, PlannedUnit
from wdsctl.core.convert.recipe import Recipe
from wdsctl.core.convert.unit import unit_path
from wdsctl.core.errors import UsageError, WdsctlError
from wdsctl.core.files import check_folder, remove_empty, set_aside
from wdsctl.core.folders import inside
from wdsctl.core.json_text import read_json
from wdsctl.core.os_errors import translated
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import Progress
from wdsctl.core.verbs.convert_finish import BESIDE
from wdsctl.core.verbs.convert_made_from import can_be_compared, differences, gives_same_files, have_same_times
from wdsctl.core.verbs.convert_report import ConvertOptions
from wdsctl.core.verbs.convert_write import UNFOLDING

PLAN = "plan.sqlite"
FINISHED = "finished.json"


def check_is_room(place: Place, dest: str, work: str) -> None:
    """Raises UsageError where DEST holds anything that no conversion has put there: it might be replaced."""
    if any(os.path.exists(os.path.join(work, name)) for name in (PLAN, FINISHED)):
        return  # whose it is, its fingerprint tells
    check_empty(dest)
    if os.path.exists(place.catalog):
        raise UsageError(
            "the destination has the catalog of another dataset",
            where=place.catalog,
            hint="give a folder that is empty, or not there yet",
        )


@contextmanager
def forgotten_if_refused(place: Place, work: str, *, had_meta: bool) -> Iterator[None]:
    """Of a conversion that ends in an error before it has a plan, leave nothing that it made in its destination.

    Catalogs of sources that were indexed for it stay: they make the next run quick. For a caller that holds the lock.
    """
    try:
        yield
    except WdsctlError:
        names = os.listdir(work) if os.path.isdir(work) else []
        if not had_meta and not any(name in (PLAN, FINISHED) or name.startswith("source-") for name in names):
            remove(place.meta)
        raise


def check_alike(before: Mapping[str, Any] | None, now: Mapping[str, Any], dest: str) -> None:
    """Raises UsageError WDS345 where a finished conversion was made with other options, or from files with other names
    or sizes. What older versions have finished does not say what it was made from.
    """
    if before is None or (different := differences(before, now)):
        raise _made_by_another(dest, [] if before is None else different)


def check_copied(
    before: Mapping[str, Any] | None,
    now: Mapping[str, Any],
    plan: str,
    recipe: Recipe,
    dest: str,
    place: Place,
    workers: int,
    progress: Progress,
) -> None:
    """Raises UsageError WDS345 where the sources do not give the files that are there, or where it cannot be told.

    Cost: nothing where all have the times that they had; else as `gives_same_files`.
    """
    if before is None or before["plan"] != now["plan"]:
        raise _made_by_another(dest, ["other samples, or other splits of them"])
    if not have_same_times(before, now):
        if not can_be_compared(recipe):
            said = (
                "the files of the source have other times, and only converting them again tells whether they are alike"
            )
            raise _made_by_another(dest, [said])
        progress.note("the files of the source have other times: they are read once, and compared with the destination")
        if not gives_same_files(plan, recipe, dest, place, workers, progress):
            raise _made_by_another(dest, ["files of the same names and sizes, with other bytes"])
    progress.note("the source is a copy of what the destination was made from: nothing is to be done")


def _made_by_another(dest: str, different: Sequence[str]) -> UsageError:
    diff = command("diff", dest, "OTHER")
    hint = f"give another DEST: this one stays as it is, and {diff} then shows what has changed"
    if different and all(each.startswith("another -") for each in different):
        hint = f"give the options that it was made with ({command('log', dest)} shows them), or another DEST"
    return _other("the destination was made by another conversion", different, dest, hint)


def begin_anew_if_other(
    work: str, fingerprint: str, made: Mapping[str, Any], dest: str, options: ConvertOptions, place: Place | None
) -> None:
    """Where the plan that is there is of other sources or options: refuse it, or forget it with all that it made."""
    plan = os.path.join(work, PLAN)
    if not os.path.exists(plan):
        return
    with PlanFile(plan) as other:
        facts = other.facts()
        if facts.get("fingerprint") == fingerprint:
            return
        units = other.units()
    if os.path.exists(os.path.join(work, UNFOLDING)):
        said = "files of another conversion are on the way to their places in the destination"
        raise _other(said, [], dest, "remove the destination, with its .wdsctl folder; or give another DEST")
    if not options.restart and any(os.path.lexists(unit_path(dest, unit)) for unit in units):
        different = differences(read_json(facts["made_from"]), made) if "made_from" in facts else []
        hint = "give another DEST; or say `--yes` to remove what the other has written, and begin anew"
        raise _other("the destination was begun by another conversion", different, dest, hint)
    if place is not None:
        _forget(place.written, units)
    remove(plan)  # last: until then a run that is killed here leaves what the next one removes


def _forget(dest: str, units: Sequence[PlannedUnit]) -> None:
    """Remove the files of all units, and what was made of them: a catalog would hand its splits to other samples."""
    forget_partials(dest, {os.path.dirname(unit_path("", unit)) for unit in units} | {unit.folder for unit in units})
    for unit in units:
        remove(unit_path(dest, unit))
    for below, folder in {unit.dataset: unit.folder for unit in units}.items():
        root = inside(dest, below)
        if os.path.isdir(root):
            check_folder(root)
            _forget_catalog(locate(root, writing=True, home=root), is_whole=bool(below))
        for name in BESIDE:
            remove(inside(dest, folder, name))
        if below:
            with suppress(OSError):  # it holds something else, or was never made
                remove_empty(root)


def _forget_catalog(place: Place, *, is_whole: bool) -> None:
    """`is_whole`: forget the folder, too. That of DEST has the lock that is held, and the history."""
    if is_whole and place.is_inside:
        remove(place.meta)
        return
    with translated(place.meta, "list"), suppress(FileNotFoundError):
        for name in os.listdir(place.meta):
            if name in ("columns", "media") or name.startswith(("catalog.sqlite", "offsets-", "names-", "keyframes-")):
                remove(os.path.join(place.meta, name))
    if os.path.exists(place.dataset_yaml):
        set_aside(place.dataset_yaml, "before")  # somebody may have written it by hand


def _other(message: str, different: Sequence[str], dest: str, hint: str) -> UsageError:
    why = "; ".join(different) or "other sources, or options"
    return UsageError(f"{message}: {why}", where=dest, hint=hint, code="WDS345")
