"""What differs between two datasets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, duration, path, safe, size
from wdsctl.cli.render.pieces import finding_lines, labelled, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.verbs.diff_report import (
        ComparedSide,
        DiffReport,
        SampleDifference,
        SamplesDiff,
        ShardsDiff,
        SplitDrift,
    )

SIGNS = {"added": "+", "removed": "-", "moved": ">", "changed": "~"}


def render_diff(report: DiffReport) -> Iterator[RenderableType]:
    yield from finding_lines(report.unreadable)
    yield labelled([("A", _side(report.first)), ("B", _side(report.second))])
    shards, samples = report.shards, report.samples
    yield table(
        ("", "#same", "#added", "#removed", "#moved", "#changed"),
        [
            (
                "shards",
                *map(count, (shards.same, shards.added, shards.removed, shards.renamed)),
                count(shards.changed + shards.rewritten),
            ),
            ("samples", *map(count, (samples.same, samples.added, samples.removed, samples.moved, samples.changed))),
        ],
    )
    yield from _shards(shards)
    yield from _samples(samples)
    if report.splits is None:
        yield "splits: those of an older generation are not known any more"
    elif drifted := [split for split in report.splits if not split.is_same]:
        yield table(("split", "#A", "#B", "#entered", "#left"), map(_split, drifted))
    yield _verdict(report)


def _side(side: ComparedSide) -> str:
    view = f"@{side.view}" if side.view else ""
    return (
        f"{path(side.root)}{view}, generation {side.generation}: {count(side.samples, 'sample')} in "
        f"{count(side.shards, 'shard')} ({size(side.size_bytes)})"
    )


def _shards(shards: ShardsDiff) -> Iterator[str]:
    for sign, some, all_of_them in (
        ("+", shards.first_added, shards.added),
        ("-", shards.first_removed, shards.removed),
    ):
        yield from (f"{sign} {safe(name)}" for name in some)
        yield from _more(sign, len(some), all_of_them, "shard")
    for shard in shards.first_changed:
        yield f"~ {safe(shard.path)} ({count(shard.first_samples)} -> {count(shard.second_samples, 'sample')})"
    yield from _more("~", len(shards.first_changed), shards.changed, "shard")
    for name in shards.first_rewritten:
        yield f"~ {safe(name)} (the same layout, and other bytes by SHA-256)"
    yield from _more("~", len(shards.first_rewritten), shards.rewritten, "shard")
    for renamed in shards.first_renamed:
        yield f"> {safe(renamed.first)} -> {safe(renamed.second)} ({count(renamed.samples, 'sample')})"
    yield from _more(">", len(shards.first_renamed), shards.renamed, "shard")


def _samples(samples: SamplesDiff) -> Iterator[str]:
    for kind, sign in SIGNS.items():
        some = [each for each in samples.first_differences if each.kind == kind]
        yield from map(_sample, some)
        if not some:
            continue  # none is asked for, or all of them are of renamed shards
        yield from _more(sign, len(some), getattr(samples, kind), "sample")


def _more(sign: str, shown: int, total: int, noun: str) -> Iterator[str]:
    if shown < total:
        left = count(total - shown, f"more {noun}" if shown else noun)
        yield f"{sign} {'... and ' if shown else ''}{left}"


def _sample(sample: SampleDifference) -> str:
    first, second = safe(sample.first_shard), safe(sample.second_shard)
    where = f"{first} -> {second}" if first and second and first != second else first or second
    return f"{SIGNS[sample.kind]} sample {safe(sample.key)} ({where})"


def _split(split: SplitDrift) -> tuple[str, ...]:
    sizes = ("none" if number is None else count(number) for number in (split.first_samples, split.second_samples))
    return (split.name, *sizes, count(split.entered), count(split.left))


def _verdict(report: DiffReport) -> str:
    by = "keys, and the bytes of parts" if report.content else "keys, and names and sizes of parts"
    differs = "nothing differs" if report.is_same else "they differ"
    return f"{differs} (by {by}; {duration(report.seconds)})"
