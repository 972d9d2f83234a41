"""`wdsctl catalog`: the catalog itself, as a file among files."""

from __future__ import annotations

from typing import Annotated

import typer

from wdsctl.cli import options

HELP = "Look after the catalog: info, check, migrate, vacuum."

EPILOG = """
\b
Examples:
  wdsctl catalog info shards/       versions, sizes, files
  wdsctl catalog check shards/      is it sound? shards are not read
  wdsctl catalog vacuum shards/     drop what nobody needs

\b
A catalog can always be made again: `wdsctl index ROOT --rebuild`.
"""

INFO_EPILOG = """
\b
Examples:
  wdsctl catalog info shards/
  wdsctl catalog info shards/ --json
"""

CHECK_EPILOG = """
\b
Examples:
  wdsctl catalog check shards/
  wdsctl catalog check shards/ && python train.py

\b
Exits with 1 where something is wrong. What is wrong with shards, `wdsctl
validate` tells.
"""

MIGRATE_EPILOG = """
\b
Examples:
  wdsctl catalog migrate shards/

\b
Never needed: older catalogs are read as they are, and whatever writes brings
them up to date.
"""

VACUUM_EPILOG = """
\b
Examples:
  wdsctl catalog vacuum shards/ --dry-run
  wdsctl catalog vacuum shards/ --generations 1
  wdsctl catalog vacuum shards/ --yes             damaged files, too

\b
The last three generations stay unless --generations says otherwise: states
of trainings that were saved on them go on.
"""

group = typer.Typer(rich_markup_mode=None, no_args_is_help=False)


@group.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def info(root: options.Root, *, catalog: options.Catalog = None, common: options.Common) -> int:
    """Show what the catalog is. Versions, generation, tables, files."""
    from wdsctl.cli.render.catalog import render_info
    from wdsctl.core.verbs.catalog_info import catalog_info

    common.output.answer("catalog info", catalog_info(root, catalog=catalog), render_info)
    return 0


def check(root: options.Root, *, catalog: options.Catalog = None, common: options.Common) -> int:
    """Check that catalog, offsets and columns are sound and agree."""
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.catalog import render_check
    from wdsctl.core.findings import at_least
    from wdsctl.core.verbs.catalog_check import catalog_check

    with listening(common.output) as progress:
        report = catalog_check(root, catalog=catalog, progress=progress)
    common.output.answer("catalog check", report, render_check)
    return 1 if at_least(report.findings, "warning") else 0


def migrate(
    root: options.Root,
    *,
    catalog: options.Catalog = None,
    wait: options.Wait = 0.0,
    dry_run: options.DryRun = False,
    common: options.Common,
) -> int:
    """Bring an older catalog to the present schema."""
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.catalog import render_migrate
    from wdsctl.core.verbs.catalog_migrate import catalog_migrate

    with listening(common.output) as progress:
        report = catalog_migrate(root, catalog=catalog, dry_run=dry_run, wait=wait, progress=progress)
    common.output.answer("catalog migrate", report, render_migrate)
    return 0


def vacuum(
    root: options.Root,
    *,
    generations: Annotated[
        int, typer.Option("--generations", metavar="N", min=1, help="Generations that stay, the present one included.")
    ] = 3,
    catalog: options.Catalog = None,
    wait: options.Wait = 0.0,
    dry_run: options.DryRun = False,
    common: options.Common,
) -> int:
    """Drop rows and files that nobody needs, and pack the catalog. With --yes files that were damaged go, too."""
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.catalog import render_vacuum
    from wdsctl.core.verbs.catalog_vacuum import catalog_vacuum

    with listening(common.output) as progress:
        report = catalog_vacuum(
            root,
            catalog=catalog,
            generations=generations,
            damaged=common.yes,
            dry_run=dry_run,
            wait=wait,
            progress=progress,
        )
    common.output.answer("catalog vacuum", report, render_vacuum)
    return 0


for _name, _function, _epilog in (
    ("info", info, INFO_EPILOG),
    ("check", check, CHECK_EPILOG),
    ("migrate", migrate, MIGRATE_EPILOG),
    ("vacuum", vacuum, VACUUM_EPILOG),
):
    group.command(_name, epilog=_epilog)(options.with_common(_function))
