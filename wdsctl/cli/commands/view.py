"""`wdsctl view`: named, frozen selections of samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wdsctl.cli import options
from wdsctl.cli.formatting import display_path, escape_line, format_count, format_share
from wdsctl.cli.output import TsvTable
from wdsctl.cli.tables import labelled_lines, make_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.views.show import ViewDiffReport, ViewExportReport, ViewListReport, ViewShowReport
    from wdsctl.core.views.views import SplitOverlap, ViewDeleteReport, ViewRefreshReport, ViewReport


HELP = "Manage views: named, frozen selections of samples."

EPILOG = """
\b
Examples:
  wdsctl view create shards/ big --where "width >= 512 and ext = 'jpg'"
  wdsctl view list shards/
  wdsctl view export shards/ big > keys.txt

\b
Use a view as DATASET@NAME: in the loader, in blend files, and in other
commands. The commands of `view` also take DATASET NAME.
"""

CREATE_EPILOG = """
\b
Examples:
  wdsctl view create shards/ big --where "width >= 512 and ext = 'jpg'"
  wdsctl view create shards/ short --where "tokens < 2048" --split train
  wdsctl view create shards/ some --sample 1% --seed 7
  wdsctl view create shards/ good --keys good.txt
  wdsctl view create shards/ odd --sql 'SELECT id FROM v_part WHERE size = 0'

\b
--where selects a sample if one of its parts matches. A sample must match all
options; --sample then draws from the result. docs/views.md lists the
columns.
"""

LIST_EPILOG = """
\b
Examples:
  wdsctl view list shards/
  wdsctl view list shards/ --json
"""

SHOW_EPILOG = """
\b
Examples:
  wdsctl view show shards/ big
"""

DIFF_EPILOG = """
\b
Examples:
  wdsctl view diff shards/ big bigger    two views
  wdsctl view diff shards/ big           the view, and its current selection

\b
Exits with 1 if the views differ.
"""

EXPORT_EPILOG = """
\b
Examples:
  wdsctl view export shards/ big > keys.txt
  wdsctl view export shards/ big -o big.jsonl

\b
`view create --keys` reads both formats. A line of .jsonl has key, id, shard
and position, which distinguish samples with the same key.
"""

REFRESH_EPILOG = """
\b
Examples:
  wdsctl view refresh shards/ big --dry-run
  wdsctl view refresh shards/              all views
"""

DELETE_EPILOG = """
\b
Examples:
  wdsctl view delete shards/ big
"""

RootArgument = Annotated[
    str,
    typer.Argument(
        metavar="ROOT",
        help="The dataset. ROOT@NAME also names the view, in place of NAME.",
        callback=options.primary_or_root,
    ),
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The view.", show_default=False)]
KeysOption = Annotated[int, typer.Option("--keys", metavar="N", min=0, help="Number of keys to show of each view.")]
UnknownOption = Annotated[
    Literal["error", "skip"],
    typer.Option("--unknown", metavar="error|skip", help="Handling of keys that are not in the dataset."),
]


def create(
    root: RootArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the new view.")] = "",
    *,
    where: Annotated[
        str, typer.Option("--where", metavar="EXPR", help="Samples with a part that matches, such as 'size > 100000'.")
    ] = "",
    sql: Annotated[
        str, typer.Option("--sql", metavar="QUERY", help="Samples whose id is in the first column of this query.")
    ] = "",
    keys: Annotated[
        str,
        typer.Option(
            "--keys", metavar="FILE", help="Samples whose keys are in FILE: one per line, or .jsonl; - for stdin."
        ),
    ] = "",
    split: options.SplitOption = None,
    sample: Annotated[
        str, typer.Option("--sample", metavar="SHARE", help="Draw this many of the matching samples: 1% or 1000.")
    ] = "",
    seed: options.SampleSeedOption = 0,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing view of this name.")] = False,
    unknown: UnknownOption = "error",
    timeout: options.TimeoutOption = None,
    catalog: options.CatalogOption = None,
    dry_run: options.DryRunOption = False,
    common: options.CommonOptions,
) -> int:
    """Create a view of the samples that match."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.errors import refuse_without_effect
    from wdsctl.core.opened.opening import parse_views
    from wdsctl.core.storage.source_files import absolute
    from wdsctl.core.views.definition import STDIN, ViewDefinition
    from wdsctl.core.views.views import create_view

    refuse_without_effect(
        ("--seed", seed, "--sample", sample),
        ("--unknown", unknown != "error", "--keys", keys),
        ("--timeout", timeout is not None, "--where or --sql", where or sql),
    )
    root, (name,) = parse_views(root, [name], catalog)
    path = absolute(keys) if keys and keys != STDIN else keys
    definition = ViewDefinition(where=where, sql=sql, keys=path, split=split or "", sample=sample, seed=seed)
    with show_progress(common.output) as progress:
        report = create_view(
            root,
            name,
            definition,
            replace=replace,
            skip_unknown=unknown == "skip",
            timeout_seconds=timeout or 0,
            catalog=catalog,
            dry_run=dry_run,
            progress=progress,
        )
    common.output.answer("view create", report, render_view, names=[report.name])
    return 0


