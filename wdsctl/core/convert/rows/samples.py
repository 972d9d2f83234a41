"""From rows to samples: which fields are files or media, which is the key; the rest is the part `json`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from wdsctl.core.convert.rows.extensions import as_part, of_content, of_name
from wdsctl.core.convert.rows.references import file_part, path_below
from wdsctl.core.convert.rows.safe_keys import numbered, safe_key, stem
from wdsctl.core.convert.rows.values import as_json
from wdsctl.core.convert.source import LargePart, Options, Part
from wdsctl.core.errors import DatasetError, UsageError, WdsctlError
from wdsctl.core.naming import split_name
from wdsctl.core.printable import one_line

Piece = Part | LargePart

KEY = "__key__"  # rows that have it were samples before: their other fields are parts

#: Options of every form whose samples are rows.
OPTIONS = ("key", "files", "base", "text")

_HEAD = 4096  # bytes that tell what a file is


class Row(NamedTuple):
    """One row. `number` counts from 0 and is its place; `where` names it for people; `fault`: why it has no values.

    `base`: the folder that its references begin in, unless the shape has one. `split`: what it is in, of those that the
    source has; its key begins with `prefix`.
    """

    number: int
    where: str
    values: Mapping[str, Any]
    fault: WdsctlError | None = None
    base: str = ""
    prefix: str = ""
    split: str = ""


class _Begin(NamedTuple):
    """Where references begin; `allowed`: as in `Shape`."""

    folder: str
    allowed: str


class Sample(NamedTuple):
    """One sample, its files not read yet. With a `fault`, it has a key and no parts. `split`: empty for none."""

    key: str
    pieces: tuple[Piece, ...]
    fault: WdsctlError | None = None
    split: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """How rows become samples.

    `key`: a field, or `:row` (the number) or `:stem` (the name of the first file). `media`: fields that hold bytes or
    refer to files, known before the first row, so that a sample's parts are named alike in all rows. `base`: the
    folder that references begin in; empty: the row says. `allowed`: the one that the user named, if any: references
    begin there, and lead anywhere below. `text`: a field that becomes the part `txt`.
    """

    base: str = ""
    media: tuple[str, ...] = ()
    key: str = ":row"
    text: str = ""
    allowed: str = ""

    @classmethod
    def of(cls, options: Options, *, media: Iterable[str], key: str, base: str = "") -> Shape:
        """With what the user said."""
        key, text = options.get("key") or key, options.get("text", "")
        return cls(base, tuple(media), key, text, allowed=options.get("base", ""))


def kept_shape(form: str, options: Options) -> Shape:
    """Of rows that were samples before. Raises UsageError for options that would make others of them."""
    for name in options:
        if name != "base":
            raise UsageError(
                f"{form}: {name} cannot be chosen here: the rows have a {KEY}, and their fields are parts",
                hint=f"leave out `-O {name}=...`; `--parts` and `--rename-part` choose parts",
            )
    return Shape(key=KEY, allowed=options.get("base", ""))


def sample_of(row: Row, shape: Shape) -> Sample:
    """The sample that a row makes. What is wrong with it is its fault, and raised when it is read."""
    if row.fault is not None:
        return failed(row.number, row.fault, row.prefix)
    try:
        if shape.key == KEY:
            return Sample(_kept_key(row), tuple(sorted(_kept_parts(row, shape), key=_name)))
        return Sample(f"{row.prefix}{_key(row, shape)}", tuple(sorted(_pieces(row, shape), key=_name)))
    except WdsctlError as error:
        return failed(row.number, error, row.prefix)


def failed(place: int, fault: WdsctlError, prefix: str = "") -> Sample:
    """What stands at a place where no sample could be made. Its key is like no other's."""
    return Sample(f"{prefix}row-{place:09d}", (), fault)


def _name(piece: Piece) -> str:
    return piece.name


def _pieces(row: Row, shape: Shape) -> list[Piece]:
    rest: dict[str, Any] = {}
    pieces: list[Piece] = []
    for name, value in row.values.items():
        if name in shape.media:
            begin = _Begin(shape.base or row.base, shape.allowed)
            pieces += _media("" if len(shape.media) == 1 else as_part(name), value, begin, f"{row.where}, {name}")
        elif name == shape.text and isinstance(value, str):
            pieces.append(Part("txt", value.encode("utf-8", "surrogateescape")))
        else:
            rest[name] = value
    if rest or not pieces:
        taken = {piece.name for piece in pieces}
        pieces.append(Part("json" if "json" not in taken else "row.json", as_json(rest)))
    return _told_apart(pieces) if len(pieces) > 1 else pieces


def _told_apart(pieces: list[Piece]) -> list[Piece]:
    """Parts whose names came out alike get a number."""
    seen: dict[str, int] = {}
    for i, piece in enumerate(pieces):
        count = seen[piece.name] = seen.get(piece.name, 0) + 1
        if count > 1:
            name = f"{count}.{piece.name}"
            pieces[i] = piece._replace(name=name) if isinstance(piece, Part) else _renamed(piece, name)
    return pieces


