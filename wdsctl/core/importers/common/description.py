"""Describe a table for people: what becomes of each field, and which files of its folder no row names."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import Any

import numpy as np

from wdsctl.core.errors import Finding
from wdsctl.core.importers.common.box_rows import group_boxes
from wdsctl.core.importers.common.conversations import describe_conversations
from wdsctl.core.importers.common.documents import describe_documents
from wdsctl.core.importers.common.files import PROBED_ROWS
from wdsctl.core.importers.common.folder_files import (
    media_type_of,
    split_of_folder,
    unused_files_findings,
    unused_finding,
)
from wdsctl.core.importers.common.named_files import list_media
from wdsctl.core.importers.common.other_tables import (
    find_other_tables,
    media_of_other_tables,
    other_table_findings,
    sibling_findings,
)
from wdsctl.core.importers.common.row_splits import RowSplits, numbered_split_findings
from wdsctl.core.importers.common.samples import RowMapping, media_part_names
from wdsctl.core.importers.common.source import RowReader, RowSampleReader, SampleSource, make_row_source
from wdsctl.core.importers.common.survey import RowSurvey, contains, hash_path, repeated_values
from wdsctl.core.importers.common.tables import iter_files
from wdsctl.core.importers.common.templates import is_template
from wdsctl.core.importers.protocol import FieldUse, FilePart, SourceDescription
from wdsctl.core.samples.naming import part_name_of_field
from wdsctl.core.storage import source_files
from wdsctl.core.text import join_with_and, path_for_message, pluralize
from wdsctl.core.urls import is_url

_CHUNK_FILES = 1 << 16  # files whose hashes are looked up together

_REASON = "no row names these files"

_MAX_SHOWN_PARTS = 4

_PAGE_NAMES = frozenset({"page", "page_number", "page_no"})
_BOX_NAMES = frozenset({"crop", "crop_box", "bbox", "box", "region"})
_REGION_NOTE = "a value: the sample has the whole file"


def make_table_source(
    rows: RowReader,
    mapping: RowMapping,
    first: Callable[[], Sequence[Mapping[str, Any]]],
    *,
    fields: Sequence[str] = (),
    more_uses: Callable[[], Sequence[FieldUse]] = tuple,
    splits: Iterable[str] = (),
    more_findings: Sequence[Finding] = (),
    root: str = "",
    own_files: Sequence[str] = (),
    has_file_references: bool,
    split_rows: RowReader | None = None,
    types: Mapping[str, str] = MappingProxyType({}),
) -> SampleSource:
    """Make a source of rows that describes itself.

    `first`: the first rows. `fields`: all fields, if the table declares them. `more_uses`: what the file holds beside
    its rows. `more_findings`: about the files of the rows. `root`: the folder that the user names, whose other files
    are accounted for; empty if the user names the table. `own_files`: files below `root` that the format reads beside
    its rows. `split_rows`: the rows with no other field than the one of splits, if reading them costs less. `types`:
    those of fields whose texts become numbers.
    """

    def describe() -> SourceDescription:
        some, config = first(), None
        names = fields or (samples.survey().fields if has_file_references else _fields_of(some))
        names = dict.fromkeys((*names, *filter(is_template, mapping.media)))
        part_names = samples.survey().part_names if has_file_references else {}
        uses = describe_fields(mapping, some, names if boxes is None else mapping.media, part_names, types)
        uses = uses if boxes is None else boxes.field_uses(uses[0])
        structured = _describe_structured(mapping, some)
        if structured is not None:
            uses, config = list(structured.field_uses), structured.config
        if not fields and not has_file_references and len(some) >= PROBED_ROWS:
            uses.append(FieldUse("(other fields of later rows)", "json[...]"))
        findings = [*mapping.findings, *more_findings]
        unused: list[str] = []
        if row_splits is not None:
            uses = [row_splits.field_use() if use.name == mapping.split else use for use in uses]
            findings += row_splits.findings()
        findings += [] if source.split_names else numbered_split_findings(some)
        if has_file_references:
            findings += conversation_findings(samples.survey())
            if row_splits is None and not source.split_names:
                findings += split_folders_findings(samples.survey().folders)
            findings += row_findings(samples.survey(), lambda hashes: _first_path(samples, hashes))
        if not mapping.media and not mapping.is_conversation:
            findings += media_url_findings(some)
        has_media = root and any(map(media_type_of, iter_files(root)))
        if root:
            # Rows with bytes may also name files, but reading all of them only pays if there are such files.
            survey = samples.survey() if has_file_references or (has_media and mapping.media) else RowSurvey()
            unused = unnamed_files(root, survey, [*rows.files(), *own_files])
            tables = list(rows.files())
            others = find_other_tables(unused, tables, root) if splits and row_splits is None else []
            media = media_of_other_tables(root, others, unused)
            findings += other_table_findings(root, others, media, tables)
            known = {*others, *media}
            findings += left_out_findings([path for path in unused if path not in known])
        elif has_file_references:
            unused = unnamed_media(samples.survey())
            findings += [unused_finding(unused, _REASON, severity="warning")] if unused else []
        elif not mapping.media:
            findings += no_media_named_findings(rows.files())
        findings += [] if root else sibling_findings(rows.files())
        return SourceDescription((*uses, *more_uses()), tuple(findings), config, tuple(unused))

    boxes = group_boxes(rows, mapping, first()) if has_file_references else None
    if boxes is not None:
        rows, split_rows, more_findings = boxes, None, [*more_findings, *boxes.findings()]
    row_splits = RowSplits(split_rows or rows, mapping) if mapping.split else None
    source = make_row_source(
        rows,
        mapping,
        splits if row_splits is None else row_splits,
        has_file_references=has_file_references,
        describe=describe,
    )
    samples = source.row_samples
    return source


def _describe_structured(mapping: RowMapping, rows: Sequence[Mapping[str, Any]]) -> SourceDescription | None:
    """What becomes of the fields of conversations and documents; None for other rows."""
    if mapping.is_document:
        return describe_documents(rows, mapping.text)
    return describe_conversations(rows, mapping.media, mapping.text) if mapping.is_conversation else None


def _fields_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _first_path(samples: RowSampleReader, hashes: array[int]) -> str:
    """The first path that rows name, of those with these hashes. Cost: reads rows until it is found."""
    for sample in samples.samples(0):
        for part in sample.parts:
            if isinstance(part, FilePart) and contains(hashes, hash_path(part.path)):
                return part.path
    return ""


def describe_fields(
    mapping: RowMapping,
    rows: Iterable[Mapping[str, Any]],
    fields: Iterable[str],
    part_names: Mapping[str, Iterable[str]],
    types: Mapping[str, str] = MappingProxyType({}),
) -> list[FieldUse]:
    """What becomes of each field. `rows`: some rows, whose values decide what parts of media are called.

    `part_names`: media field -> the parts of the files that all rows name. `types`: of fields whose texts become
    numbers.
    """
    rows = list(rows)
    uses = []
    for name in fields:
        note = "used as sample keys" if name == mapping.key else ""
        if name in mapping.media:
            parts = dict.fromkeys(part for row in rows for part in media_part_names(mapping, name, row.get(name)))
            parts |= dict.fromkeys(part_names.get(name, ()))
            if not parts:
                prefix = "" if len(mapping.media) == 1 else f"{part_name_of_field(name)}."
                parts = {f"{prefix}(extension of the file)": None}
            shown = list(parts)[:_MAX_SHOWN_PARTS]
            if mapping.key == ":stem" and name == mapping.media[0]:
                note = "used as sample key, without the extension"
            note = mapping.notes.get(name, note)
            uses.append(FieldUse(name, f"{', '.join(shown)}{', ...' if len(parts) > len(shown) else ''}", note))
        elif name == mapping.text:
            uses.append(FieldUse(name, "txt", note))
        else:
            region = _REGION_NOTE if mapping.media and _is_region(name, rows) else ""
            uses.append(FieldUse(name, f"json[{name}]", ", ".join(filter(None, (types.get(name), note, region)))))
    if mapping.segments is not None:
        uses.append(mapping.segments.field_use())
    return uses


def _is_region(name: str, rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a field has one crop, box or page of the file that its row names."""
    values = [value for row in rows if (value := row.get(name)) is not None]
    if name.lower() in _PAGE_NAMES:
        return bool(values)
    return name.lower() in _BOX_NAMES and bool(values) and all(map(_is_one_box, values))


