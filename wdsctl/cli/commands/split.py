"""`wdsctl split`: say which samples train, validate and test."""

from __future__ import annotations

from typing import Annotated

import typer

from wdsctl.cli import options

EPILOG = """
\b
Examples:
  wdsctl split shards/ 8,1,1                        train, val, test
  wdsctl split shards/ train=0.99,val=0.01
  wdsctl split shards/ 98,1,1 --by sample --dry-run
"""


def command(
    root: options.Root,
    ratios: Annotated[str, typer.Argument(metavar="RATIOS", help="8,1,1 or train=8,val=1,test=1.")],
    *,
    by: options.By = "auto",
    seed: options.Seed = 0,
    catalog: options.Catalog = None,
    dry_run: options.DryRun = False,
    common: options.Common,
) -> int:
    """Say which samples train, validate and test. The shards are not touched."""
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.split import render
    from wdsctl.core.ratios import parse_ratios
    from wdsctl.core.verbs.split import split

    shares = parse_ratios(ratios)
    with listening(common.output) as progress:
        report = split(root, shares, by=by, seed=seed, catalog=catalog, dry_run=dry_run, progress=progress)
    common.output.answer("split", report, render)
    return 0
