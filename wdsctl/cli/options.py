"""Arguments and options that several or all commands share, and the wrapper that adds them (`with_common`).

Empty paths are refused. An unset shell variable produces them, and they would name the working directory.
"""

from __future__ import annotations

import functools
import inspect
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, Literal, NamedTuple

import typer
from typer.models import ArgumentInfo, ParameterInfo

from wdsctl.cli.completion import add_completers
from wdsctl.cli.declared import typer_info
from wdsctl.cli.errors import is_configured
from wdsctl.cli.formatting import fit_epilog
from wdsctl.cli.output import Output
from wdsctl.cli.sections import SectionedCommand
from wdsctl.core.errors import InputError, OptionConflict, UsageError, refuse_without_effect
from wdsctl.core.invocation import parse_size_bytes
from wdsctl.core.shared_options import CATALOG, DRY_RUN, ROOT, SAMPLE_SEED, SHARD, SPLIT, UNIT_WORKERS, WAIT

#: Metavars of arguments and options that are paths.
PATH_METAVARS = frozenset(
    {
        "A",
        "[B]",
        "DEST",
        "DIR",
        "FILE",
        "FILE|DIR/|-",
        "FILES",
        "FOLDER",
        "JOB",
        "OUT",
        "[OUT]",
        "PATH",
        "ROOT",
        "SCRIPT",
        "SOURCE",
        "SOURCE... DEST",
    }
)


def parse_size_option(text: str | int) -> int:
    """`parse_size_bytes` for Typer, which passes the default, a number, too. Raises typer.BadParameter."""
    try:
        return parse_size_bytes(text)
    except UsageError as error:
        raise typer.BadParameter(f"{error.message}; {error.hint}") from error


def refuse_empty(parameters: Iterable[inspect.Parameter], values: Mapping[str, Any]) -> None:
    """Raise UsageError if the value of a path parameter is empty and is not its default."""
    for parameter in parameters:
        value = values[parameter.name]
        if value == parameter.default or "" not in (value if isinstance(value, list) else [value]):
            continue
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(info, ParameterInfo) and info.metavar in PATH_METAVARS:
                # Within `Annotated`, `default` holds the first name of an option.
                name = info.metavar.strip("[]") if isinstance(info, ArgumentInfo) else info.default
                raise UsageError(
                    f"{'one of ' if isinstance(value, list) else ''}{name} is empty",
                    hint="check whether a variable is unset; write . for the working directory",
                )


RootArgument = Annotated[str, typer_info(ROOT, "root")]


def primary_or_root(root: str) -> str:
    """`wdsctl.core.dataset.polylithic.follow_to_primary`, imported when a command runs."""
    from wdsctl.core.dataset import polylithic

    return polylithic.follow_to_primary(root)


#: Of commands about samples, splits and views: a polylithic dataset has them in its primary.
SamplesArgument = Annotated[
    str,
    typer.Argument(
        metavar="ROOT",
        help="The dataset: a folder with shards at any depth, a .tar or .jsonl file, or a URL of one of these.",
        callback=primary_or_root,
    ),
]
#: Of commands that make the catalog, and so decide which shards it has.
ShardsArgument = Annotated[
    str,
    typer.Argument(
        metavar="ROOT",
        help="The dataset: a folder with shards at any depth, a .tar or .jsonl file, or a URL of one of these. "
        "Or some shards: DIR/a-{000..999}.tar, 'DIR/*.tar', glob:..., @list.txt, - (a list on stdin).",
    ),
]
CatalogOption = Annotated[str | None, typer_info(CATALOG, "catalog")]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", min=1, help="Number of processes. [default: the usable CPUs, at most 16]"),
]
#: Of commands whose work can run on a cluster: `with_common` adds the two options after this one.
UnitWorkersOption = Annotated[int | None, typer_info(UNIT_WORKERS, "workers")]
ExecutorOption = Annotated[
    Literal["local", "ray"],
    typer.Option("--executor", metavar="local|ray", help="Run the work on this machine, or on a Ray cluster."),
]
RayAddressOption = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="ADDRESS",
        help="Ray cluster of --executor ray. [default: RAY_ADDRESS, or a local cluster]",
    ),
]
#: Of commands that read samples.
SplitOption = Annotated[str | None, typer_info(SPLIT, "split")]
ShardOption = Annotated[str | None, typer_info(SHARD, "shard")]
#: Of commands whose report has all findings, whatever is listed for people.
LimitOption = Annotated[
    int,
    typer.Option(
        "--limit", metavar="N", min=0, help="Number of entries to list as text, 0 for all. Other formats list all."
    ),
]
#: Of commands with `--sample`.
SampleSeedOption = Annotated[int, typer_info(SAMPLE_SEED, "seed")]
TimeoutOption = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Cancel a query after this time.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite existing files (same as --yes).")]


WaitOption = Annotated[float, typer_info(WAIT, "wait")]
BreakLockOption = Annotated[
    bool,
    typer.Option(
        "--break-lock",
        help="Remove the lock of a process that has ended; with --yes, also of a process that still runs on this "
        "machine.",
    ),
]
DryRunOption = Annotated[bool, typer_info(DRY_RUN, "dry_run")]