def list_command(
    root: options.SamplesArgument, *, catalog: options.CatalogOption = None, common: options.CommonOptions
) -> int:
    """List the views of a dataset."""
    from wdsctl.core.views.show import list_views

    report = list_views(root, catalog=catalog)
    common.output.answer(
        "view list",
        report,
        render_view_list,
        names=(each.name for each in report.views),
        table=TsvTable(_TSV_COLUMNS, report.views),
    )
    return 0


def show(
    root: RootArgument,
    name: NameArgument = "",
    *,
    keys: KeysOption = 5,
    catalog: options.CatalogOption = None,
    common: options.CommonOptions,
) -> int:
    """Show one view: its definition, and how many samples of each split it has."""
    from wdsctl.core.opened.opening import parse_views
    from wdsctl.core.views.show import show_view

    root, (name,) = parse_views(root, [name], catalog)
    report = show_view(root, name, keys=keys, catalog=catalog)
    common.output.answer("view show", report, render_view_details, names=[report.name])
    return 0


def diff(
    root: RootArgument,
    first: Annotated[str, typer.Argument(metavar="A", help="A view.", show_default=False)] = "",
    second: Annotated[
        str, typer.Argument(metavar="B", help="Another view. [default: the current selection of A]")
    ] = "",
    *,
    keys: KeysOption = 10,
    catalog: options.CatalogOption = None,
    common: options.CommonOptions,
) -> int:
    """Show which samples are in only one of two views."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.opened.opening import parse_views
    from wdsctl.core.views.show import diff_views

    root, names = parse_views(root, [first, second], catalog, max_views=2)
    with show_progress(common.output) as progress:
        report = diff_views(root, *names, keys=keys, catalog=catalog, progress=progress)
    common.output.answer("view diff", report, render_view_diff)
    return 0 if report.is_same else 1


def export(
    root: RootArgument,
    name: NameArgument = "",
    *,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="FILE", help="Write to FILE. [default: stdout]")
    ] = None,
    form: Annotated[
        Literal["txt", "jsonl"] | None,
        typer.Option(
            "--format", metavar="txt|jsonl", help="Write keys or JSON objects. [default: by the name of FILE, else txt]"
        ),
    ] = None,
    force: options.ForceOption = False,
    catalog: options.CatalogOption = None,
    common: options.CommonOptions,
) -> int:
    """Write the keys of a view, in tar order."""
    import sys

    from wdsctl.cli.output import write_plain
    from wdsctl.core.dataset.shard_names import is_jsonl_name
    from wdsctl.core.errors import UsageError, refuse_without_effect
    from wdsctl.core.opened.opening import parse_views
    from wdsctl.core.views.show import export_view, iter_exported_names

    is_file = bool(out) and out != "-"
    refuse_without_effect(("--force", force, "-o FILE", is_file))
    root, (name,) = parse_views(root, [name], catalog)
    chosen = form or ("jsonl" if out and is_jsonl_name(out) else "txt")
    if out and is_file:
        report = export_view(root, name, out, chosen, catalog=catalog, overwrite=force or common.yes)
        common.output.answer("view export", report, render_view_export, names=[report.out])
        return 0
    if common.json:
        raise UsageError(
            "--json describes an output file, and needs -o", hint="add -o FILE; or pass --format jsonl for JSON objects"
        )
    for piece in iter_exported_names(root, name, chosen, catalog=catalog):
        write_plain(sys.stdout, piece.decode())
    return 0


def refresh(
    root: RootArgument,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Names of views. [default: all]")] = None,
    *,
    unknown: UnknownOption = "error",
    timeout: options.TimeoutOption = 600.0,
    catalog: options.CatalogOption = None,
    dry_run: options.DryRunOption = False,
    common: options.CommonOptions,
) -> int:
    """Update views to the current dataset. States saved on a changed view no longer resume."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.opened.opening import parse_root
    from wdsctl.core.views.views import refresh_views

    root, view = parse_root(root, catalog)
    selected = [*([view] if view else []), *(names or ())]
    with show_progress(common.output) as progress:
        report = refresh_views(
            root,
            selected,
            skip_unknown=unknown == "skip",
            timeout_seconds=timeout or 0,
            catalog=catalog,
            dry_run=dry_run,
            progress=progress,
        )
    common.output.answer("view refresh", report, render_refresh, names=(each.name for each in report.views))
    return 0


