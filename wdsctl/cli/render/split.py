"""Which split got how much, what moved, and what is in two splits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, path, safe, share, size
from wdsctl.cli.render.pieces import finding_lines, table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wdsctl.core.catalog.totals import SplitCount
    from wdsctl.core.verbs.split_export import ExportReport
    from wdsctl.core.verbs.split_leaks_report import LeaksReport
    from wdsctl.core.verbs.split_report import Move, SplitReport, SplitsReport, StratumLine

SHOWN = 10  # strata, pairs


def render(report: SplitReport) -> Iterator[RenderableType]:
    would = "would be " if report.dry_run else ""
    if report.splits:
        yield f"{path(report.root)}: {would}split {rule(report)}"
        yield splits_table(report.splits)
        if report.excluded:
            yield f"{count(report.excluded, 'sample')} excluded from all splits"
    else:
        yield f"{path(report.root)}: {_changed(report)}"
    if report.strata:
        yield ""
        yield from strata_lines(report)
    yield from moved_lines(report)


def _changed(report: SplitReport) -> str:
    """What there is to say where no set was made: sets were dropped, or excludes changed."""
    names = ", ".join(name or "(without a name)" for name in report.sets)
    sets = "set" if len(report.sets) == 1 else "sets"
    dropped = f"{sets} {names} {'would be dropped' if report.dry_run else 'dropped'}" if names else ""
    if dropped and not report.excluded:
        return dropped
    number = count(report.excluded, "sample") if report.excluded else "no sample"
    be = "would be excluded" if report.dry_run else f"{'is' if report.excluded < 2 else 'are'} excluded now"
    if dropped:
        return f"{dropped}; {number} {be}"
    if any(move.before and move.after for move in report.moved):
        return f"{number} {be}"
    other = "no other sample" if report.moved else "no sample"
    return f"{number} {be}; {other} {'would change' if report.dry_run else 'changed'} its split"


def moved_lines(report: SplitReport) -> Iterator[RenderableType]:
    """Which samples change their split, and how many of them need --yes."""
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
    yield table(
        ("from", "to", "#samples", "such as"),
        [
            (safe(each.before or "(none)"), safe(each.after or "(none)"), count(each.samples), _keys(each))
            for each in moves
        ],
    )
    if between and report.dry_run:
        samples = count(sum(between.values()), "sample")
        yield f"{samples} would leave their split, which needs --yes (wdsctl explain WDS238)"


def rule(report: SplitReport) -> str:
    """`by shard, seed 0`."""
    return report.rule or f"by {report.by}, seed {report.seed}"


def splits_table(splits: Sequence[SplitCount]) -> Table:
    """The shares are what came out; what was asked for is in dataset.yaml."""
    totals: dict[str, int] = {}
    for split in splits:
        totals[_set(split.name)] = totals.get(_set(split.name), 0) + split.samples
    rows = [
        (split.name, share(split.samples / (totals[_set(split.name)] or 1)), count(split.shards), count(split.samples))
        for split in splits
    ]
    return table(("split", "#share", "#shards", "#samples"), rows)


def strata_lines(report: SplitReport) -> Iterator[RenderableType]:
    """The strata that miss their shares by most."""
    lines = report.strata[:SHOWN]
    names = list(lines[0].splits)
    noun = "stratum" if len(report.strata) == 1 else "strata"
    yield f"{count(len(report.strata))} {noun}, largest drift {share(report.drift)}"
    yield table(
        ("stratum", "#samples", *(f"#{name}" for name in names), "#drift"), [_row(each, names) for each in lines]
    )
    if len(report.strata) > len(lines):
        yield f"... and {count(len(report.strata) - len(lines))} more (--json has them all)"


def render_sets(report: SplitsReport) -> Iterator[RenderableType]:
    if not report.sets:
        yield f"{path(report.root)}: no splits yet (wdsctl split {path(report.root)} 8,1,1 makes some)"
    for each in report.sets:
        name = f"set {safe(each.name)}, " if each.name else ""
        yield f"{path(report.root)}: {name}split {each.rule}"
        yield splits_table(each.splits)
        if each.without:
            yield f"{count(each.without, 'sample')} in none of them"
    if report.excluded:
        yield f"{count(report.excluded, 'sample')} excluded from all splits"
    for what, entries in report.excludes.items():
        more = f" and {count(len(entries) - 3)} more" if len(entries) > 3 else ""
        yield f"  {what.replace('_', ' ')}: {safe(', '.join(entries[:3]))}{more}"
    if report.quarantine:
        yield f"  in quarantine: {count(report.quarantine, 'finding')}"


def render_export(report: ExportReport) -> Iterator[RenderableType]:
    if not report.path:
        yield report.text.rstrip("\n")
        return
    shards = ", ".join(f"{safe(name)} {count(number, 'shard')}" for name, number in report.splits.items())
    yield f"{path(report.path)}: {shards}, {count(report.excluded)} left out"


def render_leaks(report: LeaksReport) -> Iterator[RenderableType]:
    yield from finding_lines(report.findings)
    if report.pairs:
        yield ""
        yield table(
            ("split", "sample", "split", "sample"),
            [(each.one_split, each.one, each.other_split, each.other) for each in report.pairs[:SHOWN]],
        )
        if len(report.pairs) > SHOWN:
            yield f"... and {count(len(report.pairs) - SHOWN)} more (--json has them)"
        yield ""
    what = ", ".join(report.parts) or "whole samples"
    said = "nothing is in two splits" if not report.counts else "the same content is in several splits"
    yield f"{path(report.root)}: {said}"
    read = f"read {count(report.hashed)} of them ({size(report.size_bytes)})"
    yield f"  compared {safe(what)} of {count(report.samples, 'sample')}, {read}"


def _keys(move: Move) -> str:
    return safe(", ".join(move.keys[:1]))


def _row(line: StratumLine, names: Sequence[str]) -> tuple[str, ...]:
    counts = (count(line.splits.get(name, 0)) for name in names)
    return (line.stratum or "(no value)", count(line.samples), *counts, share(line.drift))


def _set(name: str) -> str:
    return name.rpartition("/")[0]