COMMON_OPTIONS: dict[str, Any] = {
    "json": Annotated[bool, typer.Option("--json", help="Print one JSON document.")],
    "quiet": Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only names, without notes. Reports are printed in full.")
    ],
    "no_color": Annotated[bool, typer.Option("--no-color", help="No colors (same as NO_COLOR).")],
    "no_input": Annotated[bool, typer.Option("--no-input", help="Never prompt; fail if an answer is required.")],
    "yes": Annotated[bool, typer.Option("--yes", "-y", help="Answer yes to all confirmations.")],
    "debug": Annotated[bool, typer.Option("--debug", help="Show the traceback of an error (same as WDSCTL_DEBUG=1).")],
    "config": Annotated[
        str | None,
        typer.Option("--config", metavar="FILE", help="Read options from FILE instead of your wdsctl.toml."),
    ],
    "allow_path": Annotated[
        list[str] | None,
        typer.Option(
            "--allow-path",
            metavar="DIR",
            help="Allow links and paths in the data to lead into DIR (repeatable; same as WDSCTL_ALLOW_PATH).",
        ),
    ],
}
CONFIG_FLAG, ALLOW_PATH_FLAG = "--config", "--allow-path"
#: Common options with a value.
COMMON_FLAGS_WITH_VALUE = frozenset({CONFIG_FLAG, ALLOW_PATH_FLAG})
#: All spellings; these may also precede the command.
COMMON_FLAGS = frozenset(
    {"--json", "--quiet", "-q", "--no-color", "--no-input", "--yes", "-y", "--debug", *COMMON_FLAGS_WITH_VALUE}
)
#: A wdsctl.toml in the working directory may have come with data.
UNUSED_CONFIG_MESSAGE = "wdsctl.toml in this folder has no effect; if you trust it, pass `--config wdsctl.toml`"
#: Commands with subcommands.
COMMAND_GROUPS = frozenset({"catalog", "checkpoint", "config", "job", "view"})


class CommonOptions(NamedTuple):
    """The options that every command has."""

    json: bool = False
    quiet: bool = False
    no_color: bool = False
    no_input: bool = False
    yes: bool = False
    debug: bool = False
    config: str | None = None
    allow_path: Sequence[str] | None = None

    @property
    def output(self) -> Output:
        return Output(json=self.json, quiet=self.quiet, no_color=self.no_color)


def _check_current_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise InputError(
            "the current folder has been removed", hint="change into a folder that exists, and run the command again"
        ) from None