def delete(
    root: RootArgument,
    name: NameArgument = "",
    *,
    catalog: options.CatalogOption = None,
    dry_run: options.DryRunOption = False,
    common: options.CommonOptions,
) -> int:
    """Delete a view. Does not modify samples."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.opened.opening import parse_views
    from wdsctl.core.views.views import delete_view

    root, (name,) = parse_views(root, [name], catalog)
    with show_progress(common.output) as progress:
        report = delete_view(root, name, catalog=catalog, dry_run=dry_run, progress=progress)
    common.output.answer("view delete", report, render_delete, names=[report.name])
    return 0


group = options.make_group(
    ("create", create, CREATE_EPILOG),
    ("list", list_command, LIST_EPILOG),
    ("show", show, SHOW_EPILOG),
    ("diff", diff, DIFF_EPILOG),
    ("export", export, EXPORT_EPILOG),
    ("refresh", refresh, REFRESH_EPILOG),
    ("delete", delete, DELETE_EPILOG),
)


NAMES_SHOWN = 10
#: Of `view list` for programs.
_TSV_COLUMNS = ("name", "samples", "share", "shards", "changed", "created_at", "hash", "definition")


def render_view(report: ViewReport) -> Iterator[RenderableType]:
    outcome = f"{'would be ' if report.dry_run else ''}{report.state}"
    if report.state == "unchanged":
        outcome = "exists with the same samples"
    yield f"{display_path(report.root)}@{report.name}: {outcome}"
    yield labelled_lines(
        [
            ("defined by", report.definition.as_options()),
            (
                "samples",
                (
                    f"{format_count(report.samples)} ({format_share(report.share)}), in "
                    f"{format_count(report.shards, 'shard')}"
                ),
            ),
            ("splits", _splits(report.splits)),
            *([("changes", _changes(report))] if report.added is not None else []),
            *([("unknown", f"{format_count(report.unknown_keys, 'key')} skipped")] if report.unknown_keys else []),
            ("hash", report.hash),
        ]
    )


def render_refresh(report: ViewRefreshReport) -> Iterator[RenderableType]:
    if not report.views:
        yield f"{display_path(report.root)}: no views"
        return
    yield make_table(
        ("view", "", "#samples", "#added", "#removed"),
        [
            (
                view.name,
                _state(view),
                format_count(view.samples),
                "?" if view.added is None else format_count(view.added),
                "?" if view.removed is None else format_count(view.removed),
            )
            for view in report.views
        ],
    )


def render_delete(report: ViewDeleteReport) -> Iterator[RenderableType]:
    would = "would be deleted" if report.dry_run else "deleted"
    yield (
        f"{display_path(report.root)}@{report.name}: {would} ({format_count(report.samples, 'sample')}, hash "
        f"{report.hash})"
    )
    yield labelled_lines([("was defined by", report.definition.as_options())])


def render_view_list(report: ViewListReport) -> Iterator[RenderableType]:
    if not report.views:
        yield f"{display_path(report.root)}: no views"
        return
    yield make_table(
        ("view", "#samples", "#share", "#shards", "created", "defined by", ""),
        [
            (
                view.name,
                format_count(view.samples),
                format_share(view.share),
                format_count(view.shards),
                view.created_at[:10],
                view.definition.as_options(),
                f"{format_count(view.changed)} changed" if view.changed else "",
            )
            for view in report.views
        ],
    )


def render_view_details(report: ViewShowReport) -> Iterator[RenderableType]:
    yield f"{display_path(report.root)}@{report.name}"
    changed = f"{format_count(len(report.changed), 'shard')} changed or missing: {_join_names(report.changed)}"
    yield labelled_lines(
        [
            ("defined by", report.definition.as_options()),
            ("created", f"{report.created_at}, from generation {report.generation}"),
            (
                "samples",
                (
                    f"{format_count(report.samples)} ({format_share(report.share)}), in "
                    f"{format_count(report.shards, 'shard')}"
                ),
            ),
            ("splits", _splits(report.splits)),
            *([("first keys", ", ".join(map(escape_line, report.first_keys)))] if report.first_keys else []),
            ("hash", report.hash),
            *([("out of date", changed)] if report.changed else []),
        ]
    )


def render_view_diff(report: ViewDiffReport) -> Iterator[RenderableType]:
    yield f"{display_path(report.root)}: {report.first} against {report.second}"
    yield labelled_lines(
        [
            ("both", format_count(report.both, "sample")),
            (f"only {report.first}", _side(report.only_first, report.only_first_keys)),
            (f"only {report.second}", _side(report.only_second, report.only_second_keys)),
            *(
                (f"of {name}, changed or missing", f"{format_count(len(shards), 'shard')}: {_join_names(shards)}")
                for name, shards in ((report.first, report.first_changed), (report.second, report.second_changed))
                if shards
            ),
        ]
    )


def render_view_export(report: ViewExportReport) -> Iterator[RenderableType]:
    yield (
        f"{format_count(report.samples, 'sample')} of {display_path(report.root)}@{report.name} in "
        f"{display_path(report.out)}"
    )


def _state(report: ViewReport) -> str:
    if report.state == "unchanged":
        return "unchanged"
    return "would be refreshed" if report.dry_run else "refreshed"


def _splits(splits: Sequence[SplitOverlap]) -> str:
    return ", ".join(f"{split.name} {format_count(split.samples)}" for split in splits) or "none"


def _changes(report: ViewReport) -> str:
    return f"{format_count(report.added or 0)} added, {format_count(report.removed or 0)} removed"


def _side(samples: int, keys: Sequence[str]) -> str:
    return f"{format_count(samples, 'sample')}{f': {_join_names(keys, samples)}' if keys else ''}"


def _join_names(names: Sequence[str], total: int = 0) -> str:
    more = ", ..." if max(total, len(names)) > min(len(names), NAMES_SHOWN) else ""
    return ", ".join(map(escape_line, names[:NAMES_SHOWN])) + more