def _renamed(piece: LargePart, name: str) -> LargePart:
    return replace(piece, name=name)


def _media(prefix: str, value: Any, begin: _Begin, where: str) -> Iterator[Piece]:
    """The parts of one field: bytes, a reference, bytes with a name, or a list of these. None gives none."""
    match value:
        case None | "":
            return
        case bytes() | bytearray() | memoryview():
            yield _of_bytes(prefix, bytes(value), "")
        case str():
            yield _of_file(prefix, value, begin, where)
        case {"bytes": data, "path": path, **more} if not more:
            if data is not None:
                yield _of_bytes(prefix, bytes(data), path or "")
            elif path:
                yield _of_file(prefix, path, begin, where)
        case list() | tuple():
            for i, each in enumerate(value):
                yield from _media(f"{prefix}.{i}" if prefix else str(i), each, begin, where)
        case _:
            raise DatasetError(
                f"a {type(value).__name__} where a file or bytes should be",
                hint="`-O files=...` says which fields are files",
                where=where,
                code="WDS232",
            )


def _of_bytes(prefix: str, data: bytes, path: str) -> Part:
    return Part(_joined(prefix, of_name(path) or of_content(data, len(data))), data)


def _of_file(prefix: str, reference: str, begin: _Begin, where: str) -> LargePart:
    ending = of_name(reference)
    piece = file_part(_joined(prefix, ending or "bin"), begin.folder, reference, where, allowed=begin.allowed)
    if ending:
        return piece
    head = replace(piece, size=min(piece.size, _HEAD)).data
    return _renamed(piece, _joined(prefix, of_content(head, piece.size)))


def _joined(prefix: str, ending: str) -> str:
    return f"{prefix}.{ending}" if prefix else ending


def _key(row: Row, shape: Shape) -> str:
    if shape.key == ":row":
        return numbered(row.number)
    if shape.key == ":stem":
        reference = next(filter(None, (_first_path(row.values.get(name)) for name in shape.media)), "")
        if reference and shape.allowed:
            reference = path_below(shape.allowed, shape.base or row.base, reference, row.where)
        return safe_key(stem(reference)) or numbered(row.number)
    value = row.values.get(shape.key)
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    key = safe_key(text)
    if not key:
        held = "is not there" if shape.key not in row.values else f"holds {one_line(repr(value))[:40]}, which is no key"
        raise DatasetError(
            f"the field {shape.key!r} {held}",
            hint="complete the row, or `-O key=:row` for numbers, `-O key=:stem` for names of files",
            where=row.where,
            code="WDS232",
        )
    return key


def _first_path(value: Any) -> str:
    match value:
        case str():
            return value
        case {"path": str(path)}:
            return path
        case [first, *_]:
            return _first_path(first)
        case _:
            return ""


def _kept_key(row: Row) -> str:
    """The key as it was, if one can be so; it may come from anywhere."""
    text = row.values.get(KEY)
    if not isinstance(text, str) or not safe_key(text):
        raise DatasetError(
            f"the row has no {KEY} that is a key",
            hint="other rows were samples before, and have one: mend the row, or take it out",
            where=row.where,
            code="WDS232",
        )
    is_key = split_name(f"{text}.x") == (text, "x") and not text.startswith("/") and ".." not in text.split("/")
    return text if is_key and "\0" not in text else safe_key(text)


def _check_kept(row: Row) -> None:
    """Raises DatasetError WDS232 where a row names parts that cannot be."""
    beside = row.values.get(FILES)
    if beside is not None and not isinstance(beside, dict):
        raise DatasetError(
            f"{FILES} holds a {type(beside).__name__} where an object of part and file should be",
            hint="mend the row, or take it out",
            where=row.where,
            code="WDS232",
        )
    for name in (*row.values, *(beside or ())):
        if not name or "/" in name or "\0" in name:
            raise DatasetError(
                f"{name!r} is no name of a part",
                hint="rename the column: a part is what follows a dot in a file's name",
                where=row.where,
                code="WDS232",
            )


def _kept_parts(row: Row, shape: Shape) -> Iterator[Piece]:
    """The parts of a sample that was exported: every field is one, and `__files__` says which are beside."""
    _check_kept(row)
    for name, value in row.values.items():
        match value:
            case None:
                continue
            case dict() if name == FILES:
                for part, reference in value.items():
                    base, place = shape.base or row.base, f"{row.where}, {part}"
                    yield file_part(part, base, str(reference), place, allowed=shape.allowed)
            case {"bytes": bytes(data), "path": _, **more} if not more:
                yield Part(name, data)
            case {"bytes": None, "path": _, **more} if not more:
                continue
            case bytes():
                yield Part(name, value)
            case str() if name != KEY:
                yield Part(name, value.encode("utf-8", "surrogateescape"))
            case _ if name != KEY:
                yield Part(name, as_json(value))


#: In a row that was a sample: part -> its file.
FILES = "__files__"
