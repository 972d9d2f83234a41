"""Writes docs/benchmarks.md from the results file: `python -m benchmarks.report`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.places import REPORT, RESULTS
from benchmarks.results import Entry, Row, Subject, load_subjects
from benchmarks.targets import TARGETS, Target, judge
from benchmarks.wording import COLUMNS, INTRODUCTION, NOTES, SUBJECTS, Column


def write_report(results: Path = RESULTS, report: Path = REPORT) -> None:
    """One section a subject, in the order of SUBJECTS; subjects that were not measured are left out."""
    measured = load_subjects(results)
    lines = [INTRODUCTION]
    for name in SUBJECTS:
        if name in measured:
            lines += _section(measured[name])
    lines.append(NOTES)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text("\n".join(lines))


def _section(subject: Subject) -> Iterator[str]:
    title, text = SUBJECTS[subject.name]
    yield f"## {title}\n\n{text}"
    yield f"{_machine(subject)}\n"
    yield from _targets(subject)
    for row in subject.rows:
        yield from _row(subject.name, row)


def _machine(subject: Subject) -> str:
    machine = subject.machine
    wdsctl_packages, peer_packages = (_packages(subject.versions[side]) for side in ("ours", "peers"))
    return (
        f"Measured on {subject.date}: {machine['cpu']}, {machine['cores']} cores, {machine['memory']} of memory, "
        f"{machine['system']}, Python {machine['python']}. Versions: {wdsctl_packages}."
        f"{f' Versions of the other tools: {peer_packages}.' if peer_packages else ''}"
    )


def _packages(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version != "absent")


def _targets(subject: Subject) -> Iterator[str]:
    rows = {row.title: row for row in subject.rows}
    targets = [target for target in TARGETS if target.subject == subject.name and target.row in rows]
    table = [
        (target.row, target.entry, _figure_words(target.figure), target.words, *_verdict(target, rows[target.row]))
        for target in targets
    ]
    if table:
        yield from _table(("benchmark", "wdsctl", "figure", "target", "measured", "result"), table)


def _figure_words(figure: str) -> str:
    names = {"tree_peak_bytes": "memory of all processes", "wall_seconds": "elapsed time"}
    return names.get(figure, figure.replace("_a_", "_per_").replace("_", " "))


def _verdict(target: Target, row: Row) -> tuple[str, str]:
    verdict = judge(target, row)
    return (verdict.measured, "met" if verdict.is_met else "missed") if verdict else ("", "not measured")


def _row(subject: str, row: Row) -> Iterator[str]:
    columns = [column for column in COLUMNS[subject] if any(column.figure in entry.median for entry in row.entries)]
    yield f"### {row.title[0].upper()}{row.title[1:]}\n"
    first = row.entries[0]
    leading = next(column for column in columns if all(column.figure in entry.median for entry in row.entries))
    heads = ["", *(column.head for column in columns), f"advantage of {first.name}"]
    yield from _table(heads, [[*_cells(entry, columns), _ratio(entry, first, leading)] for entry in row.entries])
    yield f"{_rounds(len(first.rounds))}\n\n```"
    yield from (entry.command for entry in row.entries)
    yield "```\n"


def _rounds(count: int) -> str:
    return "Measured in one round." if count == 1 else f"Medians of {count} rounds."


def _cells(entry: Entry, columns: Sequence[Column]) -> list[str]:
    return [entry.name, *(column.cell(entry.median) for column in columns)]


def _ratio(entry: Entry, first: Entry, leading: Column) -> str:
    """How many times better the first entry is, by the leading column: the first one that all entries have."""
    if entry is first:
        return ""
    first_value, value = first.median[leading.figure], entry.median[leading.figure]
    return f"{first_value / value if leading.is_rate else value / first_value:.2f} times"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


if __name__ == "__main__":
    write_report()
