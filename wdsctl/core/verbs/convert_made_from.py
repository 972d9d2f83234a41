"""What a finished conversion was made from, and whether other sources give the same: copies, files with new times."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from wdsctl.core.convert import exporters
from wdsctl.core.convert.paths import remove
from wdsctl.core.convert.plan_file import PlanFile
from wdsctl.core.convert.recipe import Recipe
from wdsctl.core.convert.unit import UnitJob, forget_sources, unit_path, write_unit
from wdsctl.core.counted import counted
from wdsctl.core.lock import check_held
from wdsctl.core.parallel import map_units
from wdsctl.core.place import Place
from wdsctl.core.printable import named
from wdsctl.core.progress import Progress
from wdsctl.core.stores import workers_for
from wdsctl.core.urls import is_url
from wdsctl.core.verbs.convert_report import ConvertOptions
from wdsctl.core.verbs.convert_sources import Opened

#: Options that the bytes do not follow from.
NOT_OF_BYTES = frozenset(["workers", "wait", "restart", "dry_run"])

#: Of a source with more files than this, no list is kept.
MOST_FILES = 100_000

#: Forms of which all that is read lies below the source.
_WHOLE = frozenset(["shards", "packed", "folder", "imagefolder"])

#: What options are called that are not called as their fields.
_FLAGS = {
    "from_form": "--from",
    "to_form": "--to",
    "form_options": "-O",
    "order": "--sort or --shuffle",
    "parts": "--parts, --drop-parts or --rename-part",
}


class _File(NamedTuple):
    size_bytes: int
    mtime_ns: int


_Files = dict[str, _File]


def made_from(options: ConvertOptions, opened: Opened) -> dict[str, Any]:
    """What a conversion follows from, as JSON. Cost: a walk through the sources."""
    said = {name: value for name, value in asdict(options).items() if name not in NOT_OF_BYTES}
    sources = [
        {
            "form": spec.importer,
            "options": [list(pair) for pair in spec.options if pair[0] not in ("catalog", "generation")],
            "files": _listed(spec.path),
        }
        for spec in opened.specs
    ]
    made: dict[str, Any] = json.loads(json.dumps({"options": said, "sources": sources}, default=str))
    return made


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is different, for people; of files, their names and sizes, and not their times."""
    was, options = before["options"], now["options"]
    other = [name for name in options if options[name] != was.get(name)]
    found = [f"another {_FLAGS.get(name) or '--' + name.replace('_', '-')}" for name in other]
    if len(before["sources"]) != len(now["sources"]):
        return [*found, f"{counted(len(now['sources']), 'source')}, and there were {len(before['sources'])}"]
    for old, new in zip(before["sources"], now["sources"], strict=True):
        if old["form"] != new["form"]:
            found.append(f"a source of the form {new['form']}, which was {old['form']}")
        elif old["options"] != new["options"] and not other:
            found.append("another view, or another way to read a source")
        if old["files"] is not None and new["files"] is not None:
            found += _of_files(_files(old["files"]), _files(new["files"]))
    return found


def have_same_times(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether all files have the sizes and times that they had: they were moved, or copied with `cp -a`.

    Of rows that name files, and of links to folders, nothing is known: what they name may lie anywhere.
    """
    pairs = zip(before["sources"], now["sources"], strict=True)
    return all(new["form"] in _WHOLE and _are_known(new["files"]) and old == new for old, new in pairs)


def gives_same_files(plan: str, recipe: Recipe, dest: str, place: Place, workers: int, progress: Progress) -> bool:
    """Whether the plan gives the files that are in DEST. Each is made once more, beside the plan, and compared.

    Cost: the sources are read once and DEST once, up to the first file that differs; room for a file a worker.
    """
    beside = os.path.dirname(plan)
    try:
        with PlanFile(plan) as planned:
            units = planned.units()
        size = sum(unit.size_bytes for unit in units)
        progress.phase("compare", items=sum(unit.samples for unit in units), size_bytes=size)
        jobs = (UnitJob(plan, unit, beside, recipe) for unit in units)
        workers = min((workers_for(spec.path, workers) for spec in recipe.sources), default=1)
        with closing(map_units(partial(_is_same, dest), jobs, workers)) as results:
            for i, is_same in results:
                check_held(place.lock)
                if not is_same:
                    return False
                progress.advance(items=units[i].samples, size_bytes=units[i].size_bytes)
        return True
    finally:
        forget_sources()


def can_be_compared(recipe: Recipe) -> bool:
    """Whether reading it again is quicker than converting: nothing is encoded, and each unit is one file."""
    is_plain = recipe.image is None and recipe.audio is None and not recipe.media
    return is_plain and bool(exporters.get(recipe.target).suffix)


def _is_same(dest: str, job: UnitJob) -> bool:
    done = write_unit(job)
    there = unit_path(dest, job.unit)
    if not done.samples:
        return not os.path.lexists(there)
    made = unit_path(job.root, job.unit)
    try:
        return _are_equal(made, there)
    finally:
        remove(made)


def _are_equal(path: str, other: str) -> bool:
    try:
        with open(path, "rb") as a, open(other, "rb") as b:
            while (data := a.read(1 << 20)) == b.read(1 << 20):
                if not data:
                    return True
            return False
    except FileNotFoundError:
        return False


def _listed(path: str) -> list[tuple[str, int, int]] | None:
    """(path below the source, size, time) of all files but hidden ones; None of a URL, and of too many."""
    if is_url(path):
        return None
    found = list(islice(_walk(path), MOST_FILES + 1))
    return sorted(found) if len(found) <= MOST_FILES else None


def _walk(root: str) -> Iterator[tuple[str, int, int]]:
    if not os.path.isdir(root):
        yield _state("", root)
        return
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in (*names, *links):
            if not name.startswith("."):
                path = os.path.join(folder, name)
                yield _state(os.path.relpath(path, root), path)


def _state(name: str, path: str) -> tuple[str, int, int]:
    """Of what cannot be looked at, and of a folder, no size."""
    shown = name.encode("utf-8", "backslashreplace").decode()
    try:
        status = os.stat(path)
    except OSError:
        return shown, -1, 0
    return shown, -1 if os.path.isdir(path) else status.st_size, status.st_mtime_ns


def _are_known(files: Sequence[Sequence[Any]] | None) -> bool:
    return files is not None and all(size >= 0 for _, size, _ in files)


def _files(listed: Sequence[Sequence[Any]]) -> _Files:
    return {name: _File(size, time) for name, size, time in listed}


def _of_files(old: _Files, new: _Files) -> Iterator[str]:
    kinds = {
        "{} new": sorted(new.keys() - old.keys()),
        "{} gone": sorted(old.keys() - new.keys()),
        "{} of another size": sorted(k for k in new.keys() & old.keys() if new[k].size_bytes != old[k].size_bytes),
    }
    for words, names in kinds.items():
        if names:
            such = f" ({'such as ' if len(names) > 1 else ''}{named(names[0])})" if names[0] else ""
            yield words.format(counted(len(names), "file")) + such
