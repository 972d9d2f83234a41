"""Find the files that the rows of a table name: by path, by a template over columns, or by name without the ending.

The search has one order: below the folder that `-O base=` names, the table's folder, and the folder that the user names
if the table is below it. In each of them: the folder itself, its folders `images`, `media`, `data` and those of the
table's split, then all folders, level by level. The first rows decide which folder and which way a field has; all rows
then have the same ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from wdsctl.core.importers.common.documents import structured_references
from wdsctl.core.importers.common.files import (
    Stems,
    extension_of_name,
    find_media_fields,
    find_spelled,
    is_below,
    is_media_path,
    list_references,
    spelling,
)
from wdsctl.core.importers.common.folder_files import FolderNames, media_type_of, scan_folder
from wdsctl.core.importers.common.roles import MEDIA_FOLDERS
from wdsctl.core.importers.common.samples import FileNames
from wdsctl.core.importers.common.templates import (
    ANY_ENDING,
    is_template,
    parse_template,
)
from wdsctl.core.importers.common.values import parse_list_option
from wdsctl.core.importers.protocol import Options
from wdsctl.core.samples.naming import KEY_COLUMN, strip_extension
from wdsctl.core.storage import source_files

Rows = Sequence[Mapping[str, Any]]

#: Folders with media that references are often relative to.
_USUAL_FOLDERS = ("images", "media", "data")
_MAX_FOLDERS = 1_000  # folders of one level that are searched
MAX_DEPTH = 3
_MAX_PATH_CHARS = 1_000
_PROBED_REFERENCES = 16  # that show whether a folder is worth counting
_ENOUGH_SHARE = 0.5  # of the references: other folders are not searched

_STEM_SHARE = 0.95  # of the rows must name a medium by a field whose name does not say that it does
_FILE_FIELD_SHARE = 0.5  # by a field whose name does
_MAX_ROWS_PER_FILE = 5  # more rows with one value are a label, such as a class from 0 to 9

#: Names of fields, in lower case, whose numbers are no names of files.
_LABEL_FIELDS = frozenset({"label", "labels", "class", "class_id", "cls", "target", "category", "category_id", "score"})

#: Words in the names of fields, in lower case, that hold names of files.
_FILE_WORDS = MEDIA_FOLDERS | {"file", "files", "filename", "path", "paths"}


_NUMBER = re.compile("[0-9]+")


class Search(NamedTuple):
    """Where the files of a table are looked for. `root`: the folder that the user names; that of the table if the user
    names the table. `base`: the folder of `-O base=`; empty without it. `split_folders`: names of folders of its split.
    `depth`: levels of folders that are searched.
    """

    root: str
    folder: str
    base: str = ""
    split_folders: Sequence[str] = ()
    depth: int = MAX_DEPTH

    @property
    def starts(self) -> list[str]:
        return list(dict.fromkeys([*([self.base] if self.base else []), self.folder, self.root]))

    @property
    def limit(self) -> str:
        """The folder that holds all files which rows may name."""
        return source_files.absolute(self.base or self.root)


class FoundFiles(NamedTuple):
    """How rows name files. `named`: how many files the first rows name. `rivals`: folders that are equally good.

    `files`: how many media there are, if the rows name them without endings; else 0. `rival_fields`: fields by which
    the rows name as many files, but others.
    """

    names: FileNames
    named: int = 0
    rivals: tuple[str, ...] = ()
    files: int = 0
    rival_fields: tuple[str, ...] = ()


def find_files(search: Search, rows: Rows, options: Options) -> FoundFiles:
    """Find the files that the first rows of a table name. Raises UsageError for a template that cannot be parsed."""
    chosen = parse_list_option(options, "files")
    references = structured_references(rows, options)
    if references is not None:
        bases, named = _find_bases(search, "", references)
        return FoundFiles(FileNames(bases[0]), named, bases[1:] and bases)
    if not rows or ("files" in options and not chosen):
        return FoundFiles(FileNames(search.folder))
    fields = chosen or (*find_media_fields("", {}, rows), *_fields_of_other_files(search, rows))
    by_path = _join_numbered_folders(search, rows, _find_paths(search, rows, fields))
    is_exported = any(KEY_COLUMN in row for row in rows)  # its other fields are parts
    if by_path.named or any(map(is_template, chosen)) or (not chosen and (fields or is_exported)):
        return by_path
    by_stem = _find_stems(search, rows, chosen)
    return _join_numbered_folders(search, rows, by_stem) if by_stem else by_path


def _fields_of_other_files(search: Search, rows: Rows) -> Iterator[str]:
    """Yield the fields of which at least half of the values name files that are no media, such as `2018/a.midi`, and
    which are not one file for many rows.
    """
    for field in dict.fromkeys(name for row in rows for name in row):
        values = [row[field] for row in rows if row.get(field)]
        texts = {each for each in values if isinstance(each, str) and _may_be_other_file(each)}
        if 2 * len(texts) <= len(values) or KEY_COLUMN in rows[0]:
            continue
        probed = list(texts)[:_PROBED_REFERENCES]
        if max(_count_files(start, probed, search.limit)[0] for start in search.starts) * 2 >= len(probed):
            yield field


def _may_be_other_file(value: str) -> bool:
    ending = extension_of_name(value)
    return bool(ending) and not ending.isdecimal() and not is_media_path(value) and len(value) < _MAX_PATH_CHARS


def _join_numbered_folders(search: Search, rows: Rows, found: FoundFiles) -> FoundFiles:
    """The files of all folders whose numbers alone differ, such as `images_001` and `images_002`, if rows name files of
    one of them and no name is in two. Not if the user has named a folder.
    """
    fields = [field for field in found.names.bases if field not in found.names.templates]
    if search.base or len(fields) != 1 or len(found.names.bases) != 1:
        return found
    field = fields[0]
    values = [str(row[field]) for row in rows if _is_name(row.get(field))]
    top, folders = _numbered_folders(search.root, found.names.bases[field])
    if len(folders) < 2 or not values or any("/" in each or "\\" in each for each in values):
        return found
    paths = [
        os.path.join(folder, name)
        for folder in folders
        for name in _media_of({"": scan_below(os.path.join(top, folder), search.root).files})
    ]
    if len({os.path.basename(path) for path in paths}) < len(paths):
        return found
    stems = Stems(paths, _bare_name if field in found.names.stems else os.path.basename)
    named = sum(len(stems.find_all(each)) == 1 for each in set(values))
    if named < found.named:
        return found
    names = FileNames(top, {field: top}, found.names.templates, {field: stems})
    return found._replace(names=names, named=named, rivals=(), files=found.files and len(stems))


def _bare_name(path: str) -> str:
    return strip_extension(os.path.basename(path))


def _numbered_folders(root: str, base: str) -> tuple[str, list[str]]:
    """(folder, paths below it) of the folders beside `base` that differ from it in the number of one component only."""
    components = os.path.relpath(base, root or ".").split("/")
    for at in reversed(range(len(components))):
        form, below = _NUMBER.sub("0", components[at]), components[at + 1 :]
        if not _NUMBER.search(form):
            continue
        top = os.path.join(root, *components[:at])
        like_it = [each for each in map(os.path.basename, subfolders(top)) if _NUMBER.sub("0", each) == form]
        folders = [os.path.join(each, *below) for each in like_it]
        folders = [each for each in folders if source_files.is_folder(os.path.join(top, each))]
        if len(folders) > 1:
            return top, folders
    return "", []


def _find_paths(search: Search, rows: Rows, fields: Sequence[str]) -> FoundFiles:
    """The folders of the fields and templates whose values are paths with endings, or have any ending by a template."""
    bases: dict[str, str] = {}
    templates = {field: parse_template(field) for field in fields if is_template(field)}
    stems: dict[str, Stems] = {}
    named, rivals = 0, tuple[str, ...]()
    filled = [FileNames("", templates=templates).make_row(0, "", row, None).values for row in rows]
    for field in fields:
        references = list_references(filled, [field])
        if field in templates and field.endswith(ANY_ENDING):
            alone = [name.removesuffix(ANY_ENDING) for name in references]
            best = _best_folder(_stem_folders(search, alone), alone)
            count = best.named if best else 0
            if best is not None:
                stems[field], bases[field] = Stems(best.media()), best.paths[0]
                rivals = rivals or (best.paths[1:] and best.paths)
        else:
            each, count = _find_bases(search, field, references)
            if count:
                bases[field] = each[0]
                rivals = rivals or (each[1:] and each)
        named += count
    base = next(iter(bases.values()), search.folder)
    return FoundFiles(FileNames(base, bases, templates, stems), named, rivals)


def references_of(rows: Rows, options: Options) -> list[str]:
    """The texts in rows that name files: of the fields that `-O files=` names, or that look like files."""
    structured = structured_references(rows, options)
    if structured is not None:
        return structured
    chosen = parse_list_option(options, "files")
    fields = chosen if "files" in options else find_media_fields("", {}, rows) if rows else ()
    names = FileNames("", templates={each: parse_template(each) for each in fields if is_template(each)})
    return list_references((names.make_row(0, "", row, None).values for row in rows), fields)


def iter_named_paths(rows: Rows, names: FileNames) -> Iterator[str]:
    """Yield the paths of the files that these rows name."""
    for row in rows:
        values = names.make_row(0, "", row, None).values
        for field, base in names.bases.items():
            yield from (os.path.join(base, each) for each in list_references([values], [field]))
    if not names.bases:
        yield from (os.path.join(names.base, each) for each in references_of(rows, {}))


def _find_bases(search: Search, field: str, references: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """The folders that these references may be relative to, and how many different ones are files there."""
    different = list(dict.fromkeys(each for each in references if "\0" not in each))
    if not different:
        return (search.folder,), 0
    near = [each for start in search.starts for each in subfolders(start) if _is_named_like(each, field)]
    near += [os.path.join(each, name) for each in search.starts for name in (*_USUAL_FOLDERS, *search.split_folders)]
    bases, named = _count_best([*search.starts, *near], different, search.limit)
    bases = bases[:1]
    level = search.starts
    for _ in range(search.depth):
        level = [below for each in level for below in subfolders(each)][:_MAX_FOLDERS]
        if named >= _ENOUGH_SHARE * len(different) or not level:
            break
        level.sort(key=lambda each: not _is_named_like(each, field))
        below, more = _count_best(level, different, search.limit)
        if more > named:
            liked = tuple(each for each in below if _is_named_like(each, field))
            bases, named = liked if len(liked) == 1 else below, more
    return bases or (search.folder,), named


def _is_named_like(folder: str, field: str) -> bool:
    """Whether a folder is named after a field: `masks` after `mask` or `mask_path`."""
    name = os.path.basename(folder).lower().rstrip("s")
    return bool(name) and name in re.split("[-_. ]", field.lower().rstrip("s"))


def _count_best(folders: Iterable[str], references: Sequence[str], limit: str) -> tuple[tuple[str, ...], int]:
    """The folders below which most references are files, and how many of them are; those without other spellings."""
    step = max(1, len(references) // _PROBED_REFERENCES)
    counts: dict[str, tuple[int, int]] = {}
    for folder in dict.fromkeys(folders):
        if _count_files(folder, references[::step], limit)[0]:
            counts[folder] = _count_files(folder, references, limit)
    best = max(counts.values(), default=(0, 0))
    return tuple(folder for folder, count in counts.items() if count == best), best[0]


def _count_files(base: str, references: Sequence[str], limit: str) -> tuple[int, int]:
    """(how many references are files below a base and the limit, in any spelling; how many in their own)."""
    found, exact = set[str](), 0
    for reference in references:
        path = source_files.absolute(os.path.join(base, reference))
        if not is_below(limit, path):
            continue
        if source_files.is_file(path):
            found.add(path)
            exact += 1
        elif len(spelled := find_spelled(base, reference)) == 1:
            found.add(source_files.absolute(os.path.join(base, spelled[0])))
    return len(found), exact


def _find_stems(search: Search, rows: Rows, fields: Sequence[str]) -> FoundFiles | None:
    """The field by which most of the rows name one medium each, without its ending; None if there is none.

    `fields`: those that the user names; empty for any.
    """
    names = fields or [
        name for name in dict.fromkeys(name for row in rows for name in row) if name.lower() not in _LABEL_FIELDS
    ]
    values: dict[str, list[str]] = {}
    shares: dict[str, float] = {}
    for name in names:
        found = [str(row[name]) for row in rows if _is_name(row.get(name))]
        shares[name] = 0.0 if fields else _FILE_FIELD_SHARE if _is_file_field_name(name) else _STEM_SHARE
        if found and len(found) >= shares[name] * len(rows) and len(set(found)) * _MAX_ROWS_PER_FILE >= len(found):
            values[name] = found
    folders = _stem_folders(search, (each for found in values.values() for each in found)) if values else []
    fitting: dict[str, _BestFolder] = {}
    for name, found in values.items():
        folder = _best_folder(folders, found)
        named_rows = sum(len(folder.stems.find_all(each)) == 1 for each in found) if folder else 0
        if folder is not None and named_rows >= shares[name] * len(rows):
            fitting[name] = folder
    most = max((folder.named for folder in fitting.values()), default=0)
    best = [name for name, folder in fitting.items() if folder.named == most]
    best = [name for name in best if _is_file_field_name(name)] or [name for name in best if name == "id"] or best
    if not best:
        return None
    folder = fitting[best[0]]
    base, stems = folder.paths[0], Stems(folder.media())
    names_of = FileNames(base, {best[0]: base}, stems={best[0]: stems})
    rival_fields = tuple(best) if any(values[name] != values[best[0]] for name in best) else ()
    return FoundFiles(names_of, most, folder.paths[1:] and folder.paths, len(stems), rival_fields)


class _StemFolder(NamedTuple):
    """`stems`: of the media that have one of the probed names. `media` lists all, relative to `path`."""

    path: str
    stems: Stems
    media: Callable[[], list[str]]


class _BestFolder(NamedTuple):
    """`paths`: the folder with the most names of one file each; several: none is better. `named`: how many names."""

    paths: tuple[str, ...]
    named: int
    stems: Stems
    media: Callable[[], list[str]]


def _stem_folders(search: Search, names: Iterable[str]) -> list[list[_StemFolder]]:
    """For each folder where the search starts: it with all folders below, and each of these alone.

    `names`: those that are probed. A folder may hold millions of others.
    """
    probed_names = {spelling(name.replace("\\", "/")).strip().rpartition("/")[2] for name in names}
    found = []
    for start in search.starts:
        if not is_below(search.limit, f"{source_files.absolute(start)}/"):
            continue
        by_folder = dict(iter_folders(start, search.depth))
        probed = {
            folder: [name for name in files if spelling(strip_extension(name)) in probed_names and media_type_of(name)]
            for folder, files in by_folder.items()
        }
        whole = Stems(os.path.join(folder, name) for folder, files in probed.items() for name in files)
        alone = [
            _StemFolder(os.path.join(start, folder), Stems(files), partial(_media_of, {"": by_folder[folder]}))
            for folder, files in probed.items()
            if folder and files
        ]
        found.append([_StemFolder(start, whole, partial(_media_of, by_folder)), *alone])
    return found


def _media_of(by_folder: Mapping[str, Sequence[str]]) -> list[str]:
    return [os.path.join(folder, name) for folder, names in by_folder.items() for name in names if media_type_of(name)]


def _best_folder(folders: Sequence[Sequence[_StemFolder]], names: Sequence[str]) -> _BestFolder | None:
    """The folder with most of these names; None if no folder has one."""
    different = set(names)
    best: _BestFolder | None = None
    for candidates in folders:
        counts = [sum(len(each.stems.find_all(name)) == 1 for name in different) for each in candidates]
        most = max(counts)
        fitting = [each for each, count in zip(candidates, counts, strict=True) if count == most]
        if most > (best.named if best else 0):
            paths = tuple(each.path for each in fitting)
            is_whole = fitting[0] is candidates[0]
            best = _BestFolder(paths[:1] if is_whole else paths, most, fitting[0].stems, fitting[0].media)
    return best


def may_name_files(rows: Iterable[Mapping[str, Any]], media: Iterable[str]) -> bool:
    """Whether a field of the rows looks like names of files.

    It has a name such as `image_id` or `path`, or one of its values ends as media do, or is the name of one of `media`
    with or without its extension.
    """
    names = set(map(os.path.basename, media))
    names |= {strip_extension(name) for name in names}
    return any(
        (_is_file_field_name(field) and _is_name(value))
        or is_media_path(value)
        or (_is_name(value) and os.path.basename(str(value)) in names)
        for row in rows
        for field, value in row.items()
    )


def _is_file_field_name(field: str) -> bool:
    return not _FILE_WORDS.isdisjoint(re.split("[-_. ]", field.lower()))


def _is_name(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


def list_media(folder: str, depth: int = 1) -> dict[str, list[str]]:
    """The names of media files in a folder (under "") and in each of the folders below it, sorted."""
    return {below: [name for name in files if media_type_of(name)] for below, files in iter_folders(folder, depth)}


def iter_folders(start: str, depth: int) -> Iterator[tuple[str, list[str]]]:
    """Yield (path below `start`, names of files, sorted) of a folder and those below it, level by level."""
    level = [""]
    for _ in range(depth + 1):
        below = list[str]()
        for folder in level:
            names = scan_below(os.path.join(start, folder), start)
            yield folder, names.files
            below += [os.path.join(folder, name) for name in names.folders]
        level = below[:_MAX_FOLDERS]


def subfolders(folder: str) -> list[str]:
    """The folders in a folder, sorted, without hidden ones and links that lead out of it."""
    return [os.path.join(folder, name) for name in scan_below(folder, folder).folders][:_MAX_FOLDERS]


def scan_below(folder: str, root: str) -> FolderNames:
    """The names in a folder; none if it cannot be listed."""
    try:
        return scan_folder(folder or ".", root or ".")
    except OSError:
        return FolderNames([], [], 0)  # opening the table reports the error
