"""Renders `wdsctl inspect` of a blend file: a tree per split with shares, samples and epochs, and the errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from wdsctl.cli.formatting import display_path, escape_line, format_count, format_share, relative_paths
from wdsctl.cli.tables import SEVERITY_STYLES, labelled_lines, make_table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wdsctl.core.inspect.blend import BlendProblem, BlendReport, BlendSplit
    from wdsctl.core.inspect.blend_tree import BlendNode


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
