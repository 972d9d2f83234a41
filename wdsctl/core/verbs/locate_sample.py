"""A sample by its key, as a user names it: one, or an error that lists what there is instead."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wdsctl.core.catalog.browse import Browser
from wdsctl.core.catalog.placed import Members, PartPlace, Placed
from wdsctl.core.command_line import command_at
from wdsctl.core.counted import counted
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.naming import shard_key, spellings
from wdsctl.core.place import Place
from wdsctl.core.printable import one_line
from wdsctl.core.root_name import located

if TYPE_CHECKING:
    from wdsctl.core.stored_samples import StoredSamples

LISTED = 20  # candidates named in an error
_LOOKED_AT = 5_000_000  # keys without an index that are compared with one that is not there


def require_catalog(place: Place) -> None:
    """Raise what helps most where there is no catalog. SQLAlchemy is imported only to say it."""
    if place.is_passing or not os.path.exists(place.catalog):
        from wdsctl.core.verbs.presence import check_catalog

        check_catalog(place)


def find_all(place: Place, browser: Browser, key: str) -> list[Placed]:
    """Every sample of this key, as shards have it or as its raw files had it.

    A catalog without rows of samples costs a search in the offsets file's keys.
    """
    find = browser.find if browser.has_rows else _stored(place, browser).find
    return find(key) or (find(shard_key(key)) if shard_key(key) != key else [])


def find_one(
    place: Place,
    browser: Browser,
    key: str,
    *,
    shard: str | None = None,
    position: int | None = None,
    part: str | None = None,
    members: Members | None = None,
) -> Placed:
    """The one sample of this key, of those in `shard`, at `position` in it, with a `part` of this name, in `members`.

    Raises InputError WDS004 where there is none, UsageError WDS005 where there are several.
    """
    there = find_all(place, browser, key)
    if not there:
        raise _no_sample(place, browser, key)
    found = [each for each in there if members is None or members.has(each.id)]
    if not found:
        raise InputError(
            f"the sample {key!r} is not in the view",
            where=place.shown,
            hint="name the dataset without @VIEW to have it",
            code="WDS004",
        )
    chosen = [each for each in found if _is_in(each.shard, shard) and position in (None, each.position)]
    if part is not None:
        chosen = [each for each in chosen if each.part(part)] or chosen
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        raise InputError(
            f"no sample of the key {key!r} is there; it stands in {_listed(found)}",
            where=_asked(shard, position),
            hint="name one of these by --shard, or leave it out",
            code="WDS004",
        )
    twice = len({each.shard for each in chosen}) < len(chosen)
    raise UsageError(
        f"the key {key!r} stands {len(chosen)} times: in {_listed(chosen)}",
        where=place.shown,
        hint="choose with --shard PATH" + (", and with --position N within a shard" if twice else ""),
        code="WDS005",
    )


def members_of(place: Place, browser: Browser, split: str) -> Members:
    """Which samples a split has. Raises InputError WDS211 where there is no such split."""
    members = browser.members(split)
    if members is None:
        names = ", ".join(browser.splits())
        divide = command_at(place, "split", "train=8,val=1,test=1")
        raise InputError(
            f"the dataset has no split {split!r}; it has {names or 'none yet'}",
            where=place.shown,
            hint=f"choose one of these; {divide} divides it anew" if names else f"{divide} makes splits",
            code="WDS211",
        )
    return members


def open_root(root: str, catalog: str | None = None) -> tuple[Place, str]:
    """The place of `ROOT` or `ROOT@VIEW`, and the view's name or nothing, where there is a catalog."""
    place, view = located(root, catalog)
    require_catalog(place)
    return place, view


def chosen_of(place: Place, browser: Browser, view: str, split: str | None = None) -> Members | None:
    """The samples of a view, of a split, or those in both; None: all of them. Raises InputError WDS211 and WDS330,
    CatalogError WDS331 where shards of the view have changed.
    """
    if not view:
        return None if split is None else members_of(place, browser, split)
    from wdsctl.core.selections import intersected, of_split, selected

    found = selected(place, view)
    if split is not None:
        members_of(place, browser, split)
        found = intersected(found, of_split(place, split))
    return Members({shard: part.bits for shard, part in found.items()})


def name_of_part(place: Place, browser: Browser, key: str) -> tuple[str, str] | None:
    """(key, part) where `key` is a file name of a sample that is there: `a/7.seg.png`, as `ls --parts` lists it."""
    if browser.is_media_folder:
        return None
    return next((named for named in spellings(key) if find_all(place, browser, named[0])), None)


def choose_part(place: Place, sample: Placed, name: str | None) -> PartPlace:
    """The part of this name, or the only one. Raises InputError WDS004, UsageError WDS005."""
    names = list(dict.fromkeys(part.name for part in sample.parts))
    if name is None and len(names) == 1:
        return sample.parts[-1]
    there = ", ".join(map(one_line, names)) or "none"
    if name is None:
        raise UsageError(
            f"the sample has {counted(len(names), 'part')}: {there}",
            where=f"{place.shown}, sample {one_line(sample.key)}",
            hint="choose with --part NAME, or write all of them into a folder: -o FOLDER/",
            code="WDS005",
        )
    part = sample.part(name.removeprefix("."))
    if part is None:
        raise InputError(
            f"the sample has no part {name!r}; it has {there}",
            where=f"{place.shown}, sample {one_line(sample.key)}",
            hint="--part takes what follows the key's first dot, such as jpg or seg.png",
            code="WDS004",
        )
    return part


def _is_in(path: str, shard: str | None) -> bool:
    """A shard is named by its path in the dataset, or by the end of it."""
    return shard is None or path == shard or path.endswith(f"/{shard}")


def _no_sample(place: Place, browser: Browser, key: str) -> InputError:
    near = list(map(one_line, _neighbours(place, browser, key)))
    thing = "file" if browser.is_media_folder else "sample"
    beside = f"; its neighbour{'s' if len(near) > 1 else ''} would be {' and '.join(near)}" if near else ""
    return InputError(
        f"there is no {thing} {key!r}{beside}",
        where=place.shown,
        hint=f"{command_at(place, 'ls', '--samples')} lists them",
        code="WDS004",
    )


def _neighbours(place: Place, browser: Browser, key: str) -> list[str]:
    """What may have been meant; nothing where looking for it would take seconds."""
    if browser.has_rows:
        return browser.neighbours(key)
    stored = _stored(place, browser)
    return stored.neighbours(key) if len(stored) <= _LOOKED_AT else []


def _stored(place: Place, browser: Browser) -> StoredSamples:
    from wdsctl.core.stored_samples import StoredSamples  # imports numpy, which nothing else here needs

    return StoredSamples(place, browser.generation)


def _listed(found: Sequence[Placed]) -> str:
    names = [f"{one_line(each.shard)} (position {each.position:,})" for each in found[:LISTED]]
    more = [f"{len(found) - LISTED:,} more"] if len(found) > LISTED else []
    return ", ".join([*names, *more])


def _asked(shard: str | None, position: int | None) -> str:
    words = [f"shard {one_line(shard)}"] if shard else []
    return ", ".join([*words, *([f"position {position:,}"] if position is not None else [])])
