"""The splits of rows that a field names, such as `split` with the values `train` and `test`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.errors import Finding, UsageError
from wdsctl.core.importers.common.samples import RowMapping, SourceRow
from wdsctl.core.importers.protocol import FieldUse, Options
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.split_rules.names import MAX_SPLITS, SPLIT_VALUES, can_name_split, split_of_value
from wdsctl.core.text import path_for_message

#: Names of fields, in lower case, that may hold the split of a row; the first one wins.
SPLIT_FIELDS = ("split", "subset", "partition")


class _Rows(Protocol):
    def rows(self, start: int) -> Iterator[SourceRow]: ...


def find_split_field(
    format_name: str, options: Options, rows: Sequence[Mapping[str, Any]], *, has_file_splits: bool
) -> str:
    """The field that holds the split of a row: the one that `-O split=` names, which may be none, or one that is called
    so and in whose values at least half are names of splits. Empty if there is none.

    `has_file_splits`: whether the names of several files say the splits, which then win over an unnamed field. Raises
    UsageError if no row has the named field.
    """
    fields = list(dict.fromkeys(name for row in rows for name in row))
    if "split" in options:
        named = options["split"]
        if named and fields and named not in fields:
            raise UsageError(
                f"{format_name}: no row has a field {named!r}",
                hint=f"{did_you_mean(named, fields)} the fields are {', '.join(fields)}".strip(),
            )
        return named
    if has_file_splits:
        return ""
    for usual in SPLIT_FIELDS:
        for name in fields:
            values = [row[name] for row in rows if row.get(name) not in (None, "")]
            if name.lower() == usual and values and 2 * sum(map(_is_split_name, values)) >= len(values):
                return name
    return ""


def numbered_split_findings(rows: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """A warning WDS259 about a field such as `partition` with numbers, which only the dataset's publisher explains."""
    for name in dict.fromkeys(name for row in rows for name in row if name.lower() in SPLIT_FIELDS):
        values = [str(row[name]) for row in rows if row.get(name) not in (None, "")]
        if values and all(len(each) == 1 and each.isdigit() for each in values):
            command = shell_command("split", "DEST", "--by-value", f"json:{name}")
            yield Finding(
                code="WDS259",
                severity="warning",
                message=f"the field {path_for_message(name)!r} has numbers such as {values[0]}, which may be those of "
                f"splits; no sample is in one. {command} makes splits that are called so",
            )


def _is_split_name(value: Any) -> bool:
    return isinstance(value, str) and split_of_value(value) in SPLIT_VALUES


def split_of_row(values: Mapping[str, Any], mapping: RowMapping) -> str:
    """The split that the mapping's field says, in lower case if it is a usual name; empty if it says none."""
    value = values.get(mapping.split)
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    split = split_of_value(str(value))
    return split if mapping.takes_any_split or split in SPLIT_VALUES else ""


class _Counts(NamedTuple):
    """Rows by split, rows in no split, and the first of these."""

    splits: Counter[str]
    without: int
    first_without: str


class RowSplits:
    """The splits that occur in the rows, counted in one pass when they are first asked for."""

    def __init__(self, rows: _Rows, mapping: RowMapping) -> None:
        self._rows = rows
        self._mapping = mapping

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts.splits)

    @cached_property
    def _counts(self) -> _Counts:
        splits, without, first = Counter[str](), 0, ""
        for row in self._rows.rows(0):
            if row.fault is not None:
                continue
            split = split_of_row(row.values, self._mapping)
            if split and split not in splits and not can_name_split(split):
                raise UsageError(
                    f"the value {path_for_message(split)!r} of the field {self._mapping.split!r} cannot name a split",
                    where=row.where,
                    hint="pass another field with `-O split=FIELD`, or no field with `-O split=`",
                )
            if split:
                splits[split] += 1
            else:
                value = path_for_message(repr(row.values.get(self._mapping.split)))[:40]
                without, first = without + 1, first or f"{value} in {row.where}"
            if len(splits) > MAX_SPLITS:
                raise UsageError(
                    f"the field {self._mapping.split!r} has more than {MAX_SPLITS} values, too many for split names",
                    hint="pass another field with `-O split=FIELD`, or no field with `-O split=`",
                )
        return _Counts(splits, without, first)

    def field_use(self) -> FieldUse:
        name = self._mapping.split
        counts = ", ".join(f"{split} {count:,}" for split, count in self._counts.splits.items())
        return FieldUse(name, "split", f"{counts or 'no row is in a split'}; json[{name}] keeps it")

    def findings(self) -> Iterator[Finding]:
        if self._counts.without:
            are = "row is" if self._counts.without == 1 else "rows are"
            yield Finding(
                code="WDS254",
                severity="warning",
                message=f"{self._counts.without:,} {are} in no split: the field "
                f"{path_for_message(self._mapping.split)!r} does not name one "
                f"(the first: {self._counts.first_without})",
                count=self._counts.without,
            )
