"""`wdsctl migrate`: what a program uses of Megatron Energon, and the rewritten program."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.energon.migrate import MigrationReport


EPILOG = """
\b
Examples:
  wdsctl migrate train.py            list the uses of Energon
  wdsctl migrate train.py --diff     preview the changes
  wdsctl migrate src/ --write        rewrite all programs below a folder

\b
--write changes imports and renamed names and arguments; everything else in
a file stays as it is. Programs are parsed and never run. Notebooks are not
read. Exits with 1 if something is left to change by hand.
"""


def command(
    path: Annotated[str, typer.Argument(metavar="SCRIPT", help="A Python file, or a folder of them.")],
    *,
    write: Annotated[bool, typer.Option("--write", help="Rewrite the files.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show the changes as a diff. Writes nothing.")] = False,
    common: options.CommonOptions,
) -> int:
    """Rewrite a program for Energon to use wdsctl. Lists the changes; --write applies them."""
    from wdsctl.core.energon.migrate import migrate
    from wdsctl.core.errors import OptionConflict

    if write and diff:
        raise OptionConflict(
            "--diff shows what --write would change",
            options=("--diff", "--write"),
            are_exclusive=True,
            hint="pass one of the two",
        )
    report = migrate(path, write=write)
    if diff and not common.json:
        _write_diffs(report)
    else:
        common.output.answer("migrate", report, render_uses, names=report.changed)
    return 1 if report.needs_hand_work else 0


def _write_diffs(report: MigrationReport) -> None:
    """Write the lines as they are in the files, for `patch`; on a terminal, escape control characters except tabs."""
    from wdsctl.cli.output import write_plain, write_styled

    write = write_plain if sys.stdout.isatty() else write_styled
    write(sys.stdout, "".join([*report.diffs, *(f"{line}\n" for line in _by_hand(report))]))


def render_uses(report: MigrationReport) -> Iterator[RenderableType]:
    from wdsctl.cli.formatting import escape_line
    from wdsctl.core.text import pluralize

    yield from _by_hand(report)
    repeated = Counter((use.found, use.becomes) for use in report.uses if use.kind in ("same", "note"))
    for use in report.uses:
        if use.kind == "rewrite":
            yield escape_line(f"{use.path}:{use.line}: {use.found} -> {use.becomes}")
        elif use.kind != "hand" and (count := repeated.pop((use.found, use.becomes), 0)):
            more = f" (and in {pluralize(count - 1, 'more line')})" if count > 1 else ""
            yield escape_line(f"{use.path}:{use.line}: unchanged: {use.found}: {use.becomes}{more}")
    changed = pluralize(len(report.changed), "file")
    if not report.uses:
        yield f"no use of Energon in {pluralize(report.files, 'file')}"
    elif report.is_written:
        yield f"rewrote {changed}"
    elif report.changed:
        yield f"--write rewrites {changed}"


def _by_hand(report: MigrationReport) -> Iterator[str]:
    from wdsctl.cli.formatting import escape_line

    for use in report.uses:
        if use.kind == "hand":
            yield escape_line(f"{use.path}:{use.line}: by hand: {use.found}: {use.becomes}")
