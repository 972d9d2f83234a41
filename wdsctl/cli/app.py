"""Build the Typer application for a command line, importing only the command that runs.

`--help` lists names and summaries from `SUMMARIES`, without importing the commands: all of them take twice as long to
import as typer and rich. A test compares the summaries with the commands.

Two more things are added to Typer. It passes every option value to pydantic, which takes longer to import than a short
command runs, so plain values are converted here (`use_plain_coercion`). Its options cannot have an optional value, so
`fill_bare_options` inserts the value before parsing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from wdsctl.cli.formatting import fit_epilog
from wdsctl.cli.options import COMMAND_GROUPS, COMMON_FLAGS, exit_with_help, terminal_columns, with_common
from wdsctl.cli.sections import with_sections
from wdsctl.core.errors import UsageError
from wdsctl.core.version import VERSION

EPILOG = """
\b
Examples:
  wdsctl prepare photos/ shards/ --split 8,1,1   from raw files
  wdsctl prepare shards/                         a folder of tars, in place
  wdsctl inspect shards/                         a summary
  wdsctl validate shards/ && python train.py     train only without errors

\b
Exit codes: 0 success, 1 findings, 2 usage, 3 input missing or unreadable,
  4 permission, 5 partly done, 6 catalog locked or incompatible,
  130 interrupted.

\b
Results go to stdout, everything else to stderr. --json, --quiet, --no-color,
--no-input, --yes and --debug work with every command.
"""

#: Command -> first paragraph of its help, in the order of `wdsctl --help`.
SUMMARIES = {
    "prepare": "Build a training dataset from raw files, tables, tars or JSONL.",
    "index": "Update the catalog. Reads only new and changed shards.",
    "split": "Assign samples to splits such as train, val and test. Does not modify shards.",
    "convert": "Write a new dataset from existing ones.",
    "export": "Write metadata for other tools beside the shards. Opens no shard.",
    "init": "Write a training script, blend file and README for a dataset.",
    "inspect": "Show what a dataset or a blend file contains. Prints a summary, samples, or statistics.",
    "get": "Write one part of a sample to stdout or a file, by its key. With --keys, of many samples.",
    "ls": "List the shards, samples or parts of a dataset.",
    "validate": "Check a dataset for errors. Checks tar structure, keys, parts and catalog; --level selects further "
    "checks.",
    "repair": "Write fixed copies of broken shards. Does not modify ROOT without --in-place.",
    "sql": "Query the catalog with SQL. Reads the documented views.",
    "diff": "Compare two datasets. Lists added, removed, moved and changed shards and samples, and splits.",
    "log": "Show the history of a dataset. Lists every run with its time, outcome and generation.",
    "checksum": "Write the hash of every shard, or check shards against hashes.",
    "trace": "Show which samples were in a training step. Reads the loader's traces.",
    "migrate": "Rewrite a program for Energon to use wdsctl. Lists the changes; --write applies them.",
    "doctor": "Print versions and system facts for a bug report.",
    "explain": "Explain an error code and what to do about it.",
    "skill": "Print how to use this version, as a skill for coding agents.",
    "job": "Run a command as tasks of an array job. Works with any scheduler and a shared folder.",
    "catalog": "Inspect, check and compact the catalog.",
    "view": "Manage views: named, frozen selections of samples.",
    "config": "Show the configuration.",
    "checkpoint": "Inspect, redistribute and compare saved loader states.",
}


def build_app(args: Sequence[str], *, is_completing: bool = False) -> typer.Typer:
    """The application for a command line: its command, or for anything else the list of all commands."""
    if is_completing:
        return build_full_app()
    return _build_app(args[:1]) if args and args[0] in SUMMARIES else _build_summary_app()


@cache
def build_full_app() -> typer.Typer:
    """The application with all commands and all their options."""
    return _build_app(SUMMARIES)


def _build_app(names: Iterable[str]) -> typer.Typer:
    app = _build_empty_app()
    columns = terminal_columns()
    for name in names:
        module = import_module(f"wdsctl.cli.commands.{name}")
        if name in COMMAND_GROUPS:
            app.add_typer(module.group, name=name, help=module.HELP, epilog=fit_epilog(module.EPILOG, columns))
        else:
            kind = with_sections(getattr(module, "HELP_SECTIONS", {}))
            app.command(name, cls=kind, epilog=fit_epilog(module.EPILOG, columns))(with_common(module.command))
    return app


def _build_summary_app() -> typer.Typer:
    """All commands without options: enough for `--help` and for the suggestion after an unknown command."""
    app = _build_empty_app()
    for name, summary in SUMMARIES.items():
        app.command(name, help=summary)(_placeholder_command)
    return app


def _placeholder_command() -> None: ...


def _build_empty_app() -> typer.Typer:
    # Help without Rich panels starts in half the time, and golden files can hold its text.
    app = typer.Typer(
        name="wdsctl",
        help="Build and manage WebDataset datasets for training.",
        epilog=fit_epilog(EPILOG, terminal_columns()),
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        # Typer's help takes at least 50 columns, unless it is given a width.
        context_settings={"help_option_names": ["-h", "--help"], "terminal_width": min(terminal_columns(), 80) - 2},
    )
    app.callback(invoke_without_command=True)(_root)
    return app


def _show_version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"wdsctl {VERSION}")
        raise typer.Exit


def _root(
    context: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001 - its callback has handled it
        bool,
        typer.Option("--version", "-V", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    exit_with_help(context)


_INTEGER = re.compile(r"[0-9]{1,15}")
_DECIMAL = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")


class NotPlainValue(Exception):  # noqa: N818 - not an error: Typer converts the value
    """A value that Typer must convert or refuse."""


def use_plain_coercion(command: Any, above: typer.Context | None = None) -> Any:
    """Convert plain values of a command's parameters without pydantic, and of its subcommands; returns the command.

    Replaces Typer's private `get_runtime_param`. A version of Typer without it is left unchanged.
    """
    context = typer.Context(command, parent=above, **command.context_settings)
    for parameter in command.get_params(context):  # includes --help, which this call creates
        typer_param = getattr(parameter, "get_runtime_param", None)
        if typer_param is not None:
            parameter.get_runtime_param = partial(_Coercion, typer_param)
    for inner in getattr(command, "commands", {}).values():
        use_plain_coercion(inner, context)
    return command


class _Coercion:
    """Converts the value of an option; replaces Typer's object of the same interface."""

    def __init__(self, typer_param: Callable[[], Any]) -> None:
        self._typer_param = typer_param

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        descriptor = param.type_descriptor
        try:
            return coerce_plain(value, descriptor.annotation, descriptor.parameter_info)
        except NotPlainValue:
            return self._typer_param().coerce(value, param=param, ctx=ctx)


