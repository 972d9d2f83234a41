"""`wdsctl inspect`: what is in a dataset."""

from __future__ import annotations

from typing import Annotated

import typer

from wdsctl.cli import exit_codes, options

EPILOG = """
\b
Examples:
  wdsctl inspect shards/
  wdsctl inspect shards/ --samples 10
  wdsctl inspect shards/ --json | jq '.parts[].name'
"""


def command(
    root: options.Root,
    *,
    samples: Annotated[int, typer.Option("--samples", metavar="N", min=0, help="First samples to show.")] = 3,
    catalog: options.Catalog = None,
    common: options.Common,
) -> int:
    """Show what is in a dataset. Counts, bytes, parts, splits, facts of media, shards, first samples."""
    from wdsctl.cli.commands import media_folder
    from wdsctl.cli.render.inspect import render
    from wdsctl.core.verbs.inspect import inspect

    if media_folder.is_one(root, catalog):
        return media_folder.show(root, catalog, samples, common)
    report = inspect(root, catalog=catalog, samples=samples)
    common.output.answer("inspect", report, render)
    return exit_codes.of_inspect(report)
