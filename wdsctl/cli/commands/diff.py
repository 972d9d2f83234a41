"""`wdsctl diff`: what one dataset has and another has not.

What differs between two datasets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options
from wdsctl.cli.formatting import display_path, escape_line, format_count, format_duration, format_size
from wdsctl.cli.tables import finding_lines, labelled_lines, make_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.compare.diff import (
        ComparedSide,
        DatasetDiffReport,
        SampleDifference,
        SamplesDiff,
        ShardsDiff,
        SplitDrift,
    )


EPILOG = """
\b
Examples:
  wdsctl diff old/ new/                two datasets
  wdsctl diff shards/@big shards/@all  two views
  wdsctl diff shards/ --since 3        a dataset and its generation 3
  wdsctl diff old/ copy/ --content     also all bytes of both datasets
  wdsctl diff old/ new/ -q > /dev/null || echo they differ

\b
Two samples are the same if their keys and the names and sizes of their parts
are the same. A moved sample is in another shard; a changed sample has the
same key only. Exits with 0 if the datasets are the same, with 1 if they
differ, and with 5 if no difference was found but shards could not be read.
"""


def command(
    first: Annotated[str, typer.Argument(metavar="A", help="A dataset, or a view of it: DATASET@NAME.")],
    second: Annotated[str | None, typer.Argument(metavar="[B]", help="Another one.")] = None,
    *,
    since: Annotated[
        int | None, typer.Option("--since", metavar="N", min=0, help="Instead of B: compare A at generation N with")
    ] = None,
    until: Annotated[
        int | None,
        typer.Option("--until", metavar="N", min=0, help="this later generation. [default: the current one]"),
    ] = None,
    content: Annotated[
        bool, typer.Option("--content", help="Compare the bytes of parts whose sizes are the same.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="Number of examples to list for each kind.")
    ] = 5,
    catalog: Annotated[str | None, typer.Option("--catalog", metavar="DIR", help="Folder of the catalog of A.")] = None,
    catalog_b: Annotated[
        str | None, typer.Option("--catalog-b", metavar="DIR", help="Folder of the catalog of B.")
    ] = None,
    common: options.CommonOptions,
) -> int:
    """Compare two datasets. Lists added, removed, moved and changed shards and samples, and splits."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.compare.diff import diff_datasets

    with show_progress(common.output) as progress:
        report = diff_datasets(
            first,
            second,
            since=since,
            until=until,
            content=content,
            limit=limit,
            catalogs=(catalog, catalog_b),
            progress=progress,
        )
    common.output.answer("diff", report, render_dataset_diff)
    if not report.is_same:
        return 1
    return 5 if report.unreadable else 0


CHANGE_SIGNS = {"added": "+", "removed": "-", "moved": ">", "changed": "~"}


def render_dataset_diff(report: DatasetDiffReport) -> Iterator[RenderableType]:
    yield from finding_lines(report.unreadable)
    yield labelled_lines([("A", _side(report.first)), ("B", _side(report.second))])
    shards, samples = report.shards, report.samples
    yield make_table(
        ("", "#same", "#added", "#removed", "#moved", "#changed"),
        [
            (
                "shards",
                *map(format_count, (shards.same, shards.added, shards.removed, shards.renamed)),
                format_count(shards.changed + shards.rewritten),
            ),
            (
                "samples",
                *map(format_count, (samples.same, samples.added, samples.removed, samples.moved, samples.changed)),
            ),
        ],
    )
    yield from _shards(shards)
    yield from _samples(samples)
    if report.splits is None:
        yield "splits not compared: the catalog has no splits of older generations"
    elif drifted := [split for split in report.splits if not split.is_same]:
        yield make_table(("split", "#A", "#B", "#entered", "#left"), map(_split, drifted))
    yield _verdict(report)


def _side(side: ComparedSide) -> str:
    view = f"@{side.view}" if side.view else ""
    return (
        f"{display_path(side.root)}{view}, generation {side.generation}: {format_count(side.samples, 'sample')} in "
        f"{format_count(side.shards, 'shard')} ({format_size(side.size_bytes)})"
    )


def _shards(shards: ShardsDiff) -> Iterator[str]:
    for sign, some, all_of_them in (
        ("+", shards.first_added, shards.added),
        ("-", shards.first_removed, shards.removed),
    ):
        yield from (f"{sign} {escape_line(name)}" for name in some)
        yield from _more(sign, len(some), all_of_them, "shard")
    for shard in shards.first_changed:
        yield (
            f"~ {escape_line(shard.path)} ({format_count(shard.first_samples)} -> "
            f"{format_count(shard.second_samples, 'sample')})"
        )
    yield from _more("~", len(shards.first_changed), shards.changed, "shard")
    for name in shards.first_rewritten:
        yield f"~ {escape_line(name)} (same layout, but a different SHA-256)"
    yield from _more("~", len(shards.first_rewritten), shards.rewritten, "shard")
    for renamed in shards.first_renamed:
        yield (
            f"> {escape_line(renamed.first)} -> {escape_line(renamed.second)} "
            f"({format_count(renamed.samples, 'sample')})"
        )
    yield from _more(">", len(shards.first_renamed), shards.renamed, "shard")


def _samples(samples: SamplesDiff) -> Iterator[str]:
    for kind, sign in CHANGE_SIGNS.items():
        some = [each for each in samples.first_differences if each.kind == kind]
        yield from map(_sample, some)
        if not some:
            continue  # none is asked for, or all of them are of renamed shards
        yield from _more(sign, len(some), getattr(samples, kind), "sample")


def _more(sign: str, shown: int, total: int, noun: str) -> Iterator[str]:
    if shown < total:
        left = format_count(total - shown, f"more {noun}" if shown else noun)
        yield f"{sign} {'... and ' if shown else ''}{left}"


def _sample(sample: SampleDifference) -> str:
    first, second = escape_line(sample.first_shard), escape_line(sample.second_shard)
    where = f"{first} -> {second}" if first and second and first != second else first or second
    return f"{CHANGE_SIGNS[sample.kind]} sample {escape_line(sample.key)} ({where})"


def _split(split: SplitDrift) -> tuple[str, ...]:
    sizes = (
        "none" if number is None else format_count(number) for number in (split.first_samples, split.second_samples)
    )
    return (split.name, *sizes, format_count(split.entered), format_count(split.left))


def _verdict(report: DatasetDiffReport) -> str:
    by = "keys, and the bytes of parts" if report.content else "keys, and names and sizes of parts"
    differs = "nothing differs" if report.is_same else "they differ"
    return f"{differs} (by {by}; {format_duration(report.seconds)})"
