"""Templates of file names over the columns of a table: `clips/{youtube_id}_{time_start:06}_{time_end:06}.mp4`.

`{COLUMN}` is the value, `{COLUMN:06}` a whole number with at least six digits, `{COLUMN.name}` and `{COLUMN.stem}` the
last component of a path, with and without its ending. An ending `.*` stands for that of any medium.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice, product
from typing import Any, NamedTuple

from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.samples.naming import strip_extension

ANY_ENDING = ".*"

_FIELD = re.compile(r"\{([^{}:]+)(?::(\d+))?\}")
_DIGITS = re.compile(r"\d+")
_PATH_PARTS = (".name", ".stem")
_MAX_PROBED_ROWS = 5  # rows whose values are looked for in the names of files
_MAX_PROBED_COLUMNS = 50
_MAX_PROBED_NAMES = 20  # files per row that are taken apart
_MAX_READINGS = 256  # templates per file: a number may be the value of several columns
_MAX_DIGITS = 100  # of a number: Python refuses to parse thousands
_MIN_SHARE = 0.25  # of the rows must name a file by a template that is worth a hint


class Template(NamedTuple):
    """`literals` has one text more than `columns`. `widths`: the least number of digits of each column; 0: a text."""

    text: str
    literals: tuple[str, ...]
    columns: tuple[str, ...]
    widths: tuple[int, ...]


def is_template(text: str) -> bool:
    return "{" in text


def parse_template(text: str) -> Template:
    """Raises UsageError if a brace does not belong to a column."""
    pieces = _FIELD.split(text)
    literals = tuple(pieces[0::3])
    if any(mark in literal for literal in literals for mark in "{}"):
        raise UsageError(
            f"the template {text!r} has a brace that belongs to no column",
            hint="write columns in braces, and digits of numbers after a colon: `{name}_{number:06}.mp4`",
        )
    return Template(text, literals, tuple(pieces[1::3]), tuple(int(width or 0) for width in pieces[2::3]))


def check_template(template: Template, fields: Sequence[str]) -> None:
    """Raise UsageError if the template has a column that no row has."""
    for column in template.columns:
        if _column_of(column, fields) not in fields:
            raise UsageError(
                f"the template {template.text!r} has the column {column!r}, which no row has",
                hint=f"{did_you_mean(column, fields)} the fields are {', '.join(fields)}".strip(),
            )


def fill_template(template: Template, values: Mapping[str, Any], where: str = "") -> str:
    """The name for a row; empty if a column is empty. Raises DatasetError WDS232 for a text in place of a number."""
    name = template.literals[0]
    for column, width, literal in zip(template.columns, template.widths, template.literals[1:], strict=True):
        value = values.get(_column_of(column, values))
        if value is None or value == "":
            return ""
        name += _format(column, value, width, values, where) + literal
    return name


def _column_of(column: str, fields: Collection[str]) -> str:
    """The field that a column of a template means: `path` for `path.stem`, unless there is a field `path.stem`."""
    return column[:-5] if column not in fields and column.endswith(_PATH_PARTS) else column


def _format(column: str, value: Any, width: int, values: Mapping[str, Any], where: str) -> str:
    if width:
        number = _whole_number(value)
        if number is None:
            raise DatasetError(
                f"{column} is {value!r}, but {{{column}:0{width}}} needs a whole number",
                hint="correct the row or the template",
                where=where,
                code="WDS232",
            )
        return f"{number:0{width}d}"
    number = _whole_number(value) if isinstance(value, float) else None
    text = str(value) if number is None else str(number)
    if column in values:
        return text
    last = text.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return last if column.endswith(".name") else strip_extension(last)


def _whole_number(value: Any) -> int | None:
    try:
        number = Decimal(str(value))  # a float has no more than 16 digits
    except (ValueError, ArithmeticError):
        return None
    is_whole = number.is_finite() and number.adjusted() < _MAX_DIGITS and number == number.to_integral_value()
    return int(number) if is_whole else None


class FoundTemplate(NamedTuple):
    """`named`: how many of `rows` name a file by `text`."""

    text: str
    named: int
    rows: int


def find_templates(rows: Sequence[Mapping[str, Any]], paths: Iterable[str]) -> list[FoundTemplate]:
    """The templates by which most of the rows name one of the files each, equally good ones together; empty if none.

    Takes the names of some files apart, where they have the values of a row.
    """
    known = list(paths)
    endings = {path[len(strip_extension(path)) :] for path in known}
    stems = dict.fromkeys(strip_extension(path) for path in known)
    by_number = _stems_by_number(stems)
    candidates = dict.fromkeys(
        text
        for row in islice(rows, _MAX_PROBED_ROWS)
        for text in islice(_templates_of(row, stems, by_number), _MAX_PROBED_NAMES * _MAX_READINGS)
    )
    found = []
    for text in candidates:
        template = parse_template(text)
        names = [name for row in rows if (name := _try_fill(template, row)) in stems]
        # One file of many rows is a constant, not a name.
        if len(set(names)) >= max(min(2, len(rows)), _MIN_SHARE * len(rows)):
            found.append(FoundTemplate(text, len(names), len(rows)))
    most = max((each.named for each in found), default=0)
    ending = endings.pop() if len(endings) == 1 else ANY_ENDING
    best = [each._replace(text=f"{each.text}{ending}") for each in found if each.named == most]
    # A folder `train` is rather the column `split` than a word, if all of these rows are for training.
    by_columns: dict[tuple[str, ...], FoundTemplate] = {}
    for each in best:
        by_columns.setdefault(parse_template(each.text).columns, each)  # the first has no more digits than it needs
    most_columns = max((len(set(columns)) for columns in by_columns), default=0)
    fitting = {columns: each for columns, each in by_columns.items() if len(set(columns)) == most_columns}
    fewest = min(map(len, fitting), default=0)
    return [each for columns, each in fitting.items() if len(columns) == fewest]


def _try_fill(template: Template, row: Mapping[str, Any]) -> str:
    try:
        return fill_template(template, row)
    except DatasetError:
        return ""


def _stems_by_number(stems: Iterable[str]) -> dict[int, list[str]]:
    """Number -> some of the names that have it, with any number of leading zeros."""
    found: dict[int, list[str]] = {}
    for stem in stems:
        for digits in _DIGITS.findall(stem):
            names = found.setdefault(int(digits[:_MAX_DIGITS]), [])
            if len(names) < _MAX_PROBED_NAMES:
                names.append(stem)
    return found


def _templates_of(
    row: Mapping[str, Any], stems: Iterable[str], by_number: Mapping[int, Sequence[str]]
) -> Iterator[str]:
    """Yield templates that make one of these names of the row's values."""
    short = ((name, value) for name, value in row.items() if _is_short(value))
    texts = {name: _format(name, value, 0, row, "") for name, value in islice(short, _MAX_PROBED_COLUMNS)}
    texts = {name: text for name, text in texts.items() if text}
    long = {name: text for name, text in texts.items() if not text.isdigit()}
    digits = {name: text for name, text in texts.items() if text.isascii() and text.isdigit()}
    numbers = {name: int(text) for name, text in digits.items() if len(text) <= _MAX_DIGITS}
    # Longer values are rarer: a file that has one of them is likelier to be that of the row.
    for name, text in sorted(texts.items(), key=lambda each: -len(each[1])):
        names = by_number.get(numbers[name], ()) if name in numbers else (stem for stem in stems if text in stem)
        for stem in islice(names, _MAX_PROBED_NAMES):
            yield from _read_name(stem, {**long, name: text}, numbers)
            yield from _read_name(stem, {name: text}, numbers)
            yield from _read_name(stem, long, numbers)


