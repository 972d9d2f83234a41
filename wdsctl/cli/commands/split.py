"""`wdsctl split`: assign samples to train, val and test, and show, export and check the splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options
from wdsctl.cli.declared import takes
from wdsctl.cli.formatting import (
    display_path,
    escape_line,
    format_count,
    format_share,
    format_size,
    shell_argument,
)
from wdsctl.cli.tables import consent_lines, finding_lines, make_table
from wdsctl.core.errors import OptionConflict, UsageError
from wdsctl.core.split.request import SplitCommand, SplitRequest, parse_split_request

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wdsctl.core.catalog.totals import SplitCount
    from wdsctl.core.split.leaks import LeaksReport
    from wdsctl.core.split.report import SplitExportReport, SplitSetsReport
    from wdsctl.core.split.split import SplitReport


EPILOG = """
\b
Examples:
  wdsctl split shards/ 8,1,1                        train, val, test
  wdsctl split shards/ train=0.99,val=0.01 --by key
  wdsctl split shards/ 98,1,1 --by sample --dry-run
  wdsctl split shards/ 8,1,1 --group-by json:video_id
  wdsctl split shards/ 8,2 --stratify part:cls
  wdsctl split shards/ 8,2 --group-by json:video_id --stratify part:cls
  wdsctl split shards/ --pattern train='a-{000..799}.tar' --rest val
  wdsctl split shards/ --keys val=val.txt --rest train --set papers
  wdsctl split shards/ --by-value json:split        the field names the split
  wdsctl split shards/ --exclude-code WDS106
  wdsctl split shards/ --leaks jpg                  exit with 1 if leaks exist
  wdsctl split shards/                              show the splits

