"""Tables beside the files that their rows name: find them in a folder, and decide which of them the samples come from.

A folder may hold a table at its top or one level down, such as `data/train.csv`. The first rows of each table decide
whether it describes the folder's files. Tables with the names of splits belong together; other tables do not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from wdsctl.core.dataset.raw_folder_walk import LITTER_NAMES
from wdsctl.core.dataset.shard_names import UNPACK_COMMANDS
from wdsctl.core.errors import Finding, InputError, UsageError, WdsctlError
from wdsctl.core.importers.common.commands import repeat_command
from wdsctl.core.importers.common.compressed import strip_compression
from wdsctl.core.importers.common.conversations import conversation_media_fields, has_conversations
from wdsctl.core.importers.common.documents import document_media_fields, has_documents
from wdsctl.core.importers.common.encoded_media import is_encoded_medium
from wdsctl.core.importers.common.files import PROBED_ROWS, find_media_fields
from wdsctl.core.importers.common.folder_files import (
    LITTER_FOLDERS,
    media_type_of,
    partition_split,
    scan_folder,
)
from wdsctl.core.importers.common.named_files import (
    FoundFiles,
    Rows,
    Search,
    find_files,
    iter_named_paths,
    references_of,
)
from wdsctl.core.importers.common.row_splits import find_split_field
from wdsctl.core.importers.common.samples import FileNames, RowMapping, row_to_sample
from wdsctl.core.importers.common.segments import NamedRow, find_segments, may_name_parts
from wdsctl.core.importers.common.split_paths import (
    PathSplit,
    find_hub_splits,
    find_path_splits,
    normalize_split_name,
    path_split_findings,
    splits_by_word,
)
from wdsctl.core.importers.common.unnamed_media import check_names_media, check_no_beginnings, find_sure_template
from wdsctl.core.importers.protocol import FilePart, FormatMatch, Options
from wdsctl.core.media.kinds import MEDIA_EXTENSIONS
from wdsctl.core.safe_open import is_link_outside
from wdsctl.core.split_rules.names import STANDARD_SPLITS
from wdsctl.core.storage import source_files
from wdsctl.core.text import join_with_and, path_for_message, pluralize

ReadFirstRows = Callable[[str], Rows]  # path -> the first rows; empty if they cannot be read

#: Scores of a folder. A raw folder has 0.2, folders of classes 0.7, a dataset of shards 0.9.
_NAMES_FILES_SCORE = 0.85
_NAMES_STEMS_SCORE = 0.78  # without their endings
_HAS_TEMPLATE_SCORE = 0.72  # a template over columns would name files, which the user has to confirm
_NAMES_NOTHING_SCORE = 0.1

_TEXT_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_COMPRESSED_TABLES = tuple(f"{table}{packed}" for table in _TEXT_TABLES for packed in UNPACK_COMMANDS)
TABLE_EXTENSIONS = (*_TEXT_TABLES, *_COMPRESSED_TABLES, ".parquet", ".pq")

_MAX_TABLES = 50  # files of one format in one folder; more are data, such as a JSON file per picture
_MAX_FOLDERS = 1_000  # subfolders that are searched for tables
_MAX_WRAPPERS = 3  # folders around those of the tables
_MAX_COUNTED_FILES = 10_000
_MAX_RIVALS = 5  # commands in a hint
_MAX_JOINED_TABLES = 5  # whose columns are compared with the names of media

#: `-00000-of-00042`, or four digits and more: `train_10` may be a tenth of `train`, and not its tenth file.
_FILE_NUMBER = re.compile(r"-\d+-of-\d+$|[-_.]\d{4,}$")
_DIGITS = re.compile(r"\d+")


class Table(NamedTuple):
    """A table. `rows`: the first ones. `found`: how they name files. `is_joined`: it is one of several about the same
    files.
    """

    path: str
    rows: Rows
    found: FoundFiles
    split: str = ""
    is_joined: bool = False

    @classmethod
    def without_files(cls, path: str, rows: Rows = (), split: str = "") -> Table:
        return cls(path, rows, FoundFiles(FileNames(os.path.dirname(path))), split)

    @property
    def named(self) -> int:
        """How many files the first rows name."""
        return self.found.named

    @property
    def names(self) -> FileNames:
        return self.found.names

    @property
    def named_rows(self) -> Rows:
        """The first rows, with the paths of the files that they do not spell out."""
        return [self.names.make_row(0, "", row, None).values for row in self.rows]


def find_tables(root: str, extensions: Sequence[str]) -> list[str]:
    """The paths of the tables with these extensions in a folder and its subfolders, sorted.

    A folder with nothing but another folder, as archives unpack to, is no level: `cv-corpus-17.0/cy/train.tsv`. Leaves
    out a file that shares its name with another file, such as `0001.json` beside `0001.jpg`, and all files of a folder
    with more than 50. Cost: lists the folder and its subfolders.
    """
    top = _skip_lone_folders(root)
    found, folders = _tables_in(top, root, extensions, is_top=True)
    for folder in sorted(folders)[:_MAX_FOLDERS]:
        found += _tables_in(folder, root, extensions)[0]
    return sorted(found)


def _skip_lone_folders(root: str) -> str:
    """The first folder with files or several folders: `root`, or one below it."""
    folder = root
    for _ in range(_MAX_WRAPPERS):
        try:
            names = scan_folder(folder, root)
        except OSError:
            return root
        if names.files or len(names.folders) != 1:
            break
        folder = os.path.join(folder, names.folders[0])
    return folder


def _tables_in(
    folder: str, root: str, extensions: Sequence[str], *, is_top: bool = False
) -> tuple[list[str], list[str]]:
    """(tables in a folder, its subfolders). Both are empty if it cannot be listed: opening reports that."""
    try:
        names = scan_folder(folder, root)
    except OSError:
        return [], []
    tables = [name for name in names.files if name.lower().endswith(tuple(extensions)) and not name.startswith("_")]
    folders = [name for name in names.folders if not name.startswith("_")]
    # A table of a sample, such as 0001.json beside 0001.jpg, is not a table of samples.
    stems = {table_stem(name) for name in tables}
    others = names.files if is_top else [*names.files, *folders]
    for name in others if stems else ():
        stem = os.path.splitext(name)[0]
        if stem in stems and not name.lower().endswith(TABLE_EXTENSIONS) and not name.startswith("_"):
            stems.discard(stem)
    alone = [os.path.join(folder, name) for name in tables if table_stem(name) in stems]
    alone = [path for path in alone if source_files.is_file(path)] if len(alone) <= _MAX_TABLES else []
    return alone, [os.path.join(folder, name) for name in folders] if is_top else []


def table_stem(name: str) -> str:
    """A table's name without its extension: `labels` for `labels.jsonl.gz`."""
    return os.path.splitext(strip_compression(name))[0]


