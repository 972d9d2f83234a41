"""`wdsctl repair`: fixed copies of broken shards."""

from __future__ import annotations

from typing import Annotated

import typer

from wdsctl.cli import options
from wdsctl.cli.exit_codes import PARTLY

EPILOG = """
\b
Examples:
  wdsctl repair shards/ fixed/ --dry-run        what would be done
  wdsctl repair shards/ fixed/                  copies of the broken ones
  wdsctl repair shards/ fixed/ --all            and of the sound ones
  wdsctl repair qa.jsonl fixed/ --encoding latin-1
  wdsctl repair shards/ --in-place --yes        each is kept as SHARD.bak

\b
A tail that is cut, headers with wrong checksums, interleaved and duplicate
keys, duplicate parts; of JSONL: BOM, CRLF, lines that are no JSON. What is
lost, or would have to be guessed, is told, and the exit code is 5.
"""


def command(
    root: options.Root,
    dest: Annotated[
        str | None, typer.Argument(metavar="DEST", help="The folder for the fixed copies, outside of ROOT.")
    ] = None,
    *,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Replace the broken shards themselves. Needs --yes.")
    ] = False,
    no_backup: Annotated[
        bool, typer.Option("--no-backup", help="In place: do not keep what was there as .bak.")
    ] = False,
    all_shards: Annotated[bool, typer.Option("--all", help="Copy the sound shards, too.")] = False,
    encoding: Annotated[
        str,
        typer.Option("--encoding", metavar="NAME", help="Of JSONL: lines that are not UTF-8 are read by this."),
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="Shards listed, 0 for all; --json always has all.")
    ] = 20,
    dry_run: options.DryRun = False,
    wait: options.Wait = 0.0,
    workers: options.Workers = None,
    catalog: options.Catalog = None,
    common: options.Common,
) -> int:
    """Write fixed copies of broken shards. ROOT stays as it is, unless --in-place is said."""
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.repair import renderer
    from wdsctl.core.verbs.repair import RepairRequest, repair

    _check(encoding, in_place=in_place, no_backup=no_backup, is_sure=common.yes or dry_run)
    request = RepairRequest(
        dest=dest or "",
        in_place=in_place,
        all_shards=all_shards,
        backup=not no_backup,
        encoding=encoding,
        wait=wait,
        dry_run=dry_run,
    )
    with listening(common.output) as progress:
        report = repair(root, request, catalog=catalog, workers=options.worker_count(workers), progress=progress)
    common.output.answer("repair", report, renderer(limit))
    return PARTLY if report.findings else 0


def _check(encoding: str, *, in_place: bool, no_backup: bool, is_sure: bool) -> None:
    import codecs

    from wdsctl.core.errors import UsageError

    if in_place and not is_sure:
        raise UsageError("--in-place replaces shards, and needs --yes", hint="`--dry-run` shows what it would do")
    if no_backup and not in_place:
        raise UsageError("--no-backup is of --in-place", hint="leave it out: nothing in ROOT is touched")
    try:
        if encoding:
            codecs.lookup(encoding)
    except LookupError as error:
        raise UsageError(
            f"--encoding {encoding}: there is no such encoding", hint="such as latin-1 or cp1252"
        ) from error
