"""Render tables, labelled lines and findings, for all commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from wdsctl.cli.formatting import escape_line, format_count, relative_paths
from wdsctl.cli.output import LabelledLines
from wdsctl.core.codes import load_codes
from wdsctl.core.errors import SEVERITIES, Finding

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text


SEVERITY_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}


def make_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table without borders. A column whose name begins with `#` holds numbers and is right-aligned.

    On a narrow terminal the widest texts wrap first. Numbers, and columns whose name begins with `=`, wrap only if
    nothing else helps; nothing is cut (`output.fit_table`).
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        is_number = column.startswith("#")
        table.add_column(
            escape_line(column.lstrip("#=")),
            justify="right" if is_number else "left",
            no_wrap=is_number or column.startswith("="),
            overflow="fold",
        )
    for row in rows:
        table.add_row(*map(escape_line, row))
    return table


def make_table_without_empty(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """`make_table` without the columns that are empty in every row."""
    filled = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    return make_table([columns[i] for i in filled], [[row[i] for i in filled] for row in rows])


def labelled_lines(rows: Iterable[tuple[str, RenderableType]], gap: int = 2) -> LabelledLines:
    """Lines `label  text`; a long text continues below itself. `gap`: spaces after the longest label."""
    return LabelledLines(
        [(label, escape_line(text) if isinstance(text, str) else text) for label, text in rows], gap=gap
    )


def sort_by_severity(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: -SEVERITIES.index(finding.severity))


def count_severities(findings: Sequence[Finding]) -> str:
    """`2 errors, 1 warning, 12 notes`, or `nothing wrong`."""
    counts = {severity: sum(f.count for f in findings if f.severity == severity) for severity in reversed(SEVERITIES)}
    return ", ".join(format_count(n, severity) for severity, n in counts.items() if n) or "nothing wrong"


def finding_lines(findings: Iterable[Finding]) -> Iterator[RenderableType]:
    """Render findings like errors: code, title and count, then the first location and the message."""
    for finding in findings:
        yield _finding_heading(finding, finding.count)
        yield _location_line(finding)


#: Of a dataset, and of each sample: rendering a table of thousands of rows takes minutes.
PARTS_SHOWN = 100


def more_parts(parts: int) -> Iterator[str]:
    """The line that follows the parts that are shown, if there are more."""
    if parts > PARTS_SHOWN:
        yield f"... and {format_count(parts - PARTS_SHOWN)} more (--json lists them all)"


def more_findings_line(rest: Sequence[Finding], where: str) -> str:
    """`... and 495 more (--json lists them all)`, for findings that are not shown. `where`: what lists them.

    A finding may count several places and names only the first one.
    """
    if all(each.count == 1 for each in rest):
        lists = f" ({where} lists them all)"
    else:
        lists = f" ({where} lists more of them)" if len(rest) > 1 else ""
    return f"... and {format_count(sum(each.count for each in rest))} more{lists}"


def grouped_finding_lines(findings: Sequence[Finding], shown: Sequence[Finding]) -> Iterator[RenderableType]:
    """Render the `shown` ones of the findings: a heading per code and severity, then each location and message."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in shown:
        groups.setdefault((finding.severity, finding.code), []).append(finding)
    entries, counts = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for finding in findings:
        entries[finding.severity, finding.code] += 1
        counts[finding.severity, finding.code] += finding.count
    for kind, group in groups.items():
        yield _finding_heading(group[0], counts[kind])
        for finding in group:
            yield _location_line(finding, with_count=entries[kind] > 1)


def _location_line(finding: Finding, *, with_count: bool = False) -> RenderableType:
    message = "" if finding.message == finding_title(finding) else finding.message
    line = ": ".join(filter(None, (finding_location(finding), message)))
    return labelled_lines([("-->", relative_paths(f"{line}{_times(finding.count) if with_count else ''}"))], gap=1)


def finding_title(finding: Finding) -> str:
    """The title of a finding's code, or its message if the code is unknown."""
    return load_codes()[finding.code].title if finding.code in load_codes() else escape_line(finding.message)


def finding_location(finding: Finding) -> str:
    """`train-000017.tar (byte 73,822,720), sample a/0042, part jpg`."""
    parts = []
    if finding.shard:
        byte = f" (byte {format_count(finding.offset)})" if finding.offset is not None else ""
        parts.append(f"{escape_line(finding.shard)}{byte}")
    if finding.key:
        parts.append(f"sample {escape_line(finding.key)}")
    if finding.part:
        parts.append(f"part {escape_line(finding.part)}")
    return ", ".join(parts)


def _finding_heading(finding: Finding, count: int) -> Text:
    from rich.text import Text

    return Text.assemble(
        (f"{finding.severity}[{finding.code}]", SEVERITY_STYLES[finding.severity]),
        f": {finding_title(finding)}{_times(count)}",
    )


def _times(count: int) -> str:
    return f" ({format_count(count)} times)" if count > 1 else ""


def consent_lines(consents: Sequence[str]) -> Iterator[str]:
    """A line with the consents that a command needed, as options, whether they were passed or `--yes` gave them."""
    if consents:
        yield f"consents used: {', '.join(f'--{each}' for each in consents).replace('_', '-')}"