def match_folder(root: str, extensions: Sequence[str], read: ReadFirstRows, score_alone: float) -> FormatMatch | None:
    """A match if a folder holds tables with these extensions; its score depends on whether their rows name files.

    `score_alone`: the score if no media lie in the folder, so that the tables are all there is.
    """
    paths = find_tables(root, extensions)
    if not paths:
        return None
    tables = _probe(root, paths, read)
    fitting = [table for table in tables if table.named]
    if fitting:
        return FormatMatch(
            _NAMES_FILES_SCORE if any(not table.found.files for table in fitting) else _NAMES_STEMS_SCORE,
            _describe_fit(root, fitting),
            tuple(table.path for table in fitting),
            tuple(_named_folders(root, fitting)),
        )
    files, media = _count_files(root)
    shown = path_for_message(os.path.relpath(paths[0], root))
    if not media:
        return FormatMatch(score_alone, f"has {shown}", tuple(paths))
    for table in tables[:_MAX_JOINED_TABLES]:
        template = find_sure_template(root, table.rows)
        if template:  # opening the table raises, with the command that passes the template
            shown = path_for_message(os.path.relpath(table.path, root))
            return FormatMatch(_HAS_TEMPLATE_SCORE, f"columns of {shown} name files as {template}", (table.path,))
    return FormatMatch(_NAMES_NOTHING_SCORE, f"{shown} names none of the folder's {_count_text(files)}")


