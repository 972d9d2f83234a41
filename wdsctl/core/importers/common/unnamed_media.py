"""Refuse a table whose rows name none of the media beside it, with commands that work."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice, takewhile
from typing import Any

from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.importers.common.commands import repeat_command
from wdsctl.core.importers.common.documents import structured_references
from wdsctl.core.importers.common.files import PROBED_ROWS, find_media_fields
from wdsctl.core.importers.common.folder_files import FolderNames, media_type_of
from wdsctl.core.importers.common.named_files import (
    MAX_DEPTH,
    FoundFiles,
    Rows,
    Search,
    find_files,
    iter_folders,
    may_name_files,
    references_of,
    scan_below,
)
from wdsctl.core.importers.common.templates import ANY_ENDING, FoundTemplate, find_templates, is_template
from wdsctl.core.importers.protocol import Options
from wdsctl.core.samples.naming import KEY_COLUMN
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize

_MAX_MEDIA = 10_000  # whose names are compared with the rows
_MAX_COMMANDS = 3
_SURE_SHARE = 0.95
_PLAIN_COLUMN = re.compile(r"[\w .-]+")  # that a template can name
_MIN_BEGINNING = 3  # characters of a value that paths begin with
_MAX_TEMPLATES = 32
_MAX_SUBFOLDERS = 16  # that are searched for names of which rows have the beginnings
_FEW_MEDIA = 10  # rows per medium: a table of words may lie beside a few pictures about it


def check_names_media(source: str, path: str, rows: Rows, search: Search, options: Options) -> None:
    """Check a table whose first rows name no file. `source`: the table, or its folder, as the user names it.

    Raises InputError WDS230 if the files are beside the table's folder; UsageError for a folder `base` or a template
    that has no file; InputError WDS239 if the rows name none of the media beside the table, which seem to be theirs.
    """
    if any(KEY_COLUMN in row for row in rows):
        return  # samples that `convert` wrote name their files in another way
    if "base" in options or any(is_template(each) for each in options.get("files", "").split(",")):
        raise _no_effect_error(source, path, rows, search, options)
    if options.get("files") == "":
        return
    media = media_below(search.folder)
    if references_of(rows, options) or not media:
        _check_not_outside(source, path, rows, search.root, options)
    if structured_references(rows, options) is not None:
        return
    if not media:
        check_no_beginnings(source, path, rows, search.folder)
        return  # a row whose file is missing has its own error
    fitting = _fitting_templates(rows, search, media)
    if references_of(rows, options) and not fitting:
        return
    if not (fitting or may_name_files(rows, media) or _may_be_labels(rows, media)):
        return
    example = path_for_message(os.path.relpath(media[0], search.folder or "."))
    others = f"none of the {len(media):,} media files beside the table, such as" if media[1:] else "not"
    raise InputError(
        f"the rows name {others} {example}{'' if media[1:] else ', the media file beside the table'}",
        hint=f"{describe_templates(source, path, fitting)}; or prepare the rows without the media: "
        f"{repeat_command(source, path, {'files': ''})}",
        where=path_for_message(path),
        code="WDS239",
    )


def check_no_beginnings(source: str, path: str, rows: Rows, folder: str, *, names_table: bool = True) -> None:
    """Raise InputError WDS239 if paths of files that are no media begin with the values of a column.

    `names_table`: whether the commands have the table's path, and not that of its folder.
    """
    templates = _templates_of_beginnings(rows, folder)
    if templates:
        place = path if names_table else source
        raise InputError(
            f"paths of files begin with the values of a column: {path_for_message(templates[0])}",
            hint=f"make them parts of the samples: {repeat_command(source, place, {'files': ','.join(templates)})}; or "
            f"prepare the rows without the files: {repeat_command(source, path, {'files': ''})}",
            where=path_for_message(path),
            code="WDS239",
        )


def _templates_of_beginnings(rows: Rows, folder: str) -> list[str]:
    """The templates of files whose paths begin with the value of a column, in nearly all rows: `{name}.dat`,
    `{id}/{id}_seg.nii.gz`. Empty if these are many, or there are no different values.
    """
    names_in = cache(lambda below: scan_below(os.path.join(folder, below), folder))
    found = list[str]()
    for column in dict.fromkeys(name for row in rows for name in row if _PLAIN_COLUMN.fullmatch(name)):
        values = {
            row[column] for row in rows if isinstance(row.get(column), str) and len(row[column]) >= _MIN_BEGINNING
        }
        counts = Counter(
            path.replace(value, f"{{{column}}}")
            for value in (values if len(values) >= max(2, len(rows) / 2) else ())
            for path in _files_beginning(names_in, value)
        )
        found += [each for each, count in counts.items() if count >= _SURE_SHARE * len(values)]
    return found if len(found) <= _MAX_TEMPLATES and not any("," in each for each in found) else []


def _files_beginning(names_in: Callable[[str], FolderNames], value: str) -> Iterator[str]:
    """Yield the paths that continue a value: the files in a folder of this name, or with an ending, also those in a
    subfolder.

    `names_in`: the names in a folder, by its path.
    """
    above, _, name = value.rpartition("/")
    names = names_in("")
    below = ""
    for component in above.split("/") if above else ():
        if component not in names.folders:  # it does not exist, or leads out of the folder
            return
        below = os.path.join(below, component)
        names = names_in(below)
    if name in names.folders:
        yield from (os.path.join(value, each) for each in names_in(value).files)
    for folder in (below, *(os.path.join(below, each) for each in names.folders[:_MAX_SUBFOLDERS])):
        files = names_in(folder).files
        for each in takewhile(lambda file: file.startswith(name), islice(files, bisect_left(files, name), None)):
            if each[len(name) : len(name) + 1] in (".", "_", "-"):
                yield os.path.join(folder, each)


def describe_templates(source: str, path: str, fitting: Sequence[FoundTemplate]) -> str:
    """What to pass for `files=`, with the command for each of some templates."""
    if not fitting:
        return (
            "say how a row names its file, with columns in braces, such as `-O 'files=images/{COLUMN}.jpg'`, or add a "
            "column with the paths"
        )
    shown = [
        f"{repeat_command(source, path, {'files': each.text})} (it names files of {each.named:,} of the first "
        f"{pluralize(each.rows, 'row')})"
        for each in fitting[:_MAX_COMMANDS]
    ]
    return f"join them by a template over columns: {', or '.join(shown)}"


def find_sure_template(root: str, rows: Rows) -> str:
    """A template by which nearly all of these rows name media below a folder, and not only a few of the media.

    Empty if there is none.
    """
    media = media_below(root) if rows and structured_references(rows, {}) is None else []
    found = find_templates(rows, [os.path.relpath(path, root or ".") for path in media])
    best = found[0] if found else FoundTemplate("", 0, 0)
    is_about_media = best.named >= PROBED_ROWS / 2 or 2 * best.named >= len(media)
    return best.text if best.named >= max(2, _SURE_SHARE * len(rows)) and is_about_media else ""


def media_below(folder: str) -> list[str]:
    """The paths of some media in a folder and below it."""
    paths = (os.path.join(folder, below, name) for below, names in iter_folders(folder, MAX_DEPTH) for name in names)
    return list(islice(filter(media_type_of, paths), _MAX_MEDIA))


def _fitting_templates(rows: Rows, search: Search, media: Sequence[str]) -> list[FoundTemplate]:
    """The templates by which the rows name media. For columns of paths that do not exist: by their last components."""
    found = []
    for field in find_media_fields("", {}, rows):
        for text in (f"{{{field}.name}}", f"{{{field}.stem}}{ANY_ENDING}"):
            named = find_files(search, rows, {"files": text})
            if named.named and not named.rivals:
                found.append(FoundTemplate(text, named.named, len(rows)))
                break
    return found or find_templates(rows, [os.path.relpath(path, search.folder or ".") for path in media])


def _may_be_labels(rows: Rows, media: Sequence[str]) -> bool:
    """Whether rows may be about the media although they name none: they have no content of their own, such as texts,
    or there are about as many rows as media.
    """
    has_content = any(_is_content(value) for row in rows for value in row.values())
    is_similar = len(rows) <= 2 * len(media) and (len(rows) >= PROBED_ROWS or len(media) <= 2 * len(rows))
    return is_similar or (not has_content and _FEW_MEDIA * len(media) >= len(rows))


def _is_content(value: Any) -> bool:
    return isinstance(value, list | dict) or (isinstance(value, str) and " " in value.strip())


def _check_not_outside(source: str, path: str, rows: Rows, root: str, options: Options) -> None:
    """Raise InputError WDS230 if the files that the rows name are beside the table's folder."""
    above = os.path.dirname(source_files.absolute(root))
    found = find_files(Search(above, os.path.dirname(path), depth=1), rows, options)
    is_by_chance = found.files and found.named < PROBED_ROWS / 2 and 2 * found.named < found.files
    if not found.named or is_by_chance:
        return
    leaves = any(os.path.isabs(each) or ".." in each.split("/") for each in references_of(rows, options))
    bases = [above] if leaves else list(found.rivals or [found.names.base])
    commands = [repeat_command(source, path, {"base": each}) for each in bases]
    alone = f"; or prepare the rows without media: {repeat_command(source, path, {'files': ''})}" if found.files else ""
    raise InputError(
        f"the table names files outside its own folder: they are in {path_for_message(', '.join(bases))}",
        hint=f"allow that folder: {', or '.join(commands)}{alone}",
        where=path_for_message(path),
        code="WDS230",
    )


