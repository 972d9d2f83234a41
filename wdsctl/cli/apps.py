"""The commands, as Typer has them: only those that a command line needs, since reading them all takes longer than help.

A command's module is imported, and its options are read, when it is the one to be run. For the list of all commands
their names and first lines do, which are here; a test holds them against the modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated

import typer

from wdsctl.cli.options import GROUPS, with_common
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

#: Every command, in the order of help: what its own help begins with.
SUMMARIES = {
    "prepare": "Make a dataset that can be trained on.",
    "index": "Bring the catalog up to date. Only shards that are new or have changed are read.",
    "split": "Say which samples train, validate and test. The shards are not touched.",
    "convert": "Write a dataset in another form.",
    "inspect": "Show what is in a dataset or a blend file. A summary, samples, or statistics.",
    "get": "Write one part of a sample to stdout or a file, by its key.",
    "ls": "List the shards of a dataset, its samples or their parts.",
    "validate": (
        "Find what is wrong with a dataset. Tar structure, keys, parts, whether the catalog fits; more by --level."
    ),
    "repair": "Write fixed copies of broken shards. ROOT stays as it is, unless --in-place is said.",
    "sql": "Ask the catalog in SQL. Reads the documented views, row by row.",
    "diff": "Compare two datasets. Shards and samples added, removed, moved, changed; splits.",
    "log": "List what was done to a dataset. When, how it ended, from what to what.",
    "checksum": "Write the hash of every shard, or check shards against hashes.",
    "trace": "Tell which samples a training had in a step. Reads what the loader's `trace` wrote.",
    "explain": "Say what an error code means and what to do about it.",
    "catalog": "Look after the catalog: info, check, migrate, vacuum.",
    "view": "Freeze selections of samples, to train on or to convert.",
    "config": "Look at the configuration: show, path, check.",
    "checkpoint": "Look at, unite and compare saved states.",
}


def app_for(words: Sequence[str], *, is_completing: bool = False) -> typer.Typer:
    """What runs this command line."""
    if is_completing:
        return full_app()
    return _with(words[:1]) if words and words[0] in SUMMARIES else _listing()


@cache
def full_app() -> typer.Typer:
    """All commands with all their options."""
    return _with(SUMMARIES)


def _with(names: Iterable[str]) -> typer.Typer:
    app = _bare()
    for name in names:
        module = import_module(f"wdsctl.cli.commands.{name}")
        if name in GROUPS:
            app.add_typer(module.group, name=name, help=module.HELP, epilog=module.EPILOG)
        else:
            app.command(name, epilog=module.EPILOG)(with_common(module.command))
    return app


def _listing() -> typer.Typer:
    """All commands by their names: enough for help, and for a word that is none of them."""
    app = _bare()
    for name, summary in SUMMARIES.items():
        app.command(name, help=summary)(_nothing)
    return app


def _nothing() -> None: ...


def _bare() -> typer.Typer:
    # Plain help (no Rich panels): it starts in half the time, and its text can be compared.
    app = typer.Typer(
        name="wdsctl",
        help="Prepare and manage WebDataset datasets, and feed training from them, exactly.",
        epilog=EPILOG,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    return app


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"wdsctl {VERSION}")
        raise typer.Exit


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
