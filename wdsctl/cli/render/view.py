"""What views are, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, path, safe, share
from wdsctl.cli.render.pieces import labelled, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.verbs.view import DeleteReport, InSplit, RefreshReport, ViewReport
    from wdsctl.core.verbs.view_look import DiffReport, ExportReport, ListReport, ShowReport

SHOWN = 10


def render_view(report: ViewReport) -> Iterator[RenderableType]:
    yield f"{path(report.root)}@{report.name}: {_became(report)}"
    yield labelled(
        [
            ("made by", report.definition.as_options()),
            ("samples", f"{count(report.samples)} ({share(report.share)}), in {count(report.shards, 'shard')}"),
            ("splits", _splits(report.splits)),
            *([("changes", _changes(report))] if report.added is not None else []),
            *([("unknown", f"{count(report.unknown_keys, 'key')} passed over")] if report.unknown_keys else []),
            ("hash", report.hash),
        ]
    )


def render_refresh(report: RefreshReport) -> Iterator[RenderableType]:
    if not report.views:
        yield f"{path(report.root)}: no views"
        return
    yield table(
        ("view", "", "#samples", "#added", "#removed"),
        [
            (
                view.name,
                _state(view),
                count(view.samples),
                "?" if view.added is None else count(view.added),
                "?" if view.removed is None else count(view.removed),
            )
            for view in report.views
        ],
    )


def render_delete(report: DeleteReport) -> Iterator[RenderableType]:
    would = "would be deleted" if report.dry_run else "deleted"
    yield f"{path(report.root)}@{report.name}: {would} ({count(report.samples, 'sample')}, hash {report.hash})"
    yield labelled([("was made by", report.definition.as_options())])


def render_list(report: ListReport) -> Iterator[RenderableType]:
    if not report.views:
        yield f"{path(report.root)}: no views"
        return
    yield table(
        ("view", "#samples", "#share", "#shards", "created", "made by", ""),
        [
            (
                view.name,
                count(view.samples),
                share(view.share),
                count(view.shards),
                view.created_at[:10],
                view.definition.as_options(),
                f"{count(view.changed)} changed" if view.changed else "",
            )
            for view in report.views
        ],
    )


def render_show(report: ShowReport) -> Iterator[RenderableType]:
    yield f"{path(report.root)}@{report.name}"
    changed = f"{count(len(report.changed), 'shard')} changed or gone: {_listed(report.changed)}"
    yield labelled(
        [
            ("made by", report.definition.as_options()),
            ("made at", f"{report.created_at}, of generation {report.generation}"),
            ("samples", f"{count(report.samples)} ({share(report.share)}), in {count(report.shards, 'shard')}"),
            ("splits", _splits(report.splits)),
            *([("first keys", ", ".join(map(safe, report.first_keys)))] if report.first_keys else []),
            ("hash", report.hash),
            *([("out of date", changed)] if report.changed else []),
        ]
    )


def render_diff(report: DiffReport) -> Iterator[RenderableType]:
    yield f"{path(report.root)}: {report.first} against {report.second}"
    yield labelled(
        [
            ("both", count(report.both, "sample")),
            (f"only {report.first}", _side(report.only_first, report.only_first_keys)),
            (f"only {report.second}", _side(report.only_second, report.only_second_keys)),
            *(
                (f"of {name}, changed or gone", f"{count(len(shards), 'shard')}: {_listed(shards)}")
                for name, shards in ((report.first, report.first_changed), (report.second, report.second_changed))
                if shards
            ),
        ]
    )


def render_export(report: ExportReport) -> Iterator[RenderableType]:
    yield f"{count(report.samples, 'sample')} of {path(report.root)}@{report.name} in {path(report.out)}"


def _became(report: ViewReport) -> str:
    if report.state == "unchanged":
        return "there already, with these samples"
    return f"{'would be ' if report.dry_run else ''}{report.state}"


def _state(report: ViewReport) -> str:
    if report.state == "unchanged":
        return "as it was"
    return "would be refreshed" if report.dry_run else "refreshed"


def _splits(splits: Sequence[InSplit]) -> str:
    return ", ".join(f"{split.name} {count(split.samples)}" for split in splits) or "none"


def _changes(report: ViewReport) -> str:
    return f"{count(report.added or 0)} added, {count(report.removed or 0)} removed"


def _side(samples: int, keys: Sequence[str]) -> str:
    return f"{count(samples, 'sample')}{f': {_listed(keys, samples)}' if keys else ''}"


def _listed(names: Sequence[str], of: int = 0) -> str:
    more = ", ..." if max(of, len(names)) > min(len(names), SHOWN) else ""
    return ", ".join(map(safe, names[:SHOWN])) + more
