"""The command line: the commands, and the one place where errors end."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from wdsctl.cli import errors
from wdsctl.cli.bare_options import filled
from wdsctl.cli.commands import checkpoint, explain, index, inspect, prepare, split, trace, validate
from wdsctl.cli.options import common_first, with_common
from wdsctl.cli.output import PipeClosed, write
from wdsctl.core.errors import WdsctlError
from wdsctl.version import VERSION

EPILOG = """
\b
Examples:
  wdsctl prepare photos/ shards/ --split 8,1,1   from raw files
  wdsctl prepare shards/                         a folder of tars, in place
  wdsctl inspect shards/                         what is in it
  wdsctl validate shards/ && python train.py     stop if something is wrong

\b
Exit codes: 0 done, 1 findings, 2 usage, 3 input missing or unreadable,
  4 permission, 5 partly done, 6 catalog locked or incompatible,
  130 interrupted.

\b
Results go to stdout, all else to stderr. --json, --quiet, --no-color,
--no-input, --yes and --debug work with every command.
"""

# Plain help (no Rich panels): it starts in half the time, and its text can be compared.
app = typer.Typer(
    name="wdsctl",
    help="Prepare and manage WebDataset datasets, and feed training from them, exactly.",
    epilog=EPILOG,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, module in (
    ("prepare", prepare),
    ("index", index),
    ("split", split),
    ("inspect", inspect),
    ("validate", validate),
    ("trace", trace),
    ("explain", explain),
):
    app.command(name, epilog=module.EPILOG)(with_common(module.command))
app.add_typer(checkpoint.group, name="checkpoint", help=checkpoint.HELP, epilog=checkpoint.EPILOG)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"wdsctl {VERSION}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001 - its callback has answered already
        bool,
        typer.Option("--version", "-V", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code. Every error ends here."""
    words = filled(common_first(list(sys.argv[1:] if argv is None else argv)))
    manner = errors.Manner.of(words)
    try:
        try:
            return _run(words)
        except typer.TyperException as error:
            return errors.report(errors.from_typer(error), manner)
        except WdsctlError as error:
            return errors.report(error, manner)
    except PipeClosed:
        return _pipe_closed()
    except Exception:  # noqa: BLE001 - the one boundary: what is not ours is a bug, and keeps its traceback
        return errors.bug()


def run() -> None:
    """The console script."""
    sys.exit(main())


def _run(words: list[str]) -> int:
    try:
        code = app(args=words, prog_name="wdsctl", standalone_mode=False) or 0
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise PipeClosed from error
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except SystemExit as error:
        # Typer ends so when stdout closes under its help, and when it has answered a shell's request for completion.
        if isinstance(error.__context__, BrokenPipeError):
            raise PipeClosed from error
        code = error.code if isinstance(error.code, int) else 0
    if code == 130:
        write(sys.stderr, f"{errors.INTERRUPTED}\n")
    return int(code)


def _pipe_closed() -> int:
    """Quiet, with a shell's code for SIGPIPE. What is still buffered goes nowhere, or Python would complain at exit."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.close(devnull)
    return 141