def coerce_plain(value: Any, annotation: Any, info: Any) -> Any:
    """The value of an option of type `annotation`. Raises NotPlainValue if Typer must decide."""
    if get_origin(annotation) is list and isinstance(value, list | tuple):
        return [coerce_plain(each, get_args(annotation)[0], info) for each in value]
    if info.parser is not None:
        return _parse_value(value, info.parser)
    if annotation is str and isinstance(value, str):
        return value
    if get_origin(annotation) is Literal and value in get_args(annotation) and info.case_sensitive:
        return value
    if annotation in (int, float) and not info.clamp:
        return _check_range(_to_number(value, annotation), info.min, info.max)
    raise NotPlainValue


def _parse_value(value: Any, parser: Callable[[Any], Any]) -> Any:
    try:
        return parser(value)
    except (ValueError, AssertionError) as error:
        raise NotPlainValue from error


def _to_number(value: Any, kind: type[int | float]) -> int | float:
    pattern = _INTEGER if kind is int else _DECIMAL
    if isinstance(value, str) and pattern.fullmatch(value):
        return kind(value)
    if type(value) is kind:
        return value
    raise NotPlainValue


def _check_range(value: float, low: float | None, high: float | None) -> float:
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        raise NotPlainValue
    return value


def refuse_repeated_options(command: Any, args: Sequence[str]) -> None:
    """Raise UsageError for an option that has one value and is given twice with different ones: the first would have no
    effect."""
    words = list(args)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    options = (each for each in command.params if getattr(each, "opts", None) and not getattr(each, "is_flag", True))
    parameters = {name: each for each in options if each.nargs == 1 for name in each.opts if name not in COMMON_FLAGS}
    given: dict[str, str] = {}
    while words and words[0] != "--":
        name, has_value, value = words.pop(0).partition("=")
        parameter = parameters.get(name)
        if parameter is None:
            continue
        value = value if has_value else "".join(words[:1])
        words = words if has_value else words[1:]
        if not parameter.multiple and given.setdefault(parameter.name, value) != value:
            raise UsageError(
                f"{name} is given twice: {given[parameter.name]!r} would have no effect",
                hint=f"pass {name} once, with {value!r} or with both in one value if the option takes several",
            )


#: Option -> its value if the user gives none.
BARE_OPTION_VALUES: Mapping[str, str] = {"--leaks": "auto", "--media": "auto", "--wait": "604800"}

#: Commands with another option of the same name, whose value is required.
BARE_OPTION_EXCEPTIONS = frozenset({("convert", "--media")})

#: Those whose value is a number: any other word belongs to something else.
NUMERIC_OPTIONS = frozenset({"--wait"})


def fill_bare_options(args: Sequence[str]) -> list[str]:
    """The arguments with a value after every option of `BARE_OPTION_VALUES` that has none.

    The next argument is its value unless that is an option or can only be a path, as in `--media shards/`.
    """
    filled: list[str] = []
    for i, word in enumerate(args):
        filled.append(word)
        if word == "--":
            return [*filled, *args[i + 1 :]]
        if (
            word in BARE_OPTION_VALUES
            and (args[0], word) not in BARE_OPTION_EXCEPTIONS
            and (i + 1 == len(args) or _is_not_value(args[i + 1], word))
        ):
            filled.append(BARE_OPTION_VALUES[word])
    return filled


def _is_not_value(word: str, option: str) -> bool:
    if option in NUMERIC_OPTIONS and not word.replace(".", "", 1).isdecimal():
        return True
    return word.startswith("-") or "/" in word or word in (".", "..", "")
