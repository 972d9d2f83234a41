"""What several answers are made of: tables, labelled lines, findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, relative, safe
from wdsctl.cli.labelled import Labelled
from wdsctl.core.codes import CODES
from wdsctl.core.findings import SEVERITIES, Finding

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table without lines. A column whose name begins with `#` holds figures: right-aligned, never wrapped; one whose
    name begins with `=` is not wrapped either. Where a terminal has no room for it, its rows are lists.
    """
    from wdsctl.cli.render.fitted import Fitted

    drawn = Fitted(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        is_figure = column.startswith("#")
        drawn.add_column(
            safe(column.lstrip("#=")),
            justify="right" if is_figure else "left",
            no_wrap=is_figure or column.startswith("="),
            overflow="fold",
        )
    for row in rows:
        drawn.add_row(*map(safe, row))
    return drawn


def without_empty(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """The same without the columns that have nothing in any row."""
    filled = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    return table([columns[i] for i in filled], [[row[i] for i in filled] for row in rows])


def labelled(rows: Iterable[tuple[str, RenderableType]], gap: int = 2) -> Labelled:
    """`label  text`, where the text wraps below itself."""
    return Labelled([(label, safe(text) if isinstance(text, str) else text) for label, text in rows], gap)


def gravest_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: -SEVERITIES.index(finding.severity))


def tally_of_severities(findings: Sequence[Finding]) -> str:
    """`2 errors, 1 warning, 12 notes`, or `nothing wrong`."""
    counts = {severity: sum(f.count for f in findings if f.severity == severity) for severity in reversed(SEVERITIES)}
    return ", ".join(count(n, severity) for severity, n in counts.items() if n) or "nothing wrong"


def finding_lines(findings: Iterable[Finding]) -> Iterator[RenderableType]:
    """In the shape of errors: what kind, how often, where the first of them is, and what exactly."""
    for finding in findings:
        yield _head(finding)
        message = "" if finding.message == title(finding) else finding.message
        yield labelled([("-->", relative(": ".join(filter(None, (where(finding), message)))))], gap=1)


def title(finding: Finding) -> str:
    """What kind of finding it is."""
    return CODES[finding.code].title if finding.code in CODES else safe(finding.message)


def where(finding: Finding) -> str:
    """`train-000017.tar (byte 73,822,720), sample a/0042, part jpg`."""
    parts = []
    if finding.shard:
        byte = f" (byte {count(finding.offset)})" if finding.offset is not None else ""
        parts.append(f"{safe(finding.shard)}{byte}")
    if finding.key:
        parts.append(f"sample {safe(finding.key)}")
    if finding.part:
        parts.append(f"part {safe(finding.part)}")
    return ", ".join(parts)


def _head(finding: Finding) -> Text:
    from rich.text import Text

    times = f" ({count(finding.count)} times)" if finding.count > 1 else ""
    return Text.assemble(
        (f"{finding.severity}[{finding.code}]", STYLES[finding.severity]),
        f": {title(finding)}{times}",
    )
