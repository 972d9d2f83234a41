"""`wdsctl checkpoint`: the states of a loader in checkpoints."""

from __future__ import annotations

from typing import Annotated

import typer

from wdsctl.cli import options

HELP = "Look at, unite and compare saved states."

EPILOG = """
\b
Examples:
  wdsctl checkpoint info ckpt/                     a folder of rank files
  wdsctl checkpoint redistribute ckpt/ state.json  one file for any ranks
  wdsctl checkpoint diff step100/ step200/

\b
Files are JSON or torch.save's, with the state anywhere inside. Nothing in
them is run.
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

\b
A united state is what every rank of any job resumes from: with --ranks all
files are alike, one for each rank to find under its own name.
"""

DIFF_EPILOG = """
\b
Examples:
  wdsctl checkpoint diff step100.json step200.json
  wdsctl checkpoint diff step100/ step200/ --json

\b
Exits with 1 where something differs.
"""

Files = Annotated[list[str], typer.Argument(metavar="FILES", help="Files of a checkpoint, or folders with them in it.")]
Key = Annotated[
    str, typer.Option("--key", metavar="NAME", help="Only states under this key, where a file holds several.")
]

group = typer.Typer(rich_markup_mode=None, no_args_is_help=False)


@group.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def info(files: Files, *, key: Key = "", common: options.Common) -> int:
    """Show what saved states say. Step, ranks, lanes, sizes, and who can resume from them."""
    from wdsctl.cli.render.checkpoint import render_info
    from wdsctl.core.verbs.checkpoint import info

    report = info(files, key=key)
    common.output.answer("checkpoint info", report, render_info)
    return 1 if report.problem else 0


def redistribute(
    files: Files,
    out: Annotated[str, typer.Argument(metavar="OUT", help="The file to write; with --ranks a folder or a pattern.")],
    *,
    ranks: Annotated[
        int | None, typer.Option("--ranks", metavar="N", min=1, help="Write a file for each of N ranks.")
    ] = None,
    key: Key = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there (as --yes).")] = False,
    dry_run: options.DryRun = False,
    common: options.Common,
) -> int:
    """Unite the states of all ranks for any other number of ranks."""
    from wdsctl.cli.render.checkpoint import render_redistribute
    from wdsctl.core.verbs.checkpoint import redistribute

    report = redistribute(files, out, ranks=ranks or 0, key=key, force=force or common.yes, dry_run=dry_run)
    common.output.answer("checkpoint redistribute", report, render_redistribute)
    return 0


def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A file of a checkpoint, or its folder.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    *,
    key: Key = "",
    common: options.Common,
) -> int:
    """Say how two saved states differ. Order, recipe, place, steps, lanes."""
    from wdsctl.cli.render.checkpoint import render_diff
    from wdsctl.core.verbs.checkpoint import diff

    report = diff(first, second, key=key)
    common.output.answer("checkpoint diff", report, render_diff)
    return 0 if report.is_same else 1


for _name, _function, _epilog in (
    ("info", info, INFO_EPILOG),
    ("redistribute", redistribute, REDISTRIBUTE_EPILOG),
    ("diff", diff, DIFF_EPILOG),
):
    group.command(_name, epilog=_epilog)(options.with_common(_function))
