"""`wdsctl view`: frozen selections of samples."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import typer

from wdsctl.cli import options

HELP = "Freeze selections of samples, to train on or to convert."

EPILOG = """
\b
Examples:
  wdsctl view create shards/ big --where "width >= 512 and ext = 'jpg'"
  wdsctl view list shards/
  wdsctl view export shards/ big > keys.txt

\b
A view is named DATASET@NAME wherever a dataset is read: by the loader, in
blend files, and by the other commands. Here DATASET NAME names it, too.
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
A sample belongs when some part of it fits. What several options say must
all hold; --sample draws from what is left. docs/views.md lists the columns.
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
  wdsctl view diff shards/ big           the view, and what it would be now

\b
Exits with 1 where something differs.
"""

EXPORT_EPILOG = """
\b
Examples:
  wdsctl view export shards/ big > keys.txt
  wdsctl view export shards/ big -o big.jsonl

\b
`view create --keys` reads both forms. In .jsonl, a line has key, id, shard
and position, so that keys that repeat are told apart.
"""

REFRESH_EPILOG = """
\b
Examples:
  wdsctl view refresh shards/ big --dry-run
  wdsctl view refresh shards/              all of them
"""

DELETE_EPILOG = """
\b
Examples:
  wdsctl view delete shards/ big