def with_common(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options of `COMMON_OPTIONS` to a command, which receives them as its argument `common`.

    Also adds `--break-lock` after `--wait` and `--executor` after `UnitWorkersOption`, adds completion, refuses empty
    paths, allows the folders of `--allow-path`, and leaves out configured options that do not fit the others. Typer
    reads options from a function's signature, so the wrapper has a signature of its own.
    """

    def run(values: dict[str, Any], common: CommonOptions) -> int:
        breaks_lock = values.pop("break_lock", False)
        executor, ray_address = values.pop("executor", "local"), values.pop("ray_address", None)
        refuse_without_effect(("--ray-address", ray_address, "--executor ray", executor == "ray"))
        with (
            _break_lock(common) if breaks_lock else nullcontext(),
            _use_ray(common, ray_address, values) if executor == "ray" else nullcontext(),
        ):
            return function(**values, common=common)

    @functools.wraps(function)
    def command(**values: Any) -> int:
        _check_current_folder()
        context: typer.Context = values.pop("context")
        common = CommonOptions(**{name: values.pop(name) for name in COMMON_OPTIONS})
        if common.allow_path:  # before anything is opened, and for worker processes
            from wdsctl.core.safe_open import allow_path

            allow_path(*common.allow_path)
        refuse_empty(parameters, values)
        from wdsctl.cli.config_file import has_unused_config

        if not common.json and has_unused_config(os.environ, common.config):
            common.output.note(UNUSED_CONFIG_MESSAGE)
        try:
            while True:
                try:
                    return run(dict(values), common)
                except OptionConflict as conflict:
                    if not reset_configured(conflict, context, values, defaults):
                        raise
        except BrokenPipeError as error:
            # A closed stdout raises PipeClosed. Any other broken pipe is between our own processes; Typer would take it
            # for a closed stdout.
            raise RuntimeError("a pipe between processes of wdsctl broke") from error

    parameters = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "common"]
    add_completers(parameters)
    common_parameters = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=getattr(CommonOptions(), name), annotation=annotation
        )
        for name, annotation in COMMON_OPTIONS.items()
    ]
    signature = [*parameters, *common_parameters]
    wait_index = next((i for i, parameter in enumerate(parameters) if parameter.name == "wait"), None)
    if wait_index is not None:
        break_lock = inspect.Parameter(
            "break_lock", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=BreakLockOption
        )
        signature.insert(wait_index + 1, break_lock)
    workers_index = next((i for i, each in enumerate(signature) if _may_use_cluster(each)), None)
    if workers_index is not None:
        signature[workers_index + 1 : workers_index + 1] = [
            inspect.Parameter("executor", inspect.Parameter.KEYWORD_ONLY, default="local", annotation=ExecutorOption),
            inspect.Parameter("ray_address", inspect.Parameter.KEYWORD_ONLY, annotation=RayAddressOption, default=None),
        ]
    defaults = {parameter.name: parameter.default for parameter in signature}
    signature.append(inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))
    command.__signature__ = inspect.Signature(signature, return_annotation=int)  # type: ignore[attr-defined]
    return command


def _may_use_cluster(parameter: inspect.Parameter) -> bool:
    return any(
        getattr(info, "help", "") == UNIT_WORKERS.help for info in getattr(parameter.annotation, "__metadata__", ())
    )


def reset_configured(
    conflict: OptionConflict, context: typer.Context, values: dict[str, Any], defaults: Mapping[str, Any]
) -> bool:
    """Give the options of a conflict that are configured their defaults; returns whether any of `values` changed.

    Of options that exclude each other, at least one must come from the command line.
    """
    flags = {flag: each.name for each in context.command.params for flag in (*each.opts, *each.secondary_opts)}
    names = [flags.get(flag, "") for flag in conflict.options]
    given = [name for name in names if not name or values.get(name) != defaults.get(name)]
    configured = [name for name in given if name and is_configured(context, name)]
    if conflict.are_exclusive and len(configured) == len(given):
        return False
    values.update({name: defaults[name] for name in configured})
    return bool(configured)


def make_group(*commands: tuple[str, Callable[..., int], str]) -> typer.Typer:
    """A command that has commands: (name, function, epilog). Without one it shows its help and exits with 2."""
    group = typer.Typer(rich_markup_mode=None, no_args_is_help=False)
    group.callback(invoke_without_command=True)(exit_with_help)
    for name, function, epilog in commands:
        epilog_text = fit_epilog(epilog, terminal_columns())
        group.command(name, cls=SectionedCommand, epilog=epilog_text)(with_common(function))
    return group


def terminal_columns() -> int:
    """Columns of the terminal, or of COLUMNS; 80 without either."""
    return shutil.get_terminal_size().columns


def exit_with_help(context: typer.Context) -> None:
    """Without a command, show the help. A group such as `view` then misses its command, which is an error of usage."""
    if context.invoked_subcommand is None:
        is_group = context.parent is not None
        typer.echo(context.get_help(), err=is_group)
        raise typer.Exit(2 if is_group else 0)


def _break_lock(common: CommonOptions) -> AbstractContextManager[None]:
    from wdsctl.core.dataset.lock import break_locks

    return break_locks(common.output.note, breaks_running=common.yes)


def _use_ray(common: CommonOptions, address: str | None, values: Mapping[str, Any]) -> AbstractContextManager[None]:
    from wdsctl.core.executors.ray_cluster import using_ray
    from wdsctl.core.jobs import has_chosen_executor

    if has_chosen_executor():
        raise OptionConflict(
            "a job runs its command as tasks, and --executor ray would run all of it now",
            options=("--executor",),
            hint="omit `--executor ray`; or run the command without `wdsctl job`",
        )
    if values.get("in_place"):
        raise OptionConflict(
            "--in-place works on this machine only: a dying node could leave a shard half written",
            options=("--in-place", "--executor"),
            are_exclusive=True,
            hint="omit `--executor ray`, or pass DEST",
        )
    return using_ray(address, values["workers"], common.output.note)


def rewrite_help_words(args: list[str]) -> list[str]:
    """Turn `help`, `help COMMAND` and `version`, which people try first, into the options that do the same."""
    match args:
        case ["help", *words]:
            return [*words, "--help"]
        case ["version"]:
            return ["--version"]
        case _:
            return args


def move_common_options(args: list[str]) -> list[str]:
    """Move common options behind the command: `--json inspect X` becomes `inspect --json X`."""
    before, command, after = _split_common_options(args)
    if command in COMMAND_GROUPS:
        between, inner, rest = _split_common_options(after)
        return [command, *([inner] if inner else []), *before, *between, *rest]
    return [command, *before, *after] if command else args


def split_command(args: list[str]) -> tuple[str, list[str]]:
    """The command (one word, or two in a group such as `view create`) and the arguments after it."""
    size = 2 if args[:1] and args[0] in COMMAND_GROUPS else 1
    return " ".join(args[:size]), args[size:]


def _split_common_options(args: list[str]) -> tuple[list[str], str, list[str]]:
    """The leading common options, the command after them (or an empty string), and the rest."""
    leading = 0
    while leading < len(args) and args[leading].partition("=")[0] in COMMON_FLAGS:
        leading += 2 if args[leading] in COMMON_FLAGS_WITH_VALUE else 1
    if leading >= len(args) or args[leading].startswith("-"):
        return args[:leading], "", args[leading:]
    return args[:leading], args[leading], args[leading + 1 :]
