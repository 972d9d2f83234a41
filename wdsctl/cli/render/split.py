"""Which split got how much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, path, share
from wdsctl.cli.render.pieces import table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wdsctl.core.catalog.catalog import SplitCount
    from wdsctl.core.verbs.split import SplitReport


def render(report: SplitReport) -> Iterator[RenderableType]:
    would = "would be " if report.dry_run else ""
    yield f"{path(report.root)}: {would}split {rule(report)}"
    yield splits_table(report.splits)


def rule(report: SplitReport) -> str:
    """`by shard, seed 0`."""
    return f"by {report.by}, seed {report.seed}"


def splits_table(splits: Sequence[SplitCount]) -> Table:
    """The shares are what came out; what was asked for is in dataset.yaml."""
    total = sum(split.samples for split in splits)
    return table(
        ("split", "#share", "#shards", "#samples"),
        [(s.name, share(s.samples / total if total else 0), count(s.shards), count(s.samples)) for s in splits],
    )