def _named_folders(root: str, tables: Iterable[Table]) -> list[str]:
    """The folders, relative to `root`, of the files that the first rows name."""
    paths = (path for table in tables for path in iter_named_paths(table.rows, table.names))
    return sorted({os.path.relpath(os.path.dirname(path), root) for path in paths})


def choose_tables(
    root: str,
    extensions: Sequence[str],
    read: ReadFirstRows,
    options: Options,
    *,
    joins_equal_fields: bool = False,
    is_needed: bool = True,
    joins_files: bool = False,
) -> list[Table]:
    """The tables of a folder whose rows are the samples: the one that fits, the tables of all splits, or a series.

    Beside tables of splits, one of which is `train`, other tables do not count.

    If no table names files of the folder, all of them are candidates; unless `is_needed` is false: then there is none.

    `joins_equal_fields`: whether tables with the same fields are one table in several files, whatever their names.
    `joins_files`: whether the caller joins tables about the same files; then it gets all that fit, with `is_joined`.
    Raises InputError WDS252 if several tables fit that do not belong together, WDS003 if there is no table.
    """
    tables = _probe(root, find_tables(root, extensions), read, options)
    fitting = [table for table in tables if table.named]
    if not fitting:
        _check_unnamed(root, tables, options, is_needed=is_needed)
    fitting = fitting or (tables if is_needed else [])
    if not fitting and not is_needed:
        return []
    if not fitting:
        raise InputError(
            f"the folder has no file that ends in {' or '.join(extensions)}",
            hint="pass the path of the file with the rows",
            where=path_for_message(root),
            code="WDS003",
        )
    for table in fitting:
        _check_base(table)
    if len(fitting) == 1:
        return fitting
    splits = splits_of([table.path for table in fitting], root)
    if not splits:
        # Common Voice has train.tsv, dev.tsv and test.tsv, and validated.tsv with the rows of all three.
        named_by_split = [table for table in fitting if split_of(table.path, root)]
        splits = splits_of([table.path for table in named_by_split], root)
        splits = splits if "train" in splits else []
        fitting = named_by_split if splits else fitting
    splits = splits or splits_by_word([table.path for table in fitting])
    if splits:
        return [table._replace(split=split) for table, split in zip(fitting, splits, strict=True)]
    has_equal_fields = len({frozenset(name for row in table.rows for name in row) for table in fitting}) == 1
    is_series = len({_DIGITS.sub("", os.path.relpath(table.path, root)) for table in fitting}) == 1
    if has_equal_fields and (joins_equal_fields or is_series):
        joined = [each.split for each in path_splits([table.path for table in fitting], root)]
        return [
            table._replace(split=split) for table, split in zip(fitting, joined or [""] * len(fitting), strict=True)
        ]
    names_files = any(table.named for table in fitting)
    if joins_files and names_files and len({os.path.dirname(table.path) for table in fitting}) == 1:
        return [table._replace(is_joined=True) for table in fitting]
    raise several_tables_error(root, [table.path for table in fitting], name_files=names_files)


def _check_unnamed(root: str, tables: Sequence[Table], options: Options, *, is_needed: bool) -> None:
    """Raise the errors of tables that name no files, although files below the folder seem to be those of their rows."""
    is_chosen = "base" in options or "files" in options
    for table in tables[:1] if len(tables) == 1 or is_chosen else ():
        if table.rows:
            check_names_media(root, table.path, table.rows, _search(root, table.path, options), options)
    kinds = {frozenset(name for row in table.rows for name in row) for table in tables}
    if len(kinds) == len(tables) > 1 and is_needed and not is_chosen:  # with `files=`, one of them names files
        for table in sorted(tables, key=lambda table: -len(table.rows))[:_MAX_JOINED_TABLES]:
            check_no_beginnings(root, table.path, table.rows, os.path.dirname(table.path), names_table=False)


