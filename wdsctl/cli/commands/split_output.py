"""Renders the reports of `wdsctl split`: splits, strata, moved samples, leaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wdsctl.cli.formatting import display_path, escape_line, format_count, format_share, format_size
from wdsctl.cli.tables import finding_lines, make_table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wdsctl.core.catalog.values import SplitCount
    from wdsctl.core.split.leaks import LeaksReport
    from wdsctl.core.split.report import SplitExportReport, SplitReport, SplitSetsReport


ROWS_SHOWN = 10  # strata, pairs


def render_split(report: SplitReport) -> Iterator[RenderableType]:
    would = "would be " if report.dry_run else ""
    if report.splits:
        yield f"{display_path(report.root)}: {would}split {rule_text(report)}"
        yield splits_table(report.splits)
        if report.excluded:
            yield f"{format_count(report.excluded, 'sample')} excluded from all splits"
    else:
        yield f"{display_path(report.root)}: {_changed_text(report)}"
    if report.strata:
        yield ""
        yield from render_strata(report)
    yield from render_moves(report)


def _changed_text(report: SplitReport) -> str:
    """The outcome if no set was made: sets were dropped, or excludes changed."""
    names = ", ".join(name or "(default)" for name in report.sets)
    sets = "set" if len(report.sets) == 1 else "sets"
    dropped = f"{sets} {names} {'would be dropped' if report.dry_run else 'dropped'}" if names else ""
    if dropped and not report.excluded:
        return dropped
    number = format_count(report.excluded, "sample") if report.excluded else "no sample"
    be = "would be excluded" if report.dry_run else f"{'is' if report.excluded < 2 else 'are'} excluded now"
    if dropped:
        return f"{dropped}; {number} {be}"
    if any(move.before and move.after for move in report.moved):
        return f"{number} {be}"
    other = "no other sample" if report.moved else "no sample"
    return f"{number} {be}; {other} {'would change' if report.dry_run else 'changed'} its split"


def render_moves(report: SplitReport) -> Iterator[RenderableType]:
    """The samples that change their split, and how many of them need --yes."""
    between = {(move.before, move.after): move.samples for move in report.reassigned}
    others = [
        replace(move, samples=move.samples - between.get((move.before, move.after), 0))
        for move in report.moved
        if move.before or not report.splits
    ]
    moves = [*report.reassigned, *(move for move in others if move.samples > 0)]
    if not moves:
        return
    yield ""
    yield "would move:" if report.dry_run else "moved:"
    rows = [
        (
            escape_line(move.before or "(none)"),
            escape_line(move.after or "(none)"),
            format_count(move.samples),
            escape_line(", ".join(move.keys[:1])),
        )
        for move in moves
    ]
    yield make_table(("from", "to", "#samples", "such as"), rows)
    if between and report.dry_run:
        samples = format_count(sum(between.values()), "sample")
        yield f"{samples} would leave their split, which needs --yes (wdsctl explain WDS238)"


def rule_text(report: SplitReport) -> str:
    """`by shard, seed 0`."""
    return report.rule or f"by {report.by}, seed {report.seed}"


def splits_table(splits: Sequence[SplitCount]) -> Table:
    """Splits with their actual shares; dataset.yaml has the requested ones."""
    totals: Counter[str] = Counter()
    for split in splits:
        totals[split.name.rpartition("/")[0]] += split.samples
    rows = [
        (
            split.name,
            format_share(split.samples / (totals[split.name.rpartition("/")[0]] or 1)),
            format_count(split.shards),
            format_count(split.samples),
        )
        for split in splits
    ]
    return make_table(("split", "#share", "#shards", "#samples"), rows)


def render_strata(report: SplitReport) -> Iterator[RenderableType]:
    """The strata with the largest drift."""
    shown = report.strata[:ROWS_SHOWN]
    names = list(shown[0].splits)
    noun = "stratum" if len(report.strata) == 1 else "strata"
    yield f"{format_count(len(report.strata))} {noun}, largest drift {format_share(report.drift)}"
    rows = [
        (
            stratum.stratum or "(no value)",
            format_count(stratum.samples),
            *(format_count(stratum.splits.get(name, 0)) for name in names),
            format_share(stratum.drift),
        )
        for stratum in shown
    ]
    yield make_table(("stratum", "#samples", *(f"#{name}" for name in names), "#drift"), rows)
    if len(report.strata) > len(shown):
        yield f"... and {format_count(len(report.strata) - len(shown))} more (--json has them all)"


def render_sets(report: SplitSetsReport) -> Iterator[RenderableType]:
    if not report.sets:
        yield f"{display_path(report.root)}: no splits yet (wdsctl split {display_path(report.root)} 8,1,1 makes them)"
    for each in report.sets:
        name = f"set {escape_line(each.name)}, " if each.name else ""
        yield f"{display_path(report.root)}: {name}split {each.rule}"
        yield splits_table(each.splits)
        if each.without:
            yield f"{format_count(each.without, 'sample')} in no split of this set"
    if report.excluded:
        yield f"{format_count(report.excluded, 'sample')} excluded from all splits"
    for section, entries in report.excludes.items():
        more = f" and {format_count(len(entries) - 3)} more" if len(entries) > 3 else ""
        yield f"  {section.replace('_', ' ')}: {escape_line(', '.join(entries[:3]))}{more}"
    if report.quarantine:
        yield f"  in quarantine: {format_count(report.quarantine, 'finding')}"


def render_split_export(report: SplitExportReport) -> Iterator[RenderableType]:
    if not report.path:
        yield report.text.rstrip("\n")
        return
    shards = ", ".join(f"{escape_line(name)} {format_count(number, 'shard')}" for name, number in report.splits.items())
    yield f"{display_path(report.path)}: {shards}, {format_count(report.excluded)} left out"


def render_leaks(report: LeaksReport) -> Iterator[RenderableType]:
    yield from finding_lines(report.findings)
    if report.pairs:
        yield ""
        yield make_table(
            ("split", "sample", "split", "sample"),
            [(each.one_split, each.one, each.other_split, each.other) for each in report.pairs[:ROWS_SHOWN]],
        )
        if len(report.pairs) > ROWS_SHOWN:
            yield f"... and {format_count(len(report.pairs) - ROWS_SHOWN)} more (--json has them)"
        yield ""
    content = ", ".join(report.parts) or "whole samples"
    result = "some content is in several splits" if report.counts else "no content is in several splits"
    yield f"{display_path(report.root)}: {result}"
    read = f"read {format_count(report.hashed)} of them ({format_size(report.size_bytes)})"
    yield f"  compared {escape_line(content)} of {format_count(report.samples, 'sample')}, {read}"
