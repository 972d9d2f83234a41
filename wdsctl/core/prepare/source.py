"""Recognise the source of `prepare`, and refuse sources and destinations that it cannot use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from wdsctl.core.catalog.presence import check_no_outside_shards
from wdsctl.core.dataset.location import locate, shell_command
from wdsctl.core.dataset.raw_folder import ALTERNATIVE_SEPARATOR
from wdsctl.core.dataset.shard_names import is_jsonl_name, split_file_root
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.shards.list import (
    COMPRESSED_TAR_SUFFIXES,
    ForbiddenFolder,
    find_jsonl_file,
    has_shards,
    has_tars,
    is_empty_folder,
)
from wdsctl.core.urls import is_url, redact_secrets

SourceKind = Literal["folder", "tars", "lines"]

#: Formats that only `convert` reads. Files of other formats may also be raw files, or lie beside them, such as a table.
_CONVERTED_FORMATS = frozenset(["packed", "polylithic", "mds", "litdata", "huggingface", "wids"])


def detect_source_kind(source: str) -> SourceKind:
    """Whether the source is tars, JSONL or raw files. Raises InputError for an empty folder, PermissionDenied."""
    check_source_exists(source)
    location = locate(source)
    if has_shards(location.root, location.single_file):
        if location.single_file:
            return "lines" if is_jsonl_name(location.single_file) else "tars"
        return "tars" if has_tars(location.root) else "lines"
    if is_empty_folder(location.root):
        raise InputError("the folder is empty", where=location.display_path, hint="check the path", code="WDS003")
    if is_url(location.root):
        raise _not_mounted_error("raw files must be on a disk or a mounted file system, not at a URL", location.root)
    return "folder"


def check_is_raw_folder(source: str, dest: str, *, are_shards: bool) -> None:
    """Raise UsageError if the source is not a folder of raw files: only these need a destination."""
    if are_shards:
        raise UsageError(
            "a selection of shards is prepared in place",
            where=redact_secrets(source),
            hint="remove DEST",
        )
    if split_file_root(source)[1] and not os.path.isdir(source):
        raise UsageError(
            "tars and JSONL files are prepared in place",
            where=redact_secrets(source),
            hint=shell_command("prepare", redact_secrets(source)),
        )
    if is_url(source):
        raise _not_mounted_error("raw files must be on a disk or a mounted file system, not at a URL", source)
    if is_url(dest):
        raise _not_mounted_error("shards must be written to a disk or a mounted file system, not to a URL", dest)


def check_source_exists(source: str) -> None:
    """Raise InputError if the source, raw files or shards, does not exist."""
    if is_url(source) or os.path.isdir(source) or split_file_root(source)[1]:
        return
    kind = "is a file, not a folder" if os.path.exists(source) else "does not exist"
    raise InputError(
        f"the source {kind}",
        where=source,
        hint="check the path: give a folder of raw files, one of shards, or one .tar or .jsonl file",
    )


def refuse_other_formats(source: str, dest: str | None) -> None:
    """Raise UsageError, with the command to run, for a format that only `convert` reads.

    Without a destination, also raises PermissionDenied WDS409 for links to shards outside of the source.
    """
    if dest is None:
        check_no_outside_shards(source)
    from wdsctl.core import importers

    found = [] if is_url(source) or not os.path.lexists(source) else importers.find_importers(source)
    names = [importer.name for importer, _ in found]
    is_among_files = names[:1] == ["packed"] and "folder" in names
    if names and (names[0] in _CONVERTED_FORMATS or os.path.isfile(source)) and not is_among_files:
        importer, match = found[0]
        raise UsageError(
            f"the source is not raw files but {importer.about} ({match.reason})",
            where=source,
            hint=shell_command("convert", source, dest or "DEST"),
        )


def jsonl_hint(source: str) -> str:
    """The end of a hint: the command that prepares the folder's JSONL file alone; empty if there is none."""
    name = find_jsonl_file(source)
    return f"; or prepare the JSONL file alone: {shell_command('prepare', os.path.join(source, name))}" if name else ""


def check_raw_folder(source: str, dest: str, parts: Sequence[str]) -> None:
    """Raise UsageError for a folder that holds shards or a link to `dest`.

    Shards would become parts of samples, and through the link the next run would find the shards of this one.
    """
    named = [name for part in parts for name in part.split(ALTERNATIVE_SEPARATOR)]
    try:
        holds = has_shards(source, forbidden=_ancestor_inodes(dest))
    except ForbiddenFolder as link:
        raise UsageError(
            "the raw folder has a link to the destination",
            where=f"{os.path.join(source, str(link))} and {dest}",
            hint="choose a destination next to the raw folder",
        ) from link
    if not holds or any(f".{part}".lower().endswith((".tar", *COMPRESSED_TAR_SUFFIXES)) for part in named):
        return
    raise UsageError(
        "the source already holds shards, which are prepared in place",
        where=source,
        hint=f"{shell_command('prepare', source)}; if its tars are parts of samples, name them: `--parts jpg,tar`",
    )


def _ancestor_inodes(dest: str) -> frozenset[tuple[int, int]]:
    """(device, inode) of a folder and of the folders above it, if they exist."""
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


def _not_mounted_error(message: str, url: str) -> UsageError:
    return UsageError(
        message,
        where=redact_secrets(url),
        hint="copy the raw files to a disk and prepare them there, then copy the shards to the object store",
    )