"""

Root = Annotated[str, typer.Argument(metavar="ROOT", help="The dataset; ROOT@NAME names a view of it, too.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The view.", show_default=False)]
Unknown = Annotated[
    Literal["error", "skip"],
    typer.Option("--unknown", metavar="error|skip", help="What to do about keys that the dataset does not have."),
]

group = typer.Typer(rich_markup_mode=None, no_args_is_help=False)


@group.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def create(
    root: Root,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the view is to be called.")] = "",
    *,
    where: Annotated[
        str, typer.Option("--where", metavar="EXPR", help="Samples of which some part fits, such as 'size > 100000'.")
    ] = "",
    sql: Annotated[
        str, typer.Option("--sql", metavar="QUERY", help="The samples whose ids this query gives in its first column.")
    ] = "",
    keys: Annotated[
        str,
        typer.Option("--keys", metavar="FILE", help="The samples with these keys: one a line, or .jsonl; - is stdin."),
    ] = "",
    split: Annotated[str, typer.Option("--split", metavar="NAME", help="Samples of this split alone.")] = "",
    sample: Annotated[
        str, typer.Option("--sample", metavar="SHARE", help="Draw so many of what fits: 1% or 1000.")
    ] = "",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Another seed, another draw.")] = 0,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of a view of this name.")] = False,
    unknown: Unknown = "error",
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", min=0, help="Give up on --where and --sql after so long."),
    ] = None,
    catalog: options.Catalog = None,
    dry_run: options.DryRun = False,
    common: options.Common,
) -> int:
    """Freeze the samples that fit under a name."""
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.view import render_view
    from wdsctl.core.root_name import named_views
    from wdsctl.core.verbs.view import create_view
    from wdsctl.core.view_definition import STDIN, Definition

    root, (name,) = named_views(root, [name], catalog)
    path = os.path.abspath(keys) if keys and keys != STDIN else keys
    definition = Definition(where=where, sql=sql, keys=path, split=split, sample=sample, seed=seed)
    with listening(common.output) as progress:
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
    common.output.answer("view create", report, render_view)
    return 0


def list_(root: options.Root, *, catalog: options.Catalog = None, common: options.Common) -> int:
    """List the views of a dataset."""
    from wdsctl.cli.render.view import render_list
    from wdsctl.core.verbs.view_look import list_views

    common.output.answer("view list", list_views(root, catalog=catalog), render_list)
    return 0


def show(
    root: Root,
    name: Name = "",
    *,
    keys: Annotated[int, typer.Option("--keys", metavar="N", min=0, help="Show so many keys.")] = 5,
    catalog: options.Catalog = None,
    common: options.Common,
) -> int:
    """Show one view: how it was made, what it has of each split."""
    from wdsctl.cli.render.view import render_show
    from wdsctl.core.root_name import named_views
    from wdsctl.core.verbs.view_look import show_view

    root, (name,) = named_views(root, [name], catalog)
    common.output.answer("view show", show_view(root, name, keys=keys, catalog=catalog), render_show)
    return 0


def diff(
    root: Root,
    first: Annotated[str, typer.Argument(metavar="A", help="A view.", show_default=False)] = "",
    second: Annotated[str, typer.Argument(metavar="B", help="Another one. [default: A as it would be now]")] = "",
    *,
    keys: Annotated[int, typer.Option("--keys", metavar="N", min=0, help="Show so many keys of each side.")] = 10,
    catalog: options.Catalog = None,
    common: options.Common,
) -> int:
    """Say which samples one view has and another has not."""
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.view import render_diff
    from wdsctl.core.root_name import named_views
    from wdsctl.core.verbs.view_look import diff_views

    root, names = named_views(root, [first, second], catalog, most=2)
    with listening(common.output) as progress:
        report = diff_views(root, *names, keys=keys, catalog=catalog, progress=progress)
    common.output.answer("view diff", report, render_diff)
    return 0 if report.is_same else 1


def export(
    root: Root,
    name: Name = "",
    *,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="FILE", help="Write a file. [default: stdout]")
    ] = None,
    form: Annotated[
        Literal["txt", "jsonl"] | None,
        typer.Option(
            "--format", metavar="txt|jsonl", help="Keys alone, or objects. [default: by FILE's name, else txt]"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there (as --yes).")] = False,
    catalog: options.Catalog = None,
    common: options.Common,
) -> int:
    """Write the keys of a view, in tar order."""
    import sys

    from wdsctl.cli.output import write
    from wdsctl.cli.render.view import render_export
    from wdsctl.core.errors import UsageError
    from wdsctl.core.line_files import is_lines
    from wdsctl.core.root_name import named_views
    from wdsctl.core.verbs.view_look import export_lines, export_view

    root, (name,) = named_views(root, [name], catalog)
    chosen = form or ("jsonl" if out and is_lines(out) else "txt")
    if out and out != "-":
        report = export_view(root, name, out, chosen, catalog=catalog, overwrite=force or common.yes)
        common.output.answer("view export", report, render_export)
        return 0
    if common.json:
        raise UsageError(
            "--json tells of a file that was written", hint="add -o FILE; or take --format jsonl for objects"
        )
    for piece in export_lines(root, name, chosen, catalog=catalog):
        write(sys.stdout, piece.decode())
    return 0


def refresh(
    root: Root,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Views. [default: all]")] = None,
    *,
    unknown: Unknown = "error",
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0, help="Give up on what a view was made by after so long."),
    ] = 600.0,
    catalog: options.Catalog = None,
    dry_run: options.DryRun = False,
    common: options.Common,
) -> int:
    """Make views again from what is there now. States of trainings on them are refused if they change."""
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.view import render_refresh
    from wdsctl.core.root_name import parse_root
    from wdsctl.core.verbs.view import refresh_views

    root, view = parse_root(root, catalog)
    wanted = [*([view] if view else []), *(names or ())]
    with listening(common.output) as progress:
        report = refresh_views(
            root,
            wanted,
            skip_unknown=unknown == "skip",
            timeout_seconds=timeout,
            catalog=catalog,
            dry_run=dry_run,
            progress=progress,
        )
    common.output.answer("view refresh", report, render_refresh)
    return 0


def delete(
    root: Root,
    name: Name = "",
    *,
    catalog: options.Catalog = None,
    dry_run: options.DryRun = False,
    common: options.Common,
) -> int:
    """Forget a view. No sample is touched."""
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.view import render_delete
    from wdsctl.core.root_name import named_views
    from wdsctl.core.verbs.view import delete_view

    root, (name,) = named_views(root, [name], catalog)
    with listening(common.output) as progress:
        report = delete_view(root, name, catalog=catalog, dry_run=dry_run, progress=progress)
    common.output.answer("view delete", report, render_delete)
    return 0


for _name, _function, _epilog in (
    ("create", create, CREATE_EPILOG),
    ("list", list_, LIST_EPILOG),
    ("show", show, SHOW_EPILOG),
    ("diff", diff, DIFF_EPILOG),
    ("export", export, EXPORT_EPILOG),
    ("refresh", refresh, REFRESH_EPILOG),
    ("delete", delete, DELETE_EPILOG),
):
    group.command(_name, epilog=_epilog)(options.with_common(_function))