def _is_one_box(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 4 and all(isinstance(each, int | float) for each in value)


def row_findings(survey: RowSurvey, find_example: Callable[[array[int]], str]) -> Iterator[Finding]:
    """Findings about rows that name the same file, and rows that name none.

    `find_example`: the path, of those with the given hashes, that a row names first.
    """
    files = repeated_values(survey.named)
    if files:
        times = len(survey.named) - len(np.unique(survey.named)) + len(files)
        yield Finding(
            code="WDS250",
            severity="note",
            message=f"the rows name {pluralize(len(files), 'file')} {times:,} times (such as "
            f"{path_for_message(find_example(files))}): each row is a sample",
            count=len(files),
        )
    for name, (count, where) in survey.empty.items():
        yield Finding(
            code="WDS251",
            severity="warning",
            message=f"{pluralize(count, 'row')} without a file in {path_for_message(name)!r} (the first: {where}): "
            "the samples have no such part",
            count=count,
        )


def conversation_findings(survey: RowSurvey) -> Iterator[Finding]:
    """Findings about conversations that begin with the assistant, and those whose media have no token."""
    count, where = survey.answers_first
    if count:
        yield Finding(
            code="WDS162",
            severity="warning",
            message=f"{pluralize(count, 'conversation')} whose first turn is the assistant's (the first: {where})",
            count=count,
        )
    count, where = survey.unplaced
    if count:
        yield Finding(
            code="WDS255",
            severity="note",
            message=f"{pluralize(count, 'conversation')} with media and no token for them (the first: {where}): the "
            "media come first in the first turn of the user",
            count=count,
        )


def split_folders_findings(folders: Iterable[str]) -> Iterator[Finding]:
    """A finding if rows name files in folders that are named after different splits, but no row is in a split.

    `folders`: the paths of the folders. Names above all of them do not count.
    """
    paths = [source_files.absolute(folder).split("/") for folder in folders]
    ends = zip(min(paths, default=[]), max(paths, default=[]), strict=False)
    above = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))
    named = {name: split for path in sorted(paths) for name in path[above:] if (split := split_of_folder(name))}
    if len(set(named.values())) > 1:
        shown = join_with_and([path_for_message(f"{name}/") for name in list(named)[:3]])
        yield Finding(
            code="WDS258",
            severity="warning",
            message=f"the rows name files in folders that are named like splits ({shown}), but no row is in a split: "
            "to make them splits, add a column `split` to the table, or assign the keys of each with `wdsctl split`",
        )


