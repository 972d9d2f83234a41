"""`wdsctl inspect`: show what is in a dataset or a blend file, and render the summary.

`--help` needs no other command, so functions import them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from wdsctl.cli import errors, options
from wdsctl.cli.declared import takes
from wdsctl.cli.formatting import (
    display_path,
    escape_line,
    format_count,
    format_field_map,
    format_share,
    format_size,
    relative_paths,
)
from wdsctl.cli.tables import (
    PARTS_SHOWN,
    SEVERITY_STYLES,
    finding_lines,
    labelled_lines,
    make_table,
    more_findings_line,
    more_parts,
)
from wdsctl.core.dataset.location import ENERGON_META_FOLDER, shell_command
from wdsctl.core.inspect.request import InspectedKind, InspectRequest, inspect_requested

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wdsctl.core.inspect.blend import BlendProblem, BlendReport, BlendSplit
    from wdsctl.core.inspect.blend_tree import BlendNode
    from wdsctl.core.inspect.inspect import InspectReport, SampleSummary


EPILOG = """
\b
Examples:
  wdsctl inspect shards/                     counts, parts, splits, shards
  wdsctl inspect shards/ --samples 3         the first samples, with pictures
  wdsctl inspect shards/ --random 5 --seed 1 --split val
  wdsctl inspect shards/ --key 000042        one sample
  wdsctl inspect shards/ --stats             histograms
  wdsctl inspect blend.yaml --samples 1e6    the datasets of a blend
  wdsctl inspect shards/ --json | jq '.parts[].name'