def several_tables_error(root: str, paths: Iterable[str], *, name_files: bool = True) -> InputError:
    """The error for tables that all could be the source. Its hint has the command for each. `name_files`: whether rows
    name files that exist.
    """
    paths = sorted(paths)
    shown = [path_for_message(os.path.relpath(path, root)) for path in paths]
    commands = [
        repeat_command(root, path, {"base": root} if name_files and os.path.dirname(path) != root.rstrip("/") else {})
        for path in paths[:5]
    ]
    return InputError(
        f"several tables could describe the folder's files: {', '.join(shown[:5])}{' and more' if shown[5:] else ''}",
        hint=f"name one: {', or '.join(commands)}",
        where=path_for_message(root),
        code="WDS252",
    )


def open_table(path: str, rows: Rows, options: Options) -> Table:
    """The table at `path`, when the user names it instead of its folder.

    Raises InputError WDS230 if the files that it names are not in its folder, but beside its folder; WDS239 if it names
    none of the media beside it.
    """
    search = _search(os.path.dirname(path), path, options)
    table = Table(path, rows, find_files(search, rows, options))
    _check_base(table)
    if not table.named and rows:
        check_names_media(path, path, rows, search, options)
    return table


def has_named_files(path: str, rows: Rows) -> bool:
    """Whether rows of the table at `path` name files that exist."""
    return bool(find_files(_search(os.path.dirname(path), path, {}), rows, {}).named)


def make_mapping(
    format_name: str, options: Options, tables: Sequence[Table], root: str, *, key: str, fields: Sequence[str] = ()
) -> RowMapping:
    """How the rows of these tables become samples. Their references are relative to the `base` of each row.

    `root`: the folder that the user names; empty if the user names the table. References may lead anywhere below it.
    `key`: the field of keys; empty for the names of files, or row numbers if there are none. `fields`: the columns, if
    the table declares them.
    """
    first = [row for table in tables for row in table.rows] or [dict.fromkeys(fields)]
    is_conversation = has_conversations(first)
    is_document = not is_conversation and has_documents(first, options)
    if is_conversation or is_document:
        media = (document_media_fields if is_document else conversation_media_fields)(format_name, options, first)
        # Several conversations often share an image, whose name is no key then.
        key = key or ("id" if all("id" in row for row in first) else ":row")
    else:
        media = find_media_fields(format_name, options, first)
    notes = {field: stems.note for table in tables for field, stems in table.names.stems.items()}
    named = (field for table in tables for field in table.names.bases if field not in table.names.templates)
    media = tuple(dict.fromkeys((*media, *named, *notes)))
    is_encoded = all(is_encoded_medium(row[field]) for row in first for field in media if row.get(field))
    key = key or (":row" if is_encoded else ":stem")
    mapping = RowMapping.from_options(options, media=media, key=key, is_conversation=is_conversation)
    leaves = any(os.path.isabs(each) or ".." in each.split("/") for each in references_of(first, options))
    has_file_splits = any(table.split for table in tables)
    mapping = replace(
        mapping,
        is_document=is_document,
        split=find_split_field(format_name, options, first, has_file_splits=has_file_splits),
        takes_any_split=bool(options.get("split")),
        notes=notes,
    )
    mapping = replace(mapping, allowed_folder=root) if leaves and root and not mapping.allowed_folder else mapping
    return _add_segments(format_name, options, tables, root, mapping)


def _add_segments(
    format_name: str, options: Options, tables: Sequence[Table], root: str, mapping: RowMapping
) -> RowMapping:
    """The mapping with the fields that name parts of files, if rows do."""
    values = [row for table in tables for row in table.rows]
    if not ("segments" in options or "frames" in options or (mapping.media and may_name_parts(values))):
        return mapping
    rows = [] if mapping.is_conversation else [each for table in tables for each in _rows_with_files(table, mapping)]
    columns = [
        column.partition(".")[0]
        for table in tables
        for template in table.names.templates.values()
        for column in template.columns
    ]
    found, findings = find_segments(format_name, options, rows, root or tables[0].path, columns)
    return replace(mapping, segments=found, findings=tuple(findings))


