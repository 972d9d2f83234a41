"""What a blend file is made of: a tree a split, with shares, samples and epochs; and what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, path, relative, safe, share
from wdsctl.cli.render.pieces import STYLES, labelled, table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wdsctl.core.verbs.inspect_blend import BlendNode, BlendReport, BlendSplit, Problem


def render(report: BlendReport) -> Iterator[RenderableType]:
    from wdsctl.core.counted import counted

    yield f"{path(report.root)}: a blend file with {counted(len(report.splits), 'split')}"
    for split in report.splits:
        yield ""
        yield from _split(split)
    if report.problems:
        yield ""
    for problem in report.problems:
        yield from _problem(problem)


def _split(split: BlendSplit) -> Iterator[RenderableType]:
    if split.tree is None:
        yield f"{safe(split.name)}: cannot be read"
        return
    there = "samples that cannot all be counted" if split.samples is None else count(split.samples, "sample")
    unit = "" if split.weight_by == "samples" else ", weights in tokens"
    yield f"{safe(split.name)}: {count(split.datasets, 'dataset')}, {there}{unit}"
    if split.drawn is not None:
        yield f"  epochs are those in {count(split.drawn, 'sample')}"
    yield _tree(split)
    for step in split.schedule[1:]:
        yield f"  from step {count(step.step)}: shares {', '.join(map(share, step.shares))}"


def _tree(split: BlendSplit) -> Table:
    rows: list[tuple[str, ...]] = []
    if split.tree is not None:
        _add(rows, split.tree, split.name, "", "")
    return table(("what", "#weight", "#share", "#samples", "#epochs"), rows)


def _add(rows: list[tuple[str, ...]], node: BlendNode, split: str, lead: str, below: str) -> None:
    """A row of the node, and those of what is below it. A file that is one node is that node."""
    most = "<= " if node.is_most else ""
    rows.append(
        (
            f"{lead}{_called(node, split)}",
            "" if node.weight is None else f"{node.weight:.6g}",
            "" if node.share is None else share(node.share),
            "" if node.samples is None else f"{most}{count(node.samples)}",
            "" if node.epochs is None else _times(node.epochs),
        )
    )
    for i, child in enumerate(node.children):
        is_last = i + 1 == len(node.children)
        _add(rows, child, split, f"{below}{'└ ' if is_last else '├ '}", f"{below}{'  ' if is_last else '│ '}")


def _times(epochs: float) -> str:
    return f"{epochs:.3g}" if epochs < 1000 else count(round(epochs))


def _called(node: BlendNode, split: str) -> str:
    name = f"{safe(node.name)}: " if node.name else ""
    if not node.path:
        return f"{name}{node.kind}"
    other = f" ({safe(node.split)})" if node.split != split else ""
    subset = f" {node.subset}" if node.subset else ""
    return f"{name}{path(os.path.normpath(node.path) if '://' not in node.path else node.path)}{other}{subset}"


def _problem(problem: Problem) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text.assemble((f"error[{problem.code}]", STYLES["error"]), f": {relative(safe(problem.message))}")
    yield labelled([("-->", f"{path(problem.where)} ({safe(problem.split)})")], gap=1)
    yield labelled([("help:", relative(problem.hint))], gap=1)
