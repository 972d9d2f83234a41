"""Tables with a row for each box: the rows that name one picture become one sample, with a list of boxes.

`json` has `boxes`, `box_format`, `labels` (numbers) and, if classes are words, `label_names`. Another column has one
value if it is the same in all rows of each picture, such as `width`, and else a list with the value of each box.

Sources: https://storage.googleapis.com/openimages/web/download_v7.html (`ImageID`, `LabelName`, `XMin`, ...);
https://tensorflow-object-detection-api-tutorial.readthedocs.io (CSV with `filename`, `class`, `xmin`, ...).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from wdsctl.core.errors import DatasetError, Finding, WdsctlError
from wdsctl.core.importers.common.samples import RowMapping, SourceRow
from wdsctl.core.importers.protocol import FieldUse
from wdsctl.core.text import path_for_message, pluralize

_FORMATS: Mapping[str, Sequence[tuple[str, str, str, str]]] = {
    "xyxy": (
        ("xmin", "ymin", "xmax", "ymax"),
        ("x1", "y1", "x2", "y2"),
        ("x0", "y0", "x1", "y1"),
        ("left", "top", "right", "bottom"),
    ),
    "xywh": (("x", "y", "w", "h"), ("x", "y", "width", "height"), ("left", "top", "width", "height")),
}
_LABELS = ("labelname", "classname", "categoryname", "class", "label", "category", "classid", "labelid", "categoryid")
_OWN_FIELDS = frozenset({"boxes", "box_format", "labels", "label_names"})
_MAX_SHOWN_CLASSES = 3
_MAX_SHARED_TEXTS = 100_000


class BoxColumns(NamedTuple):
    """`numbers`: the columns of a box, in the order of `form`. `label`: that of the class; empty if there is none."""

    form: str
    numbers: tuple[str, str, str, str]
    label: str


def find_box_columns(fields: Iterable[str]) -> BoxColumns | None:
    """The columns of a box among the fields of a table, in any spelling; None if there are none."""
    by_word = {re.sub("[-_. ]", "", name.lower()).removeprefix("bbox") or name: name for name in fields}
    for form, choices in _FORMATS.items():
        for words in choices:
            if all(word in by_word for word in words):
                label = next((by_word[word] for word in _LABELS if word in by_word), "")
                left, top, right, bottom = (by_word[word] for word in words)
                return BoxColumns(form, (left, top, right, bottom), label)
    return None


class _Rows(Protocol):
    def rows(self, start: int) -> Iterator[SourceRow]: ...

    def files(self) -> Iterable[str]: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _Picture:
    """The rows of one picture. `first`: without the values that the others have. `numbers`: four for each box.

    `others`: column -> the value of each of `rows`, or the one that all have. `fault`: of the first bad row.
    """

    first: SourceRow
    rows: int = 0
    numbers: array[float] = field(default_factory=lambda: array("d"))
    labels: list[Any] = field(default_factory=list)
    others: dict[str, list[Any]] = field(default_factory=dict)
    fault: WdsctlError | None = None


def group_boxes(rows: _Rows, mapping: RowMapping, first: Sequence[Mapping[str, Any]]) -> BoxRows | None:
    """The rows as pictures with boxes; None if they have no boxes, or no two rows name the same file.

    Cost: reads all rows, if their columns are those of boxes.
    """
    fields = list(dict.fromkeys(name for row in first for name in row))
    columns = find_box_columns(fields)
    is_plain = len(mapping.media) == 1 and not (mapping.is_conversation or mapping.text or mapping.key != ":stem")
    if columns is None or not is_plain or not _OWN_FIELDS.isdisjoint(fields):
        return None
    grouped = BoxRows(rows, mapping, columns)
    return grouped if grouped.boxes > len(grouped.pictures) or grouped.has_repeats else None


class BoxRows:
    """The pictures of a table as rows, in the order in which they are first named.

    Rows that cannot be read, or name no file, come last. Memory: about 1 kB for a picture, and 100 bytes for a box.
    """

    def __init__(self, rows: _Rows, mapping: RowMapping, columns: BoxColumns) -> None:
        self._source = rows
        self._media = mapping.media[0]
        self._columns = columns
        self._alone: list[SourceRow] = []
        self._varying: set[str] = set()
        self._texts: dict[str, str] = {}
        self._are_whole = True
        self.boxes = 0
        self.outside = (0, "")
        self.has_repeats = False
        self._fields: dict[str, None] = {}
        pictures: dict[tuple[str, str, Any], _Picture] = {}
        for row in rows.rows(0):
            self._fields |= dict.fromkeys(row.values)
            path = row.values.get(self._media)
            if row.fault is not None or not isinstance(path, str) or not path:
                self._alone.append(row)
                continue
            key = row.bases.get(self._media, row.base), path, row.values.get(mapping.split, row.split)
            self.has_repeats = self.has_repeats or key in pictures
            picture = pictures.get(key)
            if picture is None:
                picture = pictures[key] = _Picture(row._replace(values={self._media: path}))
            self._add(row, picture)
        self.pictures = list(pictures.values())
        labels = {label for each in self.pictures for label in each.labels}
        #: The names of classes, in the order of their numbers; empty if the table has numbers.
        self.classes = sorted(map(str, labels)) if any(isinstance(label, str) for label in labels) else []
        values = (value for each in self.pictures for value in each.numbers)
        self._is_normalized = self.boxes > 0 and all(-1 <= value <= 2 for value in values)
        self._check_outside()

    @property
    def box_format(self) -> str:
        return f"{'normalized_' if self._is_normalized else ''}{self._columns.form}"

    def _add(self, row: SourceRow, picture: _Picture) -> None:
        taken = {self._media, self._columns.label, *self._columns.numbers}
        try:
            box = _read_box(row, self._columns)
        except DatasetError as error:
            picture.fault = picture.fault or error
            return
        for name in {**picture.others, **row.values}:
            if name in taken:
                continue
            value = self._shared(row.values.get(name))
            values = picture.others.setdefault(name, [None if picture.rows else value])
            if len(values) > 1:
                values.append(value)
            elif picture.rows and values[0] != value:
                self._varying.add(name)
                values[:] = [*values * picture.rows, value]
        picture.rows += 1
        if box is not None:
            picture.numbers.extend(box)
            picture.labels.append(self._shared(row.values.get(self._columns.label)))
            self._are_whole = self._are_whole and all(isinstance(number, int) for number in box)
            self.boxes += 1

    def _shared(self, value: Any) -> Any:
        """An equal value, for texts that many rows have."""
        if not isinstance(value, str) or len(self._texts) >= _MAX_SHARED_TEXTS:
            return value
        return self._texts.setdefault(value, value)

    def _check_outside(self) -> None:
        for each in self.pictures:
            width, height = (1, 1) if self._is_normalized else (_constant(each, "width"), _constant(each, "height"))
            for box in self._boxes(each) if width and height else ():
                left, top = box[:2]
                right, bottom = box[2:] if self._columns.form == "xyxy" else (left + box[2], top + box[3])
                slack = 0.01 if self._is_normalized else 1
                if min(left, top) < -slack or right > width + slack or bottom > height + slack:
                    count, where = self.outside
                    self.outside = count + 1, where or each.first.where

    def rows(self, start: int) -> Iterator[SourceRow]:
        for number in range(start, len(self.pictures)):
            each = self.pictures[number]
            yield each.first._replace(number=number, values=self._values(each), fault=each.fault, file_key="")
        for number, row in enumerate(self._alone, len(self.pictures)):
            if number >= start:
                yield row._replace(number=number, file_key="")

    def _boxes(self, picture: _Picture) -> list[list[float]]:
        numbers: list[Any] = list(map(int, picture.numbers)) if self._are_whole else picture.numbers.tolist()
        return [numbers[at : at + 4] for at in range(0, len(numbers), 4)]

    def _values(self, picture: _Picture) -> dict[str, Any]:
        values = {**picture.first.values, "boxes": self._boxes(picture), "box_format": self.box_format}
        if self.classes:
            numbers = {name: number for number, name in enumerate(self.classes)}
            values["labels"] = [numbers[str(label)] for label in picture.labels]
            values["label_names"] = list(map(str, picture.labels))
        elif self._columns.label:
            values["labels"] = picture.labels
        others = picture.others.items()
        lists = {name: each if len(each) == picture.rows else each * picture.rows for name, each in others}
        return values | {name: each if name in self._varying else each[0] for name, each in lists.items()}

    def files(self) -> Iterable[str]:
        return self._source.files()

    def close(self) -> None:
        self._source.close()

    def field_uses(self, media: FieldUse) -> list[FieldUse]:
        """What becomes of each column. `media`: the use of the column with the files."""
        counts = f"{pluralize(self.boxes, 'box', 'boxes')} of {pluralize(len(self.pictures), 'picture')}"
        uses = []
        for name in self._fields:
            if name == self._media:
                uses.append(media)
            elif name == self._columns.numbers[0]:
                uses.append(FieldUse(", ".join(self._columns.numbers), "json[boxes]", f"{self.box_format}; {counts}"))
            elif name == self._columns.label:
                shown = ", ".join(f"{number} {each}" for number, each in enumerate(self.classes[:_MAX_SHOWN_CLASSES]))
                more = ", ..." if self.classes[_MAX_SHOWN_CLASSES:] else ""
                note = f"{len(self.classes):,} classes, numbered by name: {shown}{more}" if self.classes else ""
                uses.append(FieldUse(name, f"json[labels]{', json[label_names]' if self.classes else ''}", note))
            elif name not in self._columns.numbers:
                uses.append(FieldUse(name, f"json[{name}]", "a value for each box" if name in self._varying else ""))
        return uses

    def findings(self) -> Iterator[Finding]:
        count, where = self.outside
        if count:
            yield Finding(
                code="WDS163",
                severity="warning",
                message=f"{pluralize(count, 'box', 'boxes')} partly outside the image, such as in "
                f"{path_for_message(where)}",
                count=count,
            )


def _constant(picture: _Picture, name: str) -> float:
    """A number that all rows of a picture have; 0 if there is none."""
    found = {value for key, values in picture.others.items() if key.lower() == name for value in values}
    number = _number(found.pop()) if len(found) == 1 else None
    return number or 0


def _read_box(row: SourceRow, columns: BoxColumns) -> list[float] | None:
    """The numbers of a box; None if all cells are empty, for a picture without objects.

    Raises DatasetError WDS232 if they are no box, or the row has no class.
    """
    cells = [row.values.get(name) for name in columns.numbers]
    if all(cell is None or cell == "" for cell in cells):
        return None
    numbers = [_number(cell) for cell in cells]
    box = [number for number in numbers if number is not None]
    problem = ""
    if len(box) < len(numbers):
        problem = f"expected four numbers, found {cells}"
    elif columns.form == "xyxy" and (box[2] < box[0] or box[3] < box[1]):
        problem = f"the box {box} ends before it begins"
    elif columns.form == "xywh" and min(box[2:]) < 0:
        problem = f"the box {box} has a negative size"
    elif columns.label and row.values.get(columns.label) in (None, ""):
        problem = f"the box has no {columns.label}"
    if problem:
        raise DatasetError(
            f"the row is no box: {problem}",
            hint="correct or remove the row; the other boxes of the picture are left out with it",
            where=row.where,
            code="WDS232",
        )
    return box


def _number(value: Any) -> float | None:
    """An int or a float; None for other values."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    if number - number != 0:  # infinite, or no number
        return None
    is_whole = isinstance(value, int) or (isinstance(value, str) and value.strip().lstrip("+-").isdigit())
    return int(number) if is_whole else number
