"""What is said of a column: how it stands, and what its numbers are like."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from wdsctl.core.command_line import command_at
from wdsctl.core.errors import CatalogError, PermissionDenied, StorageError
from wdsctl.core.findings import Finding
from wdsctl.core.place import Place

if TYPE_CHECKING:
    from wdsctl.core.columns import Column, ColumnFacts

State = Literal["made", "current", "outdated", "incomplete", "dropped", "would be made", "would be dropped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReport:
    """One column as it is now. Numbers are None where no values are in force for `generation`, or no samples.

    `incomplete`: samples have no value, and nothing was published; what had been worked out is kept for the next run.
    """

    name: str
    function: str
    state: State
    generation: int | None  # that it is there for; of one that is outdated, an earlier one
    shards_read: int = 0
    samples: int = 0
    failed: int = 0  # samples without a value: they have 0, or the column is incomplete
    min: int | None = None
    mean: float | None = None
    p50: int | None = None
    p99: int | None = None
    max: int | None = None
    total: int | None = None


def report_of(facts: ColumnFacts, state: State) -> ColumnReport:
    summary = facts.summary
    report = ColumnReport(
        name=facts.name,
        function=facts.function,
        state=state,
        generation=facts.generation,
        samples=facts.samples,
        failed=facts.failed,
    )
    if summary is None:
        return report
    return replace(
        report,
        min=summary.min,
        mean=summary.total / facts.samples,
        p50=summary.p50,
        p99=summary.p99,
        max=summary.max,
        total=summary.total,
    )


def column_reports(place: Place, generation: int, digest: str) -> tuple[list[ColumnReport], list[Finding]]:
    """The columns that there are, for a reader: from their headers. Damaged ones are findings.

    `digest`: names the shards of `generation`. Cost: some headers, whatever the number of shards.
    """
    if not os.path.isdir(place.columns):
        return [], []
    from wdsctl.core.columns import column_path, kept_columns

    reports, findings = [], []
    for name, generations in kept_columns(place).items():
        newest = max((each for each in generations if each <= generation), default=generations[-1])
        column = readable(column_path(place, name, newest))
        if isinstance(column, Finding):
            findings.append(column)
            continue
        is_current = newest == generation and column.facts.shards == digest
        reports.append(report_of(column.facts, "current" if is_current else "outdated"))
    return reports, findings


def readable(path: str) -> Column | Finding:
    from wdsctl.core.columns import read_column

    try:
        return read_column(path)
    except (CatalogError, StorageError, PermissionDenied) as error:
        return Finding(code=error.code, severity="error", message=f"{error.message} ({error.where}); {error.hint}")


def outdated(place: Place, facts: ColumnFacts) -> Finding:
    command = command_at(place, "index", "--column", f"{facts.name}={facts.function}")
    from wdsctl.core.column_spec import parse_spec

    runs = "" if parse_spec(facts.function).is_built_in else f", and runs {facts.function}, which the dataset names"
    return Finding(
        code="WDS314",
        severity="warning",
        message=f"column {facts.name}, made for generation {facts.generation}: {command} brings it up to date{runs}",
    )