\b
Splits of a set are named SET/NAME, such as split_part="papers/train".
VALUE is json:FIELD, part:NAME, key:REGEX or column:NAME.
"""


@takes(SplitCommand)
def command(
    passed: SplitCommand,
    *,
    export: Annotated[
        str, typer.Option("--export", metavar="FILE", help="Write a split.yaml of Energon (- for stdout).")
    ] = "",
    leaks: Annotated[
        str | None,
        typer.Option("--leaks", metavar="[PARTS]", help="Find content that is in several splits. [no value: media]"),
    ] = None,
    common: options.CommonOptions,
) -> int:
    """Assign samples to splits such as train, val and test. Does not modify shards."""
    root, catalog, dry_run = options.primary_or_root(passed.root), passed.catalog, passed.dry_run
    request = parse_split_request(passed.options)
    split_set = request.split_set
    if request.is_query:
        if export and leaks is not None:
            raise OptionConflict(
                "--export and --leaks exclude each other",
                options=("--export", "--leaks"),
                are_exclusive=True,
                hint="pass only one of them",
            )
        if dry_run and export not in ("", "-"):
            raise UsageError(
                "--export FILE writes a file, which --dry-run forbids", hint="`--export -` prints the file instead"
            )
        if leaks is not None:
            return _find_leaks(root, leaks, request, catalog, common)
        if export:
            return _export(root, export, split_set, catalog, common)
        return _show(root, split_set, catalog, common)
    if export or leaks is not None:
        name = "--export" if export else "--leaks"
        raise OptionConflict(
            f"{name} cannot be combined with new splits",
            options=(name,),
            hint="create the splits first, then run `wdsctl split` with this option alone",
        )
    if request.drop and not (split_set or dry_run or common.yes):
        _confirm_drop(root, request, catalog, common)
    return _make_splits(root, request, catalog, common, wait=passed.wait, dry_run=dry_run)


def _confirm_drop(root: str, request: SplitRequest, catalog: str | None, common: options.CommonOptions) -> None:
    """Ask before deleting the default set and its rule. Raises UsageError unless the user agrees."""
    from wdsctl.cli.formatting import display_path
    from wdsctl.cli.prompts import TerminalPrompter, may_ask
    from wdsctl.core.split.split import split_dataset

    report = split_dataset(root, request, catalog=catalog, dry_run=True)
    names = ", ".join(sorted({move.before for move in report.moved if not move.after})) or "the splits"
    if not may_ask(common):
        raise UsageError(
            f"--drop without --set deletes the splits {names}, and needs --yes",
            where=report.root,
            hint="pass `--dry-run` to see the effect, or --set SET to delete another set",
        )
    question = f"delete the splits {names} of {display_path(report.root)} and their rule?"
    if not TerminalPrompter().confirm(question, default=False):
        raise UsageError("answered no: no split was deleted", hint="pass --set SET to delete another set")


def _make_splits(
    root: str, request: SplitRequest, catalog: str | None, common: options.CommonOptions, *, wait: float, dry_run: bool
) -> int:
    from dataclasses import replace

    from wdsctl.cli.progress import show_progress
    from wdsctl.cli.prompts import TerminalPrompter, may_ask
    from wdsctl.core.split.split import SamplesWouldMoveError, split_dataset

    def run(request: SplitRequest) -> SplitReport:
        with show_progress(common.output) as progress:
            return split_dataset(root, request, catalog=catalog, wait=wait, dry_run=dry_run, progress=progress)

    try:
        report = run(replace(request, allow_split_changes=request.allow_split_changes or common.yes))
    except SamplesWouldMoveError as error:
        if not may_ask(common):
            raise
        common.output.warn(*render_moves(error.report))
        if not TerminalPrompter().confirm("move them?", default=False):
            hint = "pass `--set NAME` to create another split set and keep this one"
            raise UsageError("answered no: no sample was moved", hint=hint) from None
        report = run(replace(request, allow_split_changes=True))
    common.output.answer("split", report, render_split, names=(each.name for each in report.splits))
    return 0


def _show(root: str, split_set: str, catalog: str | None, common: options.CommonOptions) -> int:
    from wdsctl.core.split.report import show_splits

    report = show_splits(root, split_set=split_set, catalog=catalog)
    splits = [each for split_set_summary in report.sets for each in split_set_summary.splits]
    common.output.answer("split", report, render_sets, names=(each.name for each in splits))
    return 0


def _export(root: str, export: str, split_set: str, catalog: str | None, common: options.CommonOptions) -> int:
    from wdsctl.core.split.report import export_split

    path = "" if export == "-" else export
    report = export_split(root, path, split_set=split_set, catalog=catalog, overwrite=common.yes)
    common.output.answer(
        "split", report, render_split_export, names=[report.path] if path else None, is_explicit=not path
    )
    return 0


def _find_leaks(
    root: str, leaks: str, request: SplitRequest, catalog: str | None, common: options.CommonOptions
) -> int:
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.invocation import parse_part_names
    from wdsctl.core.split.leaks import find_leaks

    parts = () if leaks == "auto" else parse_part_names(leaks)
    with show_progress(common.output) as progress:
        report = find_leaks(
            root,
            parts,
            split_set=request.split_set,
            catalog=catalog,
            workers=request.workers,
            progress=progress,
        )
    common.output.answer("split", report, render_leaks)
    return 1 if report.findings else 0


ROWS_SHOWN = 10  # strata, pairs


def render_split(report: SplitReport) -> Iterator[RenderableType]:
    would = "would be " if report.dry_run else ""
    if report.splits:
        yield f"{display_path(report.root)}: {would}split {rule_text(report)}"
        yield splits_table(report.splits)
        if report.excluded:
            yield f"{format_count(report.excluded, 'sample')} excluded from all splits"
        yield from finding_lines(report.findings)
    else:
        yield f"{display_path(report.root)}: {_changed_text(report)}"
    if report.strata:
        yield ""
        yield from render_strata(report)
    yield from render_moves(report)
    yield from consent_lines(report.consents)


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
    """The samples that change their split, and how many of them need --allow-split-changes."""
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
        yield f"{samples} would leave their split, which needs --allow-split-changes (wdsctl explain WDS238)"


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
        command = f"wdsctl split {shell_argument(report.root)} 8,1,1"
        yield f"{display_path(report.root)}: no splits yet ({command} creates them)"
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