def _is_short(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and 0 < len(str(value)) < 256


def _read_name(stem: str, texts: Mapping[str, str], numbers: Mapping[str, int]) -> Iterator[str]:
    """Yield templates: columns of texts in the place of their values, then every choice for each number."""
    pieces: list[tuple[str, bool]] = [(stem, False)]  # (text, whether it is a column)
    for name, text in sorted(texts.items(), key=lambda each: -len(each[1])):
        pieces = [piece for each in pieces for piece in ([each] if each[1] else _split_at(each[0], name, text))]
    choices: list[list[str]] = []
    for text, is_column in pieces:
        if is_column:
            choices.append([text])
            continue
        end = 0
        for run in _DIGITS.finditer(text):
            choices += [[text[end : run.start()]], [*_columns_of(run[0], numbers), run[0]]]
            end = run.end()
        choices.append([text[end:]])
    for chosen in islice(product(*choices), _MAX_READINGS):
        text = "".join(chosen)
        if is_template(text):
            yield text


def _split_at(text: str, name: str, value: str) -> list[tuple[str, bool]]:
    """A text as pieces, with the column where its value is; the whole text if it is not there. A number is all digits
    that are together.
    """
    pattern = rf"(?<!\d){value}(?!\d)" if value.isdigit() else re.escape(value)
    found = re.search(pattern, text)
    if found is None:
        return [(text, False)]
    return [(text[: found.start()], False), (f"{{{name}}}", True), (text[found.end() :], False)]


def _columns_of(digits: str, numbers: Mapping[str, int]) -> list[str]:
    is_padded = len(digits) > 1 and digits.startswith("0")
    width = f":0{len(digits)}" if is_padded or len(digits) > 1 else ""
    plain = [f"{{{name}}}" for name, number in numbers.items() if not is_padded and str(number) == digits]
    return [
        *plain,
        *(f"{{{name}{width}}}" for name, number in numbers.items() if width and int(digits[:_MAX_DIGITS]) == number),
    ]