def _rows_with_files(table: Table, mapping: RowMapping) -> Iterator[NamedRow]:
    """The first rows, with the audio and video files that they name."""
    for number, values in enumerate(table.rows):
        row = table.names.make_row(number, "", values, None)
        found: dict[str, FilePart] = {}
        for name in mapping.media:
            sample = row_to_sample(row, replace(mapping, media=(name,), key=":row"))
            files = [part for part in sample.parts if isinstance(part, FilePart)]
            if len(files) == 1 and media_type_of(files[0].path) in ("audio", "video"):
                found[name] = files[0]
        yield NamedRow(row.values, found)


def recognise_structure(mapping: RowMapping, rows: Rows, options: Options) -> RowMapping:
    """The mapping of a table for these first rows, which may be conversations or documents.

    Bytes are the only media of conversations that have any: a text that looks like a file name is the name of bytes.
    """
    if has_conversations(rows):
        media = mapping.media or conversation_media_fields("", options, rows)
        return replace(mapping, is_conversation=True, media=media)
    return replace(mapping, is_document=has_documents(rows, options))


def _probe(root: str, paths: Iterable[str], read: ReadFirstRows, options: Options | None = None) -> list[Table]:
    """Read the first rows of each table, and find the files that they name.

    Names without endings count only if they are those of at least half of the media, or of many.
    """
    tables = []
    for path in paths:
        rows = read(path)[:PROBED_ROWS]
        found = find_files(_search(root, path, options or {}), rows, options or {})
        if (
            found.files
            and found.named < PROBED_ROWS / 2
            and 2 * found.named < found.files
            and "files" not in (options or {})
        ):
            found = FoundFiles(FileNames(os.path.dirname(path)))
        tables.append(Table(path, rows, found))
    return tables


def _search(root: str, path: str, options: Options) -> Search:
    """Where the files of the table at `path` are looked for, if the user names the folder `root`."""
    split_folders = _folder_names(split_of(path, root))
    return Search(root, os.path.dirname(path), options.get("base", ""), split_folders)


def _check_base(table: Table) -> None:
    """Raise UsageError if two folders have the files that a table names, or two of its fields name different ones."""
    folders, fields = table.found.rivals[:_MAX_RIVALS], table.found.rival_fields[:_MAX_RIVALS]
    references = set(references_of(table.rows, {}))
    if len(folders) > 1 and len(references) == 1 and len(table.rows) > 1:
        shown = join_with_and([path_for_message(each) for each in folders[:2]])
        raise UsageError(
            f"rows name a file as {path_for_message(references.pop())}, which is in several folders, such as {shown}",
            hint="write the path of its own file into each row: with one folder for all rows, they would have one file",
            where=path_for_message(table.path),
        )
    if folders or fields:
        options = [{"base": each} for each in folders] or [{"files": each} for each in fields]
        commands = [repeat_command(table.path, table.path, each, keeps_folder=True) for each in options]
        raise UsageError(
            f"several folders have the files that the table names: {', '.join(map(path_for_message, folders))}"
            if folders
            else f"several columns name files: {', '.join(map(path_for_message, fields))}",
            hint=f"name the right one: {', or '.join(commands)}",
            where=path_for_message(table.path),
        )


def _folder_names(split: str) -> list[str]:
    """The names of folders that may hold the files of a split, such as `train`, `train_images` and `images/train`."""
    names = [name for name, standard in STANDARD_SPLITS.items() if standard == split]
    return [form.format(name) for name in names for form in ("{}", "images/{}", "{}/images", "{}_images")]


def split_of(path: str, root: str) -> str:
    """The split that a table's name says, such as `train.csv` or `train-00000-of-00002.parquet`, or its folder's."""
    folders = os.path.dirname(path)[len(root) :].split("/")
    stated = next(filter(None, map(partition_split, folders)), "")
    return normalize_split_name(stated) or _split_of_name(path) or STANDARD_SPLITS.get(folders[-1].lower(), "")


def _split_of_name(path: str) -> str:
    return STANDARD_SPLITS.get(_FILE_NUMBER.sub("", table_stem(os.path.basename(path))).lower(), "")


