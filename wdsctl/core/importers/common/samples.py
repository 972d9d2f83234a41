"""Make samples of rows: one field is the key, fields with files or media become parts, the others the part `json`.

Keys are made valid for tars, file systems and databases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from wdsctl.core.errors import DatasetError, Finding, UsageError, WdsctlError
from wdsctl.core.importers.common.conversations import (
    check_conversation,
    list_conversation_media,
)
from wdsctl.core.importers.common.documents import list_document_images, name_document_images
from wdsctl.core.importers.common.encoded_media import decode_medium, is_encoded_medium
from wdsctl.core.importers.common.files import (
    Stems,
    extension_of_name,
    make_file_part,
    path_from_allowed,
)
from wdsctl.core.importers.common.segments import Segments, clip_in_file, row_clip
from wdsctl.core.importers.common.templates import ANY_ENDING, Template, fill_template
from wdsctl.core.importers.common.values import encode_json
from wdsctl.core.importers.common.wav_cut import cut_wav
from wdsctl.core.importers.protocol import FilePart, Options, Part
from wdsctl.core.media.sniff import extension_of_content
from wdsctl.core.samples.naming import KEY_COLUMN, exported_key, part_name_of_field, safe_key, strip_extension
from wdsctl.core.text import escape_unprintable


def row_number_key(row: int, prefix: str = "") -> str:
    """The key of a row that is named by its number: nine digits or more, after `prefix`."""
    return f"{prefix}{row:09d}"


RowPart = Part | FilePart

#: Options of every format whose samples are rows.
ROW_OPTIONS = ("key", "files", "base", "text")

#: Options of the formats of tables.
TABLE_OPTIONS = (*ROW_OPTIONS, "split", "segments", "frames")

_HEAD_BYTES = 4096  # enough to detect the format of a file


class FileNames(NamedTuple):
    """How the rows of a table name files: in each field in one way, for all rows.

    `base`: the folder that references are relative to. `bases`: field -> its folder, where it was found by the files.
    `templates`: fields that hold a template's names. `stems`: fields whose values are names without an ending.
    """

    base: str
    bases: Mapping[str, str] = MappingProxyType({})
    templates: Mapping[str, Template] = MappingProxyType({})
    stems: Mapping[str, Stems] = MappingProxyType({})

    def add_to(self, values: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """The values of a row, with the paths that it does not spell out. Raises DatasetError WDS231, WDS232."""
        filled = {name: fill_template(each, values, where) for name, each in self.templates.items()}
        for column, stems in self.stems.items():
            name = filled.get(column, values.get(column))
            if name is not None and name != "":
                filled[column] = stems.find(str(name).removesuffix(ANY_ENDING), where)
        return {**values, **filled} if filled else values

    def make_row(
        self, number: int, where: str, values: Mapping[str, Any], fault: WdsctlError | None, split: str = ""
    ) -> SourceRow:
        if fault is None and (self.templates or self.stems):
            try:
                values = self.add_to(values, where)
            except WdsctlError as error:
                fault = error
        return SourceRow(number, where, values, fault, self.base, split=split, bases=self.bases)


class SourceRow(NamedTuple):
    """One row of a source.

    `number` counts from 0 and is the sample's index. `where` names the row in messages. `fault` says why the row has no
    values. `base`: the folder that references are relative to, unless the mapping has one; `bases`: as in `FileNames`.
    `split`: one of the source's splits, or empty. `prefix`: the beginning of the key. `parts`: further parts of the
    sample. `file_key`: the key of a row that is named by its number in its file, with that file's path; empty to number
    all rows of the source.
    """

    number: int
    where: str
    values: Mapping[str, Any]
    fault: WdsctlError | None = None
    base: str = ""
    prefix: str = ""
    split: str = ""
    parts: tuple[RowPart, ...] = ()
    file_key: str = ""
    bases: Mapping[str, str] = MappingProxyType({})


class _ReferenceBase(NamedTuple):
    """The folder that references are relative to; `is_known`: no other is. `allowed_folder` as in `RowMapping`."""

    folder: str
    allowed_folder: str
    is_known: bool = False


class SourceSample(NamedTuple):
    """One sample, whose files are not read yet. With a `fault` it has a key, but no parts. `split`: empty for none."""

    key: str
    parts: tuple[RowPart, ...]
    fault: WdsctlError | None = None
    split: str = ""


@dataclass(frozen=True, slots=True)
class RowMapping:
    """How rows become samples.

    `base_folder`: the folder that references are relative to; if empty, the `base` of each row. `media`: the fields
    that hold bytes or name files; they are known before the first row, so that parts have the same names in all rows.
    `key`: a field, `:row` (the row's number) or `:stem` (the path of the first file, without its extension). `text`:
    a field that becomes the part `txt`. `allowed_folder`: the folder that the user names, if any; references may be
    relative to it, and may lead anywhere below it. `is_conversation`: the rows are conversations, see
    `common/conversations.py`; `is_document`: they are interleaved documents, see `common/documents.py`. `split`: the
    field that holds the split of a row, see `common/row_splits.py`; `takes_any_split`: whether every value of it is a
    split, not only the usual names. `is_exported`: the rows are samples that `convert` wrote, whose fields are parts.
    `notes`: media field -> how it names files, for the user. `segments`: the fields that name the part of a file that a
    row has; None for whole files. `findings`: about them.
    """

    base_folder: str = ""
    media: tuple[str, ...] = ()
    key: str = ":row"
    text: str = ""
    allowed_folder: str = ""
    is_conversation: bool = False
    split: str = ""
    takes_any_split: bool = False
    is_exported: bool = False
    is_document: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)
    segments: Segments | None = None
    findings: tuple[Finding, ...] = ()

    @classmethod
    def from_options(
        cls, options: Options, *, media: Iterable[str], key: str, base: str = "", is_conversation: bool = False
    ) -> RowMapping:
        """Build a mapping from the user's options; the option `key` overrides the argument."""
        key, text = options.get("key") or key, options.get("text", "")
        return cls(base, tuple(media), key, text, options.get("base", ""), is_conversation)


def exported_row_mapping(format_name: str, options: Options) -> RowMapping:
    """The mapping of exported rows, whose fields are parts. Raises UsageError for any option except `base`."""
    for name in options:
        if name != "base":
            raise UsageError(
                f"{format_name}: the option {name} does not apply to exported samples (rows with a {KEY_COLUMN}), "
                "whose fields are parts",
                hint=f"omit `-O {name}=...`; select parts with `--parts` and `--rename-part`",
            )
    return RowMapping(key=KEY_COLUMN, allowed_folder=options.get("base", ""), is_exported=True)


def row_to_sample(row: SourceRow, mapping: RowMapping) -> SourceSample:
    """Make a sample of a row. An error becomes the sample's `fault`, which is raised when the sample is read."""
    if row.fault is not None:
        return failed_sample(row.number, row.fault, row.prefix)
    try:
        if mapping.is_exported:
            return SourceSample(_exported_key(row), tuple(sorted(_exported_parts(row, mapping), key=_part_name)))
        is_numbered = mapping.key == ":row" and row.file_key
        key = row.file_key if is_numbered else f"{row.prefix}{_row_key(row, mapping)}"
        return SourceSample(key, tuple(sorted(_row_parts(row, mapping), key=_part_name)))
    except WdsctlError as error:
        return failed_sample(row.number, error, row.prefix)


def failed_sample(sample_index: int, fault: WdsctlError, prefix: str = "") -> SourceSample:
    """A sample without parts, for an index where no sample can be made. Its key contains the index."""
    return SourceSample(f"{prefix}row-{sample_index:09d}", (), fault)


def _part_name(part: RowPart) -> str:
    return part.name


def _row_parts(row: SourceRow, mapping: RowMapping) -> list[RowPart]:
    if mapping.is_conversation:
        return _conversation_parts(row, mapping)
    if mapping.is_document:
        return _document_parts(row, mapping)
    rest: dict[str, Any] = {}
    pieces: list[RowPart] = [*row.parts]
    for name, value in row.values.items():
        if name in mapping.media:
            known = row.bases.get(name, "")
            begin = _ReferenceBase(known or mapping.base_folder or row.base, mapping.allowed_folder, bool(known))
            found = list(
                _media_parts(
                    "" if len(mapping.media) == 1 else part_name_of_field(name), value, begin, f"{row.where}, {name}"
                )
            )
            if mapping.segments is not None and name == mapping.segments.media:
                found = _limit_to_segment(found, row, mapping.segments, rest)
            pieces += found
        elif name == mapping.text and isinstance(value, str):
            pieces.append(_text_part("txt", value, f"{row.where}, {name}"))
        else:
            rest[name] = value
    if rest or not pieces:
        taken = {piece.name for piece in pieces}
        pieces.append(Part("json" if "json" not in taken else "row.json", encode_json(rest)))
    return _number_duplicates(pieces) if len(pieces) > 1 else pieces


def _limit_to_segment(found: list[RowPart], row: SourceRow, segments: Segments, rest: dict[str, Any]) -> list[RowPart]:
    """The parts with the segment of their file that a row names: its clip in `rest`, or cut.

    Raises DatasetError WDS175.
    """
    if not found:
        return found
    try:
        clip = row_clip(row.values, segments)
        files = [piece for piece in found if isinstance(piece, FilePart)]
        for file in files:
            clip_in_file(clip, file)
        if segments.cuts:
            return [cut_wav(piece, clip) if isinstance(piece, FilePart) else piece for piece in found]
    except DatasetError as error:
        error.where = error.where or row.where
        raise
    rest[segments.name] = clip.as_json()
    return found


def _conversation_parts(row: SourceRow, mapping: RowMapping) -> list[RowPart]:
    """The media in the order of the conversation, and the JSON with its turns. Raises DatasetError WDS161."""
    begin = _ReferenceBase(mapping.base_folder or row.base, mapping.allowed_folder)
    try:
        pieces = _numbered_media(list_conversation_media(row.values, mapping.media), begin, row.where)
        rest = {name: value for name, value in row.values.items() if name not in mapping.media}
        text = rest.pop(mapping.text) if isinstance(rest.get(mapping.text), str) else None
        check_conversation(rest, [piece.name for piece in pieces])
    except WdsctlError as error:
        error.where = error.where or row.where
        raise
    if text is not None:
        pieces.append(_text_part("txt", text, f"{row.where}, {mapping.text}"))
    return [*pieces, Part("json", encode_json(rest))]


def _document_parts(row: SourceRow, mapping: RowMapping) -> list[RowPart]:
    """The images in the order of the document, and the JSON with their names in its places.

    Raises DatasetError WDS174.
    """
    begin = _ReferenceBase(mapping.base_folder or row.base, mapping.allowed_folder)
    rest = dict(row.values)
    text = rest.pop(mapping.text) if isinstance(rest.get(mapping.text), str) else None
    try:
        pieces = _numbered_media(list_document_images(rest), begin, row.where)
        rest = name_document_images(rest, [piece.name for piece in pieces])
    except WdsctlError as error:
        error.where = error.where or row.where
        raise
    if text is not None:
        pieces.append(_text_part("txt", text, f"{row.where}, {mapping.text}"))
    return [*pieces, Part("json", encode_json(rest))]


def _numbered_media(found: Iterable[tuple[str, Any]], base: _ReferenceBase, where: str) -> list[RowPart]:
    """The parts of media with (place, value), in this order: `0.jpg`, `1.png`; a single one is `jpg`."""
    pieces: list[RowPart] = []
    for place, value in found:
        pieces += _media_parts("", value, base, f"{where}, {place}")
    if len(pieces) < 2:
        return pieces
    names = [f"{i}.{piece.name}" for i, piece in enumerate(pieces)]
    return [
        piece._replace(name=name) if isinstance(piece, Part) else _with_name(piece, name)
        for piece, name in zip(pieces, names, strict=True)
    ]


def _text_part(name: str, text: str, where: str) -> Part:
    """The part of a text. Raises DatasetError WDS232 for half a surrogate pair: JSON can escape it, UTF-8 has none."""
    try:
        return Part(name, text.encode())
    except UnicodeEncodeError as error:
        raise DatasetError(
            f"the text cannot be encoded in UTF-8: it has half a surrogate pair (character {error.start:,})",
            hint="correct the text: it was probably cut inside a character, such as an emoji",
            where=where,
            code="WDS232",
        ) from error


def _number_duplicates(parts: list[RowPart]) -> list[RowPart]:
    """Number parts that have the same name: the second `jpg` becomes `2.jpg`. Changes the list."""
    seen: dict[str, int] = {}
    for i, piece in enumerate(parts):
        count = seen[piece.name] = seen.get(piece.name, 0) + 1
        if count > 1:
            name = f"{count}.{piece.name}"
            parts[i] = piece._replace(name=name) if isinstance(piece, Part) else _with_name(piece, name)
    return parts


def _with_name(part: FilePart, name: str) -> FilePart:
    return replace(part, name=name)


def _media_parts(prefix: str, value: Any, base: _ReferenceBase, where: str) -> Iterator[RowPart]:
    """The parts of one field: bytes, a reference, bytes with a name, or a list of these. None and "" give no parts.

    Raises DatasetError WDS232 for any other value.
    """
    match value:
        case None | "":
            return
        case bytes() | bytearray() | memoryview():
            yield _make_bytes_part(prefix, bytes(value), "")
        case str() if is_encoded_medium(value):
            yield _make_bytes_part(prefix, decode_medium(value), "")
        case str():
            yield _make_reference_part(prefix, value, base, where)
        case {"bytes": data, "path": path, **more} if not more:
            if data is not None:
                yield _make_bytes_part(prefix, bytes(data), path or "")
            elif path:
                yield _make_reference_part(prefix, path, base, where)
        case list() | tuple():
            for i, each in enumerate(value):
                yield from _media_parts(f"{prefix}.{i}" if prefix else str(i), each, base, where)
        case _:
            raise DatasetError(
                f"expected a file or bytes, found a {type(value).__name__}",
                hint="pass the fields that name files with `-O files=...`",
                where=where,
                code="WDS232",
            )


def media_part_names(mapping: RowMapping, field: str, value: Any) -> list[str]:
    """The names of the parts of a media field, from the value alone; `bin` for a file without an extension."""
    prefix = "" if len(mapping.media) == 1 else part_name_of_field(field)
    match value:
        case None | "":
            return []
        case bytes() | bytearray() | memoryview():
            return [_join_name(prefix, extension_of_content(bytes(value[:_HEAD_BYTES]), len(value)))]
        case str():
            data = decode_medium(value) if is_encoded_medium(value) else b""
            ending = extension_of_content(data, len(data)) if data else extension_of_name(value)
            return [_join_name(prefix, ending or "bin")]
        case {"bytes": data, "path": path}:
            ending = extension_of_name(path or "")
            return [_join_name(prefix, ending)] if ending else media_part_names(mapping, field, data)
        case list() | tuple():
            return [
                _join_name(f"{prefix}.{i}" if prefix else str(i), name.removeprefix(f"{prefix}.") if prefix else name)
                for i, each in enumerate(value)
                for name in media_part_names(mapping, field, each)
            ]
        case _:
            return []


def _make_bytes_part(prefix: str, data: bytes, path: str) -> Part:
    return Part(_join_name(prefix, extension_of_name(path) or extension_of_content(data, len(data))), data)


def _make_reference_part(prefix: str, reference: str, base: _ReferenceBase, where: str) -> FilePart:
    ending = extension_of_name(reference.rstrip())
    piece = make_file_part(
        _join_name(prefix, ending or "bin"),
        base.folder,
        reference,
        where,
        allowed=base.allowed_folder,
        is_base_known=base.is_known,
    )
    if ending:
        return piece
    head = replace(piece, size=min(piece.size, _HEAD_BYTES)).data
    return _with_name(piece, _join_name(prefix, extension_of_content(head, piece.size)))


def _join_name(prefix: str, extension: str) -> str:
    return f"{prefix}.{extension}" if prefix else extension


def _row_key(row: SourceRow, mapping: RowMapping) -> str:
    if mapping.key == ":row":
        return row_number_key(row.number)
    if mapping.key == ":stem":
        named = ((name, _first_path(row.values.get(name))) for name in mapping.media)
        field, reference = next((each for each in named if each[1]), ("", ""))
        if reference and mapping.allowed_folder:
            base = row.bases.get(field, "") or mapping.base_folder or row.base
            reference = path_from_allowed(mapping.allowed_folder, base, reference, row.where)
        return safe_key(strip_extension(reference)) or row_number_key(row.number)
    value = row.values.get(mapping.key)
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    key = safe_key(text)
    if not key:
        held = (
            "is missing"
            if mapping.key not in row.values
            else f"is {escape_unprintable(repr(value))[:40]}, not a valid key"
        )
        raise DatasetError(
            f"the field {mapping.key!r} {held}",
            hint="complete the row, or take keys from row numbers (`-O key=:row`) or file names (`-O key=:stem`)",
            where=row.where,
            code="WDS232",
        )
    return key


def _first_path(value: Any) -> str:
    match value:
        case str():
            return "" if is_encoded_medium(value) else value
        case {"path": str(path)}:
            return path
        case [first, *_]:
            return _first_path(first)
        case _:
            return ""


def _exported_key(row: SourceRow) -> str:
    """The original key of an exported row; made safe if it is not a valid key, since the file may be foreign.

    Raises DatasetError WDS232 if the row has no key.
    """
    text = row.values.get(KEY_COLUMN)
    if not isinstance(text, str) or not safe_key(text):
        raise DatasetError(
            f"the row has no valid {KEY_COLUMN}",
            hint=f"correct or remove the row: all other rows have a {KEY_COLUMN}",
            where=row.where,
            code="WDS232",
        )
    return exported_key(text)


def _check_exported_row(row: SourceRow) -> None:
    """Raises DatasetError WDS232 if a name of a part is empty, or has a slash or a NUL."""
    files = row.values.get(FILES_COLUMN)
    if files is not None and not isinstance(files, dict):
        raise DatasetError(
            f"{FILES_COLUMN} is a {type(files).__name__}, expected an object that maps parts to files",
            hint="correct or remove the row",
            where=row.where,
            code="WDS232",
        )
    for name in (*row.values, *(files or ())):
        if not name or "/" in name or "\0" in name:
            raise DatasetError(
                f"{name!r} cannot name a part",
                hint="rename the column to a valid extension, such as jpg or seg.png",
                where=row.where,
                code="WDS232",
            )


def _exported_parts(row: SourceRow, mapping: RowMapping) -> Iterator[RowPart]:
    """The parts of an exported sample: one per field, and the files that `__files__` names."""
    _check_exported_row(row)
    for name, value in row.values.items():
        match value:
            case None:
                continue
            case dict() if name == FILES_COLUMN:
                for part, reference in value.items():
                    base, where = mapping.base_folder or row.base, f"{row.where}, {part}"
                    yield make_file_part(part, base, str(reference), where, allowed=mapping.allowed_folder)
            case {"bytes": bytes(data), "path": _, **more} if not more:
                yield Part(name, data)
            case {"bytes": None, "path": _, **more} if not more:
                continue
            case bytes():
                yield Part(name, value)
            case str() if name != KEY_COLUMN:
                yield _text_part(name, value, f"{row.where}, {name}")
            case _ if name != KEY_COLUMN:
                yield Part(name, encode_json(value))


#: In an exported row: part -> its file.
FILES_COLUMN = "__files__"