\b
The summary comes from the catalog and takes the same time for any number of
samples. --stats takes sizes and media facts from the catalog, and reads 1,000
samples, or --random N, for text, JSON and other parts.
"""

ImageProtocolName = Literal["auto", "blocks", "kitty", "iterm", "sixel", "none"]
ImagesOption = Annotated[
    ImageProtocolName,
    typer.Option("--images", metavar="auto|blocks|kitty|iterm|sixel|none", help="How to draw images in the terminal."),
]


@takes(InspectRequest)
def command(request: InspectRequest, *, images: ImagesOption = "auto", common: options.CommonOptions) -> int:
    """Show what a dataset or a blend file contains. Prints a summary, samples, or statistics."""
    from wdsctl.cli.commands.inspect_output import samples_renderer
    from wdsctl.cli.output import has_color, terminal_width
    from wdsctl.cli.progress import show_progress
    from wdsctl.cli.terminal_images import choose_image_protocol, max_image_size
    from wdsctl.core.errors import refuse_without_effect

    request = replace(request, root=options.primary_or_root(request.root))
    has_samples = not request.stats and (request.samples, request.random, request.key) != (None, None, None)
    refuse_without_effect(("--images", images != "auto", "--samples N, --random N or --key KEY", has_samples))
    choice = "none" if common.json else images
    protocol = choose_image_protocol(choice, sys.stdout, is_colored=has_color(sys.stdout, common.no_color))
    thumbnail_size = max_image_size(protocol, terminal_width(sys.stdout))
    with show_progress(common.output) as progress:
        kind, report, thumbnails = inspect_requested(request, thumbnail_size=thumbnail_size, progress=progress)
    render = samples_renderer(thumbnails, protocol) if kind == "samples" else _renderer(kind)
    common.output.answer("inspect", report, render)
    return _exit_code(kind, report)


def _renderer(kind: InspectedKind) -> Callable[[Any], Iterator[RenderableType]]:
    from wdsctl.cli.commands.index import render_media_folder

    if kind == "blend":
        return render_blend
    if kind == "stats":
        from wdsctl.cli.commands.inspect_output import render_stats

        return render_stats
    if kind == "view":
        from wdsctl.cli.commands.view import render_view_details

        return render_view_details
    return render_media_folder if kind == "media folder" else render_summary


def _exit_code(kind: InspectedKind, report: Any) -> int:
    if kind == "dataset":
        return errors.inspect_exit_code(report)
    if kind == "media folder":
        return errors.media_folder_exit_code(report)
    if kind == "stats":
        return errors.NO_SAMPLES if not report.samples else errors.PARTIAL if report.failed else 0
    if kind == "samples":
        has_problem = any(part.problem for sample in report.shown for part in sample.parts)
        return errors.NO_SAMPLES if not report.shown else errors.PARTIAL if has_problem else 0
    return errors.PARTIAL if kind == "blend" and report.problems else 0


#: Shards listed; --json has the first 1,000.
SHARDS_SHOWN = 10
STALE_SHOWN = 10


def _no_splits(root: str) -> str:
    from wdsctl.core.energon.meta import SPLIT_FILES

    for name in SPLIT_FILES:
        if os.path.isfile(os.path.join(root, ENERGON_META_FOLDER, name)):
            command = relative_paths(shell_command("index", root))
            file = f"{ENERGON_META_FOLDER}/{name}"
            return f"no splits yet: those of {file} are not imported ({command} imports them, or names the error)"
    return f"no splits yet (create them: {relative_paths(shell_command('split', root, '8,1,1'))})"


def render_summary(report: InspectReport) -> Iterator[RenderableType]:
    from wdsctl.cli.commands.index import columns_table, render_media_totals
    from wdsctl.cli.commands.split import splits_table

    yield (
        f"{display_path(report.root)}: {format_count(report.shards, 'shard')}, "
        f"{format_count(report.samples, 'sample')}, "
        f"{format_size(report.size_bytes)}"
    )
    yield labelled_lines(_facts(report))
    if report.parts:
        yield ""
        yield from _parts(report)
    if report.splits:
        yield ""
        yield splits_table(report.splits)
    elif report.samples:
        yield ""
        yield _no_splits(report.root)
    yield from _excluded_and_views(report)
    if report.media is not None:
        yield ""
        yield from render_media_totals(report.media)
    if report.columns:
        yield ""
        yield columns_table(report.columns)
    if report.shard_list:
        yield ""
        yield from _shards(report)
    if report.first:
        yield ""
        yield from _sample_rows(report.first)
    if report.stale:
        yield ""
        yield from _stale(report)


def _facts(report: InspectReport) -> list[tuple[str, str]]:
    fields = f": {format_field_map(report.field_map)}" if report.field_map else ""
    facts = [
        ("sample type", f"{report.sample_type or 'not known'}{fields}"),
        (
            "catalog",
            f"{display_path(report.catalog)} ({format_size(report.catalog_bytes)}, generation {report.generation})",
        ),
    ]
    if report.absent_fields:
        from wdsctl.core.catalog.consistency import describe_absent_field

        missing = (describe_absent_field(name, count, report.samples) for name, count in report.absent_fields.items())
        facts.append(("fields", ", ".join(missing)))
    if report.polylithic:
        complete = f"{report.polylithic.sample_type}: {format_field_map(report.polylithic.field_map)}"
        facts += [("media", display_path(report.polylithic.media)), ("with media", complete)]
    if report.statuses.keys() - {"ok"}:
        facts.append(
            ("shards", ", ".join(f"{format_count(number)} {status}" for status, number in report.statuses.items()))
        )
    if report.looked_at < report.shards:
        compared = f"{format_count(report.looked_at)} of {format_count(report.shards, 'shard')} for changes"
        compare_all = relative_paths(shell_command("index", report.root, "--dry-run"))
        facts.append(("checked", f"{compared} (check all: {compare_all})"))
    return facts


def _stale(report: InspectReport) -> Iterator[RenderableType]:
    yield from finding_lines(report.stale[:STALE_SHOWN])
    if len(report.stale) > STALE_SHOWN:
        yield more_findings_line(report.stale[STALE_SHOWN:], "--json")
    if any(finding.code == "WDS305" for finding in report.stale):
        yield f"update the catalog: {relative_paths(shell_command('index', report.root))}"


def _excluded_and_views(report: InspectReport) -> Iterator[RenderableType]:
    if report.excluded:
        yield f"{format_count(report.excluded, 'sample')} excluded from all splits"
    if report.views:
        yield ""
        yield make_table(("view", "#samples"), [(view.name, format_count(view.samples)) for view in report.views])


def _parts(report: InspectReport) -> Iterator[RenderableType]:
    shown = report.parts[:PARTS_SHOWN]
    yield make_table(
        ("part", "#samples", "#share", "#size", "#empty"),
        [
            (p.name, format_count(p.samples), format_share(p.share), format_size(p.size_bytes), format_count(p.empty))
            for p in shown
        ],
    )
    yield from more_parts(len(report.parts))


def _shards(report: InspectReport) -> Iterator[RenderableType]:
    shown = report.shard_list[:SHARDS_SHOWN]
    yield make_table(
        ("shard", "#samples", "#size", "status"),
        [(shard.path, format_count(shard.samples), format_size(shard.size_bytes), shard.status) for shard in shown],
    )
    if len(shown) < report.shards:
        list_all = relative_paths(shell_command("ls", report.root, "-l"))
        yield f"... and {format_count(report.shards - len(shown))} more ({list_all} lists them all)"


def _sample_rows(samples: tuple[SampleSummary, ...]) -> Iterator[RenderableType]:
    yield "first samples"
    for sample in samples:
        yield f"{escape_line(sample.key)} in {escape_line(sample.shard)}"
        shown = sample.parts[:PARTS_SHOWN]
        yield labelled_lines(
            [(escape_line(part.name), f"{format_size(part.size_bytes)}  {part.preview}") for part in shown]
        )
        yield from more_parts(len(sample.parts))


def render_blend(report: BlendReport) -> Iterator[RenderableType]:
    from wdsctl.core.text import pluralize

    yield f"{display_path(report.root)}: a blend file with {pluralize(len(report.splits), 'split')}"
    for split in report.splits:
        yield ""
        yield from _split(split)
    if report.problems:
        yield ""
    for problem in report.problems:
        yield from _problem(problem)


def _split(split: BlendSplit) -> Iterator[RenderableType]:
    if split.tree is None:
        yield f"{escape_line(split.name)}: cannot be read"
        return
    samples = "unknown number of samples" if split.samples is None else format_count(split.samples, "sample")
    unit = "" if split.weight_by == "samples" else ", weights in tokens"
    yield f"{escape_line(split.name)}: {format_count(split.datasets, 'dataset')}, {samples}{unit}"
    if split.drawn is not None:
        yield f"  epochs: in {format_count(split.drawn, 'sample')}"
    yield _tree(split)
    for step in split.schedule[1:]:
        yield f"  from step {format_count(step.step)}: shares {', '.join(map(format_share, step.shares))}"


def _tree(split: BlendSplit) -> Table:
    rows: list[tuple[str, ...]] = []
    if split.tree is not None:
        _add_rows(rows, split.tree, split.name, "", "")
    return make_table(("what", "#weight", "#share", "#samples", "#epochs"), rows)


def _add_rows(rows: list[tuple[str, ...]], node: BlendNode, split: str, prefix: str, child_prefix: str) -> None:
    """Add the rows of a node and its descendants."""
    at_most = "<= " if node.is_most else ""
    rows.append(
        (
            f"{prefix}{_node_label(node, split)}",
            "" if node.weight is None else f"{node.weight:.6g}",
            "" if node.share is None else format_share(node.share),
            "" if node.samples is None else f"{at_most}{format_count(node.samples)}",
            "" if node.epochs is None else _format_epochs(node.epochs),
        )
    )
    for i, child in enumerate(node.children):
        is_last = i + 1 == len(node.children)
        _add_rows(
            rows,
            child,
            split,
            f"{child_prefix}{'└ ' if is_last else '├ '}",
            f"{child_prefix}{'  ' if is_last else '│ '}",
        )


def _format_epochs(epochs: float) -> str:
    return f"{epochs:.3g}" if epochs < 1000 else format_count(round(epochs))


def _node_label(node: BlendNode, split: str) -> str:
    name = f"{escape_line(node.name)}: " if node.name else ""
    if not node.path:
        return f"{name}{node.kind}"
    other_split = f" ({escape_line(node.split)})" if node.split != split else ""
    subset = f" {node.subset}" if node.subset else ""
    path = node.path if "://" in node.path else os.path.normpath(node.path)
    return f"{name}{display_path(path)}{other_split}{subset}"


def _problem(problem: BlendProblem) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text.assemble(
        (f"error[{problem.code}]", SEVERITY_STYLES["error"]), f": {relative_paths(escape_line(problem.message))}"
    )
    yield labelled_lines([("-->", f"{display_path(problem.where)} ({escape_line(problem.split)})")], gap=1)
    yield labelled_lines([("help:", relative_paths(problem.hint))], gap=1)
