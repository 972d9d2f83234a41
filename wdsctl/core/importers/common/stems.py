"""Rows that name media files without their extension, such as `0` for `images/0.jpg`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from wdsctl.core.importers.common.files import is_media_path
from wdsctl.core.importers.common.folder_files import media_type_of
from wdsctl.core.importers.common.roles import MEDIA_FOLDERS
from wdsctl.core.importers.common.samples import strip_extension
from wdsctl.core.safe_open import is_link_outside
from wdsctl.core.storage import source_files

_MIN_SHARE = 0.95  # of the probed rows must name a file
_MAX_ROWS_PER_FILE = 5  # more rows with one value are a label, such as a class from 0 to 9
_MAX_FOLDERS = 1_000  # subfolders that are searched

#: Names of fields, in lower case, whose numbers are no names of files.
_LABEL_FIELDS = frozenset({"label", "labels", "class", "class_id", "cls", "target", "category", "category_id", "score"})

#: Words in the names of fields, in lower case, that hold names of files.
_FILE_WORDS = MEDIA_FOLDERS | {"file", "files", "filename", "path", "paths"}


class StemField(NamedTuple):
    """The field that names files without their extension, the folder that they are in, and name -> path below it."""

    field: str
    folder: str
    paths: Mapping[str, str]


def find_stem_field(folder: str, rows: Sequence[Mapping[str, Any]], fields: Iterable[str]) -> StemField | None:
    """The field in which at least 95 % of the rows name one media file each, in `folder` or in one subfolder of it.

    None if there is no such field, or if several subfolders fit. `fields`: those that the user names; empty for any.
    """
    names = tuple(fields) or tuple(
        name for name in dict.fromkeys(name for row in rows for name in row) if name.lower() not in _LABEL_FIELDS
    )
    values = {name: [str(row[name]) for row in rows if _is_name(row.get(name))] for name in names}
    values = {
        name: found
        for name, found in values.items()
        if found and len(found) >= _MIN_SHARE * len(rows) and len(set(found)) * _MAX_ROWS_PER_FILE >= len(found)
    }
    if not values:
        return None
    by_folder = list_media(folder)
    below = {
        strip_extension(path): path
        for subfolder, files in by_folder.items()
        for path in (os.path.join(subfolder, name) for name in _unique_stems(files).values())
    }
    candidates = [(folder, below)]
    candidates += [(os.path.join(folder, name), _unique_stems(files)) for name, files in by_folder.items() if name]
    fitting = [
        (len(set(found)), StemField(name, base, paths))
        for base, paths in candidates
        for name, found in values.items()
        if sum(value in paths for value in found) >= _MIN_SHARE * len(rows)
    ]
    most = max((count for count, _ in fitting), default=0)
    best = [found for count, found in fitting if count == most]
    return best[0] if best and len({found.folder for found in best}) == 1 else None


def may_name_files(rows: Iterable[Mapping[str, Any]], media: Iterable[str]) -> bool:
    """Whether a field of the rows looks like names of files.

    It has a name such as `image_id` or `path`, or one of its values ends as media do, or is the name of one of `media`
    with or without its extension.
    """
    names = set(map(os.path.basename, media))
    names |= {strip_extension(name) for name in names}
    return any(
        (not _FILE_WORDS.isdisjoint(re.split("[-_. ]", field.lower())) and _is_name(value))
        or is_media_path(value)
        or (_is_name(value) and os.path.basename(str(value)) in names)
        for row in rows
        for field, value in row.items()
    )


def _is_name(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


def _unique_stems(names: Iterable[str]) -> dict[str, str]:
    """Name without the extension -> name, for the names that no other one equals but for its extension."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(strip_extension(name), []).append(name)
    return {stem: alike[0] for stem, alike in found.items() if len(alike) == 1}


def list_media(folder: str) -> dict[str, list[str]]:
    """The names of media files in a folder (under "") and in each of its subfolders, sorted."""
    found = {"": _media_names(folder)}
    try:
        with source_files.scan(folder or ".") as entries:
            names = sorted(
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir() and not is_link_outside(entry, folder or ".")
            )
    except OSError:
        return found  # opening the table reports the error
    return found | {name: _media_names(os.path.join(folder, name)) for name in names[:_MAX_FOLDERS]}


def _media_names(folder: str) -> list[str]:
    try:
        with source_files.scan(folder or ".") as entries:
            return sorted(
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and media_type_of(entry.name) and entry.is_file()
            )
    except OSError:
        return []