def unnamed_files(root: str, survey: RowSurvey, own_files: Iterable[str]) -> list[str]:
    """The paths below a folder that no row names. `own_files`: the files with the rows."""
    own = {os.path.relpath(path, root) for path in own_files}
    return sorted(_unnamed(root, (path for path in iter_files(root) if path not in own), survey))


def left_out_findings(unnamed: Sequence[str]) -> list[Finding]:
    """Findings about files that no row names."""
    media = [path for path in unnamed if media_type_of(path)]
    others = [path for path in unnamed if not media_type_of(path)]
    return [*([unused_finding(media, _REASON)] if media else []), *unused_files_findings(others, _REASON)]


def unnamed_media(survey: RowSurvey) -> list[str]:
    """The paths of media that no row names, in the folders whose files the rows name.

    The user named the table, and other tables may name these files.
    """
    return [
        os.path.join(folder, name)
        for folder in sorted(survey.folders)
        for name in sorted(_unnamed(folder, filter(media_type_of, _file_names(folder)), survey))
    ]


def no_media_named_findings(tables: Iterable[str]) -> Iterator[Finding]:
    """A note about each table that names none of the media in its folder and the subfolders.

    Texts and tokens may lie beside media of other datasets. `check_names_media` refuses tables that hardly do.
    """
    for table in tables:
        found = [
            os.path.join(folder, name) for folder, names in list_media(os.path.dirname(table)).items() for name in names
        ]
        if found:
            yield Finding(
                code="WDS239",
                severity="note",
                message=f"the table names none of the {pluralize(len(found), 'media file')} beside it, such as "
                f"{path_for_message(found[0])}: if they belong to its rows, pass the column of file names with "
                "`-O files=COLUMN`, or the format of the folder with `--from`",
                count=len(found),
            )


def media_url_findings(rows: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """A finding about each field in which at least half of these rows have the URL of a media file."""
    for name in _fields_of(rows):
        urls = [value for row in rows if isinstance(value := row.get(name), str) and is_url(value)]
        urls = [url for url in urls if media_type_of(url.partition("?")[0])]
        if urls and 2 * len(urls) >= len(rows):
            yield Finding(
                code="WDS230",
                severity="warning",
                message=f"{path_for_message(name)!r} has URLs of media, such as {path_for_message(urls[0])}: wdsctl "
                "does not download them, so the samples have no media; download the files, and list them in a "
                "column",
                count=len(urls),
            )


def _unnamed(root: str, paths: Iterable[str], survey: RowSurvey) -> Iterator[str]:
    """Yield the paths below `root` that no row names."""
    chunk: list[str] = []

    def missing() -> Iterator[str]:
        hashes = np.array([hash_path(os.path.join(root, path)) for path in chunk], np.uint64)
        for path, is_named in zip(chunk, np.isin(hashes, survey.named), strict=True):
            if not is_named:
                yield path

    for path in paths:
        chunk.append(path)
        if len(chunk) == _CHUNK_FILES:
            yield from missing()
            chunk.clear()
    yield from missing()


def _file_names(folder: str) -> list[str]:
    try:
        with source_files.scan(folder) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_file()]
    except OSError:
        return []
