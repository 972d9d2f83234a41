"""`wdsctl checkpoint`: loader states in checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wdsctl.cli import options
from wdsctl.cli.formatting import display_path, escape_line, format_count, format_size
from wdsctl.cli.tables import labelled_lines, make_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.checkpoint.checkpoint import (
        CheckpointDiffReport,
        CheckpointInfoReport,
        RedistributeReport,
        StateEntry,
    )
    from wdsctl.core.checkpoint.summary import LaneDifference, StateFacts


HELP = "Inspect, redistribute and compare saved loader states."

EPILOG = """
\b
Examples:
  wdsctl checkpoint info ckpt/                     a folder of rank files
  wdsctl checkpoint redistribute ckpt/ state.json  one file for any ranks
  wdsctl checkpoint diff step100/ step200/

\b
Reads JSON and torch.save files with the state anywhere inside. Runs no code
from them.
"""

INFO_EPILOG = """
\b
Examples:
  wdsctl checkpoint info loader.json
  wdsctl checkpoint info ckpt/loader_rank*.pt
  wdsctl checkpoint info last.ckpt --key train --json
"""

REDISTRIBUTE_EPILOG = """
\b
Examples:
  wdsctl checkpoint redistribute ckpt/*.pt state.json
  wdsctl checkpoint redistribute ckpt/*.pt new/ --ranks 6
  wdsctl checkpoint redistribute ckpt/ 'new/loader{rank:02}.json' --ranks 6
  wdsctl checkpoint redistribute ckpt/iter_0000100 --ranks 6 --in-place

\b
Every rank of a job of any size can resume from the merged state. With
--ranks, each rank gets an identical copy, in a file named after the rank.
Output files named .pt, .pth, .ckpt or .bin are torch.save files, others JSON.
"""

DIFF_EPILOG = """
\b
Examples:
  wdsctl checkpoint diff step100.json step200.json
  wdsctl checkpoint diff step100/ step200/ --json

\b
Exits with 1 if the states differ.
"""

FilesArgument = Annotated[
    list[str], typer.Argument(metavar="FILES", help="Files of a checkpoint, or folders that contain them.")
]
KeyOption = Annotated[
    str, typer.Option("--key", metavar="NAME", help="Read only states under this key, if a file has several.")
]


def info(files: FilesArgument, *, key: KeyOption = "", common: options.CommonOptions) -> int:
    """Show saved states. Shows step, ranks, lanes, sizes, and which jobs can resume from them."""
    from wdsctl.core.checkpoint.checkpoint import inspect_checkpoint

    report = inspect_checkpoint(files, key=key)
    common.output.answer("checkpoint info", report, render_checkpoint_info)
    return 1 if report.problem else 0


def redistribute(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Files of a checkpoint, or their folder; then OUT: a file, or with --ranks a folder or pattern.",
        ),
    ],
    *,
    ranks: Annotated[
        int | None, typer.Option("--ranks", metavar="N", min=1, help="Write a file for each of N ranks.")
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Without OUT: replace the files by exactly N files with such names.")
    ] = False,
    key: KeyOption = "",
    force: options.ForceOption = False,
    dry_run: options.DryRunOption = False,
    common: options.CommonOptions,
) -> int:
    """Merge the states of all ranks, to resume on any number of ranks."""
    from wdsctl.core.checkpoint.checkpoint import redistribute_checkpoint
    from wdsctl.core.errors import UsageError

    *inputs, out = [*files, ""] if in_place else files
    if not inputs:
        raise UsageError(
            "missing OUT, the file or folder to write",
            hint=f"wdsctl checkpoint redistribute {out} NEW, or --ranks N --in-place",
        )
    report = redistribute_checkpoint(
        inputs, out, ranks=ranks or 0, in_place=in_place, key=key, force=force or common.yes, dry_run=dry_run
    )
    common.output.answer("checkpoint redistribute", report, render_redistribute, names=report.files)
    return 0


def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A checkpoint: a file or a folder.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another checkpoint.")],
    *,
    key: KeyOption = "",
    common: options.CommonOptions,
) -> int:
    """Compare two saved states. Compares order, recipe, ranks, steps and lanes."""
    from wdsctl.core.checkpoint.checkpoint import diff_checkpoints

    report = diff_checkpoints(first, second, key=key)
    common.output.answer("checkpoint diff", report, render_checkpoint_diff)
    return 0 if report.is_same else 1


group = options.make_group(
    ("info", info, INFO_EPILOG),
    ("redistribute", redistribute, REDISTRIBUTE_EPILOG),
    ("diff", diff, DIFF_EPILOG),
)


#: Entries listed; --json has all.
STATES_SHOWN = 20
LANES_SHOWN = 16
WORLDS_SHOWN = 12


def render_checkpoint_info(report: CheckpointInfoReport) -> Iterator[RenderableType]:
    yield make_table(
        ("file", "key", "#rank", "#of", "#step", "#lanes", "#pending", "#size", "#budget"),
        [_row(line) for line in report.states[:STATES_SHOWN]],
    )
    if len(report.states) > STATES_SHOWN:
        yield f"... and {format_count(len(report.states) - STATES_SHOWN)} more (--json lists them all)"
    for line in report.states:
        if line.problem:
            yield f"{display_path(line.path)}: {escape_line(line.problem)}"
    for passed in report.passed_over:
        yield f"skipped {display_path(passed.path)}: {escape_line(passed.why)}"
    yield ""
    if report.job is not None:
        yield labelled_lines(_facts(report.job))
        yield ""
    yield _verdict(report)


def render_redistribute(report: RedistributeReport) -> Iterator[RenderableType]:
    would = "would write" if report.dry_run else "wrote"
    states = "a merged state" if report.states == 1 and report.world > 1 else format_count(report.states, "state")
    yield (
        f"{states} of {format_count(report.world, 'rank')} at step {format_count(report.step)}: {would} "
        f"{format_size(report.size_bytes)} to"
    )
    yield labelled_lines([(display_path(name), "") for name in report.files[:STATES_SHOWN]])
    if len(report.files) > STATES_SHOWN:
        yield f"... and {format_count(len(report.files) - STATES_SHOWN)} more (--json lists them all)"
    if report.removed:
        would = "would remove" if report.dry_run else "removed"
        yield f"{would} {format_count(len(report.removed), 'file')} of ranks that no longer exist"
    if not report.ranks:
        yield "every rank of a job of any size can resume from it"
    elif report.splits_into == report.lanes:
        yield f"the files are identical: {format_count(report.ranks, 'rank')} resume with the same global batches"
    else:
        yield (
            f"the files are identical: on {format_count(report.ranks, 'rank')}, "
            f"{format_count(report.lanes, 'lane')} are split into {format_count(report.splits_into)}; no sample is "
            "repeated or missed, but batches are composed differently"
        )


def render_checkpoint_diff(report: CheckpointDiffReport) -> Iterator[RenderableType]:
    if report.is_same:
        yield "the states are identical"
        return
    for tier, lines, meaning in (
        ("order", report.order, "a job with one order refuses the state of the other"),
        ("recipe", report.recipe, "a job resumes from the other state, with different batches"),
        ("place", report.place, "which rank saved the state, and its lanes: no effect on resuming"),
        ("bans", report.bans, "excluded samples"),
    ):
        if lines:
            yield f"{tier} ({meaning})"
            yield labelled_lines([(line, "") for line in map(escape_line, lines)])
    yield f"steps: {_step_difference(report.steps)}"
    if report.lanes:
        yield ""
        yield from _lanes(report.lanes)


def _lanes(lanes: tuple[LaneDifference, ...]) -> Iterator[RenderableType]:
    yield make_table(
        ("#lane", "#first", "#second", "#difference"),
        [
            (str(lane.lane), _format_draws(lane.draws), _format_draws(lane.other), _distance(lane.draws, lane.other))
            for lane in lanes[:LANES_SHOWN]
        ],
    )
    if len(lanes) > LANES_SHOWN:
        yield f"... and {format_count(len(lanes) - LANES_SHOWN)} more (--json lists them all)"


def _row(line: StateEntry) -> tuple[str, ...]:
    facts = line.facts
    if facts is None:
        return (display_path(line.path), line.key, *["?"] * 7)
    return (
        display_path(line.path),
        line.key,
        "all" if facts.rank < 0 else str(facts.rank),
        str(facts.world),
        format_count(facts.step),
        format_count(facts.lanes),
        format_count(facts.pending),
        format_size(facts.size_bytes),
        format_size(facts.budget_bytes),
    )


def _facts(job: StateFacts) -> list[tuple[str, RenderableType]]:
    epochs = f", {job.epochs:.2f} epochs" if job.epochs is not None else ""
    kind = "validation" if job.order.get("validation") else "training"
    if job.pass_number is not None:
        kind += f", pass {format_count(job.pass_number)}{' (complete)' if job.is_over else ''}"
    begun = "" if job.roots == job.lanes else f", {format_count(job.roots)} at the start"
    stages = ", ".join(job.stages)
    generations = sorted(set(job.generations))
    facts: list[tuple[str, RenderableType]] = [
        ("job", f"{kind} of {format_count(job.world, 'rank')}, step {format_count(job.step)} (batches of all ranks)"),
        ("drawn", f"{format_count(job.draws, 'sample')}{epochs}"),
        ("lanes", f"{format_count(job.lanes)}{begun}"),
        ("sources", f"{format_count(job.sources)}, generation {', '.join(map(str, generations))}"),
        ("buffered", f"{format_count(job.pending, 'position')}{f' in {stages}' if stages else ''}"),
        ("banned", format_count(job.bans, "sample")),
        ("order", ", ".join(f"{name} {_shorten(value)}" for name, value in job.order.items() if value != "")),
        ("recipe", job.recipe),
    ]
    return facts if job.lanes else [fact for fact in facts if fact[0] not in {"drawn", "lanes", "buffered"}]


def _verdict(report: CheckpointInfoReport) -> str:
    if report.problem:
        return f"a job cannot resume from these states together: {escape_line(report.problem)}"
    if report.job is None or not report.job.lanes:
        return "any number of ranks can resume"
    shown = ", ".join(map(str, report.alike[:WORLDS_SHOWN]))
    more = ", ..." if len(report.alike) > WORLDS_SHOWN else ""
    return f"any number of ranks can resume; with the same global batches: {shown}{more}"


def _shorten(value: Any) -> str:
    text = f"[{len(value)}]" if isinstance(value, list) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _step_difference(steps: int) -> str:
    if not steps:
        return "the same"
    return f"the second state is {format_count(abs(steps), 'step')} {'ahead' if steps > 0 else 'behind'}"


def _format_draws(draws: int | None) -> str:
    return "none" if draws is None else format_count(draws)


def _distance(first: int | None, second: int | None) -> str:
    return "" if first is None or second is None else f"{second - first:+,}"
