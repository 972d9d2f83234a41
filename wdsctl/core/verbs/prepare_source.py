"""What the source of `prepare` is, and what it and the destination are refused for before anything is made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from wdsctl.core.command_line import command
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.formats.folder import EITHER
from wdsctl.core.line_files import is_lines, parted
from wdsctl.core.place import locate
from wdsctl.core.shard_list import (
    COMPRESSED,
    BarredFolder,
    a_file_of_lines,
    holds_shards,
    holds_tars,
    is_empty,
)
from wdsctl.core.urls import is_url, shown
from wdsctl.core.verbs.presence import refuse_shards_outside

Source = Literal["folder", "tars", "lines"]

#: Forms that `convert` makes shards of. Others are raw files, too (a folder a class), or may lie beside them (a table).
_CONVERTED = frozenset(["packed", "polylithic", "mds", "litdata", "huggingface", "wids"])


def look(source: str) -> Source:
    """Whether it is shards, lines or raw files. Raises InputError if it holds nothing, PermissionDenied."""
    check_there(source)
    place = locate(source)
    if holds_shards(place.root, place.only):
        if place.only:
            return "lines" if is_lines(place.only) else "tars"
        return "tars" if holds_tars(place.root) else "lines"
    if is_empty(place.root):
        raise InputError("the folder is empty", where=place.shown, hint="check the path", code="WDS003")
    if is_url(place.root):
        raise _not_mounted("raw files are read from a disk or a mounted file system, not from a URL", place.root)
    return "folder"


def check_dest(source: str, dest: str, *, are_shards: bool) -> None:
    """Raises UsageError where the source is no folder of raw files: only their shards go anywhere else."""
    if are_shards:
        raise UsageError(
            "shards are prepared in place, and raw files are given as a folder",
            where=shown(source),
            hint="leave DEST out",
        )
    if parted(source)[1] and not os.path.isdir(source):
        raise UsageError(
            "a tar or a file of lines is a dataset as it is, and is prepared in place",
            where=shown(source),
            hint=command("prepare", shown(source)),
        )
    if is_url(source):
        raise _not_mounted("raw files are read from a disk or a mounted file system, not from a URL", source)
    if is_url(dest):
        raise _not_mounted("shards are written to a disk or a mounted file system, not to a URL", dest)


def check_there(source: str) -> None:
    """It may hold raw files or shards: the words must fit both."""
    if is_url(source) or os.path.isdir(source) or parted(source)[1]:
        return
    kind = "is a file, not a folder" if os.path.exists(source) else "does not exist"
    raise InputError(
        f"the source {kind}",
        where=source,
        hint="check the path: give a folder of raw files, one of shards, or one .tar or .jsonl file",
    )


def refuse_other_forms(source: str, dest: str | None) -> None:
    """Where it is of a form that is no folder of raw files, name the command that converts it.

    Without a destination, raise PermissionDenied WDS409, too, where it holds links to shards that lead out.
    """
    if dest is None:
        refuse_shards_outside(source)
    from wdsctl.core.convert import importers

    found = [] if is_url(source) or not os.path.lexists(source) else importers.find(source)
    names = [importer.name for importer, _ in found]
    is_among_files = names[:1] == ["packed"] and "folder" in names
    if names and (names[0] in _CONVERTED or os.path.isfile(source)) and not is_among_files:
        importer, seen = found[0]
        raise UsageError(
            f"this is no folder of raw files but {importer.about} ({seen.reason})",
            where=source,
            hint=command("convert", source, dest or "DEST"),
        )


def or_lines(source: str) -> str:
    """Where labels lie among media: they are a dataset by themselves, if they are named."""
    name = a_file_of_lines(source)
    return f"; or name the lines alone: {command('prepare', os.path.join(source, name))}" if name else ""


def check_raw(source: str, dest: str, parts: Sequence[str]) -> None:
    """Refuse a folder of shards as raw files: they would become parts of samples of other shards. Refuse one that a
    link in it leads from to `dest`, too: the next run would find the shards of this one there.
    """
    named = [name for part in parts for name in part.split(EITHER)]
    try:
        holds = holds_shards(source, barred=_around(dest))
    except BarredFolder as link:
        raise UsageError(
            "the destination lies in the raw folder, by a link",
            where=f"{os.path.join(source, str(link))} and {dest}",
            hint="give a destination beside the raw folder, or remove the link",
        ) from link
    if not holds or any(f".{part}".lower().endswith((".tar", *COMPRESSED)) for part in named):
        return
    raise UsageError(
        "the source holds shards already, and is prepared in place",
        where=source,
        hint=f"{command('prepare', source)}; if its tars are parts of samples, name them: `--parts jpg,tar`",
    )


def _around(dest: str) -> frozenset[tuple[int, int]]:
    """A folder and those that it is in, as far as they are there, each as (device, inode)."""
    found = []
    folder = os.path.realpath(dest)
    while True:
        with suppress(OSError):
            status = os.stat(folder)
            found.append((status.st_dev, status.st_ino))
        above = os.path.dirname(folder)
        if above == folder:
            return frozenset(found)
        folder = above


def _not_mounted(message: str, url: str) -> UsageError:
    return UsageError(
        message,
        where=shown(url),
        hint="copy the raw files to a disk and prepare them there; the shards may then be copied to the store",
    )