def splits_of(paths: Sequence[str], root: str) -> list[str]:
    """The split of each table, if there are several splits, and each has one table or the numbered files of one.

    Numbered files are `train-00000-of-00002.parquet` and `train-00000.parquet`, or `0000.parquet` in a folder `train`.
    Empty otherwise.
    """
    splits = [split_of(path, root) for path in paths]
    if not all(splits):
        is_one_folder = len({os.path.dirname(path) for path in paths}) == 1
        return [each.split for each in find_hub_splits(paths)] if is_one_folder else []
    stems = [
        _FILE_NUMBER.sub("", table_stem(path))
        if _split_of_name(path)
        else os.path.join(os.path.dirname(path), _DIGITS.sub("", os.path.basename(path)))
        for path in paths
    ]
    tables = set(zip(splits, stems, strict=True))
    return splits if len(tables) == len(set(splits)) > 1 else []


def path_splits(paths: Sequence[str], root: str) -> list[PathSplit]:
    """The split of each of the files below `root` that become one dataset in any case; empty if they tell none.

    Splits have their usual names. Unlike `splits_of`, takes all files of a split for its rows.
    """
    found = find_path_splits(_paths_below(paths, root), needs_train=False)
    found = [each._replace(split=normalize_split_name(each.split)) for each in found]
    has_several = len({each.split for each in found}) > 1
    return found if has_several or any(each.is_stated for each in found) else []


def file_split_findings(paths: Sequence[str], root: str) -> list[Finding]:
    """The findings about the splits that `path_splits` finds, and about names of splits that it cannot use."""
    return path_split_findings(path_splits(paths, root), _paths_below(paths, root), root)


def _paths_below(paths: Sequence[str], root: str) -> list[str]:
    return [path[len(root) :].lstrip("/") for path in paths]


def _describe_fit(root: str, tables: Sequence[Table]) -> str:
    """`labels.csv names 4 of the folder's 5 files`."""
    names = [path_for_message(os.path.relpath(table.path, root)) for table in tables]
    shown = f"{', '.join(names[:3])}{' and more' if names[3:] else ''}"
    named = sum(table.named for table in tables)
    files, media = _count_files(root)
    files = media if media >= named else files
    is_cut = any(len(table.rows) >= PROBED_ROWS for table in tables)
    verb = "name" if len(names) > 1 or is_cut else "names"
    who = f"the first rows of {shown}" if is_cut else shown
    if named > files:  # several tables name the same ones
        return f"{who} {verb} the folder's files"
    return f"{who} {verb} {named:,} of the folder's {_count_text(files)}"


def _count_text(files: int) -> str:
    return f"more than {_MAX_COUNTED_FILES:,} files" if files > _MAX_COUNTED_FILES else pluralize(files, "file")


def _count_files(root: str) -> tuple[int, int]:
    """How many files a folder holds that are no tables, and how many of them are media. Stops after 10,000."""
    names = [path.lower() for path in islice(iter_files(root), _MAX_COUNTED_FILES + 1)]
    files = sum(not name.endswith(TABLE_EXTENSIONS) for name in names)
    return files, sum(name.rpartition(".")[2] in MEDIA_EXTENSIONS for name in names)


def iter_files(root: str) -> Iterator[str]:
    """Yield the paths of the files below a folder, relative to it, without hidden files and those of desktops.

    Follows links that stay inside, and yields the others as files. Skips folders that cannot be listed.
    """
    folders = [""]
    seen: set[tuple[int, int]] = set()
    while folders:
        prefix = folders.pop()
        folder = os.path.join(root, prefix)
        try:
            identity = source_files.folder_identity(folder)
            if identity in seen:
                continue  # a link to a folder above
            seen.add(identity)
            with source_files.scan(folder) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or entry.name in LITTER_NAMES or entry.name in LITTER_FOLDERS:
                        continue
                    if is_link_outside(entry, root):
                        yield f"{prefix}{entry.name}"
                    elif entry.is_dir():
                        folders.append(f"{prefix}{entry.name}/")
                    elif entry.is_file():
                        yield f"{prefix}{entry.name}"
        except OSError:
            continue


def first_rows(read: Callable[[], Iterator[Mapping[str, Any]]]) -> Rows:
    """The first rows that `read` yields; none if it raises: recognising a format never raises."""
    try:
        return list(islice(read(), PROBED_ROWS))
    except (WdsctlError, OSError, ValueError):
        return []
