"""`wdsctl validate`: find what is wrong with a dataset."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from wdsctl.cli import options

EPILOG = """
\b
Examples:
  wdsctl validate shards/
  wdsctl validate shards/ --fail-on error       warnings are shown, and pass
  wdsctl validate shards/ --json --fail-on never > findings.json
"""

FailOn = Annotated[
    Literal["error", "warning", "note", "never"],
    typer.Option(
        "--fail-on",
        metavar="error|warning|note|never",
        help="Exit with 1 if something this grave, or graver, is found.",
    ),
]


def command(
    root: options.Root,
    *,
    fail_on: FailOn = "warning",
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=0, help="Findings listed, 0 for all; --json always has all."),
    ] = 20,
    workers: options.Workers = None,
    catalog: options.Catalog = None,
    common: options.Common,
) -> int:
    """Find what is wrong with a dataset. Tar structure, keys, parts, and whether the catalog fits."""
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.validate import renderer
    from wdsctl.core.findings import at_least
    from wdsctl.core.verbs.validate import validate

    with listening(common.output) as progress:
        report = validate(root, catalog=catalog, workers=options.worker_count(workers), progress=progress)
    common.output.answer("validate", report, renderer(limit))
    return 1 if fail_on != "never" and at_least(report.findings, fail_on) else 0
