"""`wdsctl trace`: which samples were in which step of a training."""

from __future__ import annotations

from typing import Annotated

import typer

from wdsctl.cli import options

EPILOG = """
\b
Examples:
  wdsctl trace traces/                            whose traces are there
  wdsctl trace traces/ --step 1200                what all ranks had in it
  wdsctl trace traces/ --step 1200 --rank 3 --out batch/
  wdsctl trace traces/ --key 000042               when it was seen
  wdsctl trace traces/ --counts                   how often samples came
  wdsctl trace traces/ --step 7 --root /old/data=/new/data

\b
FOLDER is what `get_train_dataset(..., trace="FOLDER")` named. With --json,
`restore_key` is what `ban=[...]` takes. Nothing found exits with 3; an answer
with something missing (a damaged file, a dataset that is gone) with 5.
"""


def command(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The folder with the traces of a job.")],
    *,
    step: Annotated[
        int | None, typer.Option("--step", metavar="N", min=0, help="The samples of training step N, from 0.")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option("--batch", metavar="N", min=0, help="The samples of batch N of the whole job, from 0."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="When this sample was seen.")] = None,
    sample_id: Annotated[
        int | None, typer.Option("--id", metavar="ID", min=0, help="The same by the sample's id in the catalog.")
    ] = None,
    counts: Annotated[bool, typer.Option("--counts", help="How often each dataset and its samples came.")] = False,
    rank: Annotated[int | None, typer.Option("--rank", metavar="R", min=0, help="Of this rank alone.")] = None,
    pass_number: Annotated[
        int | None, typer.Option("--pass", metavar="N", min=0, help="Of this pass of a finite stream alone.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Write the samples into DIR as raw files.")
    ] = None,
    root: Annotated[
        list[str] | None,
        typer.Option("--root", metavar="OLD=NEW", help="A dataset, or a folder above, was moved (repeatable)."),
    ] = None,
    common: options.Common,
) -> int:
    """Tell which samples a training had in a step. Reads what the loader's `trace` wrote."""
    from wdsctl.cli.render.trace import render
    from wdsctl.core.findings import at_least
    from wdsctl.core.verbs.trace import TraceOptions, trace

    asked = TraceOptions(
        step=step,
        batch=batch,
        key=key,
        sample_id=sample_id,
        counts=counts,
        rank=rank,
        pass_number=pass_number,
        roots=tuple(root or ()),
        out=out,
        overwrite=common.yes,
    )
    report = trace(folder, asked)
    common.output.answer("trace", report, render)
    return 5 if at_least(report.findings, "error") else 0