def _no_effect_error(source: str, path: str, rows: Rows, search: Search, options: Options) -> UsageError:
    """The error for options by which no row names a file."""
    given = {name: options[name] for name in ("base", "files") if name in options}
    shown = " and ".join(f"`-O {name}={value}`" for name, value in given.items())
    example = next(iter(references_of(rows, options)), "")
    names = f", such as {path_for_message(example)}" if example else ""
    others: Mapping[str, str] = {name: value for name, value in options.items() if name not in given}
    alone = search._replace(root=search.folder, base="")
    found: FoundFiles | None = find_files(alone, rows, others) if given else None
    if found is not None and found.named and not found.rivals:
        hint = f"omit the option: {repeat_command(source, path, {}, without=tuple(given))} finds the files"
    else:
        start = options.get("base", "") or search.folder
        media = media_below(start)
        fitting = find_templates(rows, [os.path.relpath(each, start or ".") for each in media])
        there_are = (
            f"there are files such as {path_for_message(os.path.relpath(media[0], start or '.'))}; " if media else ""
        )
        hint = f"{there_are}{describe_templates(source, path, fitting)}"
    return UsageError(
        f"{shown} has no effect: by it, none of the first {pluralize(len(rows), 'row')} names a file that "
        f"exists{names}",
        hint=hint,
        where=path_for_message(path),
    )
