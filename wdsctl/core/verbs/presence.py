"""Is there anything to work on: a catalog, and samples in it? If not, why not, and what is there instead."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from wdsctl.core.beneath import check_beneath
from wdsctl.core.catalog.identity import missing
from wdsctl.core.catalog.media_settings import FOLDER, KIND
from wdsctl.core.catalog.quick import refuse_media_folder
from wdsctl.core.catalog.quick_facts import facts
from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.command_line import command, command_at
from wdsctl.core.counted import counted
from wdsctl.core.errors import CatalogError, InputError, WdsctlError
from wdsctl.core.files import make_folder
from wdsctl.core.findings import Finding
from wdsctl.core.line_files import unpacker
from wdsctl.core.lock import locked, writer
from wdsctl.core.os_errors import translated
from wdsctl.core.place import META, Place, locate
from wdsctl.core.printable import named
from wdsctl.core.progress import SILENT
from wdsctl.core.shard_list import a_shard_outside, holds_shards, list_shards
from wdsctl.core.urls import is_url

NAMED = 3  # datasets that are named in an error

_LOOK = 600.0  # seconds to wait for another reader that looks into the same tar

#: Of members that make no part of a sample, and of shards that have no samples for another reason.
_WHY = ("WDS112", "WDS111", "WDS118")


def check_catalog(place: Place) -> None:
    """`check_made`, and that the catalog is not of a folder of media. Raises InputError WDS322, too."""
    check_made(place)
    refuse_media_folder(place.catalog)


def check_made(place: Place) -> None:
    """Raise what helps most where there is no catalog: that it is being made, that there are no shards, or how to make
    one. CatalogError WDS301 or WDS304, InputError WDS003.

    Of one tar that nobody has prepared the catalog is made here, or made again where the tar has changed: that costs a
    read of its headers.
    """
    if place.is_passing:
        _look_in(place)
    if os.path.exists(place.catalog):
        return
    held = writer(place.lock)
    if held:
        raise CatalogError(
            f"the dataset is being prepared, and has no catalog yet: {held}",
            where=place.lock,
            hint="wait for it, with `--wait` where a command has that; if it is surely dead: "
            + command_at(place, "index", "--break-lock"),
            code="WDS304",
        )
    raise _unmade(place)


def _look_in(place: Place) -> None:
    """Index one tar, in the user's data folder, unless that was done and it is as it was."""
    from wdsctl.core.verbs.index import IndexRequest, index_at

    make_folder(place.meta)
    with locked(place.lock, wait=_LOOK, note=lambda _: None):
        # Odd keys are for `validate` to tell: nothing is kept of them here.
        index_at(place, IndexRequest(missing="drop", is_ours=True), SILENT)


def _unmade(place: Place) -> WdsctlError:
    """Why there is no catalog: datasets lie in the folder, all is compressed, there is nothing, or nobody made one."""
    inside = _datasets_in(place)
    if inside:
        more = f" and {len(inside) - NAMED:,} more" if len(inside) > NAMED else ""
        return CatalogError(
            f"there is no catalog, but {counted(len(inside), 'prepared dataset')} inside: "
            f"{', '.join(map(named, inside[:NAMED]))}{more}",
            where=place.shown,
            hint=f"name one of them, such as by {command('inspect', os.path.join(place.shown, inside[0]))}",
            code="WDS301",
        )
    if not holds_shards(place.root, place.only):
        return no_shards(place)
    listing = list_shards(place.root, only=place.only)
    packed = [finding.shard for finding in listing.findings if finding.code == "WDS113"]
    return missing(place.catalog) if listing.shards or not packed else only_compressed(place, packed)


def _datasets_in(place: Place) -> list[str]:
    """The folders of this folder that have catalogs: a polylithic dataset has its primary and its media so."""
    if is_url(place.root) or place.only:
        return []
    with translated(place.root, "read"), os.scandir(place.root) as entries:
        names = sorted(entry.name for entry in entries)
    return [name for name in names if os.path.exists(os.path.join(place.root, name, META, "catalog.sqlite"))]


def is_media_folder(root: str, catalog: str | None = None, *, asked: bool = False) -> bool:
    """Whether `root` has the catalog of a folder of media; or, where it has none, and facts of media are `asked` for,
    whether it holds no shards. Raises what `locate` raises.
    """
    place = locate(root, catalog)
    if not os.path.exists(place.catalog):
        return asked and not holds_shards(place.root, place.only)
    try:
        return facts(place.catalog).get(KIND) == FOLDER
    except CatalogError:
        return False


def wait_for_catalog(place: Place, wait: float, note: Callable[[str], None]) -> None:
    """Where somebody makes the first catalog, wait for their end, for at most so many seconds.

    Raises CatalogError WDS304 where they take longer. Nothing is made where nobody is at work.
    """
    if wait and not os.path.exists(place.catalog) and writer(place.lock):
        with locked(place.lock, wait=wait, note=note):
            pass


def only_compressed(place: Place, packed: Sequence[str]) -> InputError:
    """`packed`: the paths of the files, which are compressed tars or lines."""
    tools = sorted({tool for path in packed if (tool := unpacker(path))})
    tars = f"{command('convert', place.shown, 'DEST')} unpacks them into shards"
    return InputError(
        f"no tar files here, and no JSONL, only {counted(len(packed), 'compressed one')}",
        where=place.shown,
        hint=f"unpack them, such as by `{tools[0]} {named(packed[0])}`" if tools else tars,
        code="WDS113",
    )


def no_shards(place: Place) -> InputError:
    """The error of a folder without shards. Raises PermissionDenied WDS409, as the next one."""
    refuse_shards_outside(place.root)
    return InputError(
        "no tar files here, and no JSONL",
        where=place.shown,
        hint=f"raw files become shards by {command('prepare', place.shown, 'DEST')}",
        code="WDS003",
    )


def refuse_shards_outside(root: str) -> None:
    """Raise PermissionDenied WDS409 where links to shards lead out of a folder in which no others are."""
    path = "" if is_url(root) or not os.path.isdir(root) else a_shard_outside(root)
    if path:
        check_beneath(os.path.join(root, path), root)


def no_samples(place: Place, rows: Sequence[ShardRow], findings: Iterable[Finding] = ()) -> list[Finding]:
    """One finding where the dataset has no samples: what is there instead, as far as `findings` of its shards tell."""
    if any(row.samples for row in rows):
        return []
    counts: Counter[str] = Counter()
    words: dict[str, str] = {}
    for finding in findings:
        counts[finding.code] += finding.count
        words.setdefault(finding.code, finding.message)
    instead = [f"{counts[code]:,} {words[code]}" for code in _WHY if code in counts]
    broken = sum(row.code is not None for row in rows)
    if broken:
        instead.append(f"{counted(broken, 'shard')} that cannot be used")
    elif not instead and "WDS115" in counts:
        instead.append("no members at all")
    there = f": {'; '.join(instead)}" if instead else ""
    message = f"no samples in {counted(len(rows), 'shard')}{there} ({command_at(place, 'validate')} tells more)"
    return [Finding(code="WDS119", severity="error", message=message)]
