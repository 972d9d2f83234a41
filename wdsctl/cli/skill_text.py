"""The text of `wdsctl skill`: how to use this version, for coding agents. Made from the help of the commands."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import typer
from typer.main import get_command

from wdsctl.cli.app import EPILOG, build_full_app
from wdsctl.cli.options import COMMON_OPTIONS
from wdsctl.core.version import VERSION

SKILL_NAME = "wdsctl"
DESCRIPTION = (
    "Build, inspect, check, query, split and convert WebDataset datasets (tar shards or JSONL) with the command line "
    "wdsctl. Use it for folders of .tar shards, for raw media, texts or tables that become training data, and for "
    "codes such as WDS102."
)

#: A test runs the commands of these tasks, one after the other, in a folder with `photos/`: pairs of jpg and txt.
TASKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Build a dataset from raw files",
        ("wdsctl prepare photos shards --split 8,1,1 --no-input", "wdsctl inspect shards --json"),
    ),
    (
        "Read samples",
        ("wdsctl ls shards --samples", "wdsctl get shards 0001 -p txt", "wdsctl inspect shards --samples 2 --json"),
    ),
    (
        "Check a dataset, explain a code",
        ("wdsctl validate shards --json", "wdsctl explain WDS102"),
    ),
    (
        "Ask the catalog, and keep the answer as a view",
        (
            "wdsctl sql shards \"SELECT key, size FROM v_part WHERE part = 'jpg' ORDER BY size DESC LIMIT 3\"",
            "wdsctl view create shards large --where \"part = 'jpg' AND size > 300\"",
        ),
    ),
    (
        "Write a dataset from samples of another one, and a script that trains",
        ("wdsctl convert shards@large subset", "wdsctl init shards run"),
    ),
)

_EXIT_CODES = " ".join(EPILOG.partition("Exit codes: ")[2].partition("\n\n")[0].split())
RULES = f"""\
- stdout has the answer, stderr everything else. `--json` gives every answer as one document. Its schema has the name of
  the command, such as view-list; that of a failed command is error: `code`, `message`, `where`, `hint`.
- Exit codes: {_EXIT_CODES}
- `--quiet` prints only the names of what is listed or written, one per line.
- In a pipe under a coding agent, lists are TSV and reports JSON, unless `WDSCTL_AGENT=0`.
- Pass `--no-input`, and `--dry-run` before you write much. `--yes` and options such as `--accept-type`
  confirm: ask the user first.
- Every command also has `--no-color`, `--debug`, `--config FILE`, `--allow-path DIR` and `--help`.
- `shards@NAME` is the view NAME of the dataset `shards`.
"""


class _Parameter(NamedTuple):
    """An argument or option of a command. `name`: `--seed`; `signature`: `--seed N`."""

    name: str
    signature: str
    help: str
    is_argument: bool


class _Command(NamedTuple):
    name: str
    summary: str
    parameters: list[_Parameter]


def skill_text() -> str:
    """Markdown with the front matter of an agent skill. Imports all commands."""
    commands = list(_commands(get_command(build_full_app()), ()))
    shared = _shared(commands)
    parts = [
        f"---\nname: {SKILL_NAME}\ndescription: {DESCRIPTION}\n---\n",
        f"# wdsctl {VERSION}\n",
        RULES,
        "## Tasks\n",
        *("\n".join([f"{title}:\n", "```sh", *lines, "```\n"]) for title, lines in TASKS),
        "## Commands\n",
        "Parameters of several commands, which name them after `+`:\n",
        _block(map(_line, shared)),
        "All commands, each with its own parameters:\n",
        _block(line for command in commands for line in _command_lines(command, shared)),
    ]
    return "\n".join(parts)


def _shared(commands: Sequence[_Command]) -> list[_Parameter]:
    """The parameters that more than one command has; of two with the same name, the one of more commands."""
    used = Counter(parameter for command in commands for parameter in command.parameters)
    shared: dict[str, _Parameter] = {}
    for parameter, times in used.most_common():
        if times > 1:
            shared.setdefault(parameter.name, parameter)
    return list(shared.values())


def _block(lines: Iterable[str]) -> str:
    return "\n".join(["```text", *lines, "```\n"])


def _command_lines(command: _Command, shared: Sequence[_Parameter]) -> Iterator[str]:
    arguments = [each.signature for each in command.parameters if each.is_argument]
    known = [each.name for each in command.parameters if each in shared and not each.is_argument]
    yield " ".join([f"{command.name}", *arguments]) + f": {command.summary}"
    if known:
        yield f"  + {' '.join(known)}"
    explained = {each.name for each in shared if each.is_argument}
    own = [each for each in command.parameters if each not in shared and each.name not in explained]
    yield from (f"  {_line(each)}" for each in own)


def _line(parameter: _Parameter) -> str:
    """`--seed N: Seed of split`. Articles would be a tenth of all words."""
    in_short = re.sub(r"\b([Tt]he|[Aa]n?) ", "", parameter.help)
    signature = parameter.name if parameter.is_argument else parameter.signature
    return f"{signature}: {in_short[:1].upper()}{in_short[1:]}"


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[_Command]:
    """All commands below a group."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            params = command.get_params(typer.Context(command))
            own = [_parameter(each) for each in params if each.name not in {*COMMON_OPTIONS, "help"}]
            yield _Command(" ".join((*path, name)), _in_short(command.help), own)


def _parameter(param: Any) -> _Parameter:
    if param.param_type_name == "argument":
        name = param.metavar.strip("[]")
        return _Parameter(name, name if param.required else f"[{name}]", _in_short(param.help), is_argument=True)
    flags = "/".join([*param.opts, *param.secondary_opts])
    signature = f"{flags} {param.metavar}" if param.metavar else flags
    return _Parameter(max(param.opts, key=len), signature, _in_short(param.help, signature), is_argument=False)


def _in_short(text: str, signature: str = "") -> str:
    """The first clause of a help text, without remarks in brackets, and without a list of the values that are known."""
    plain = re.sub(r" *(\([^)]*\)|\[[^]]*\])", "", " ".join(text.split()))
    clause = re.split(r"(?<=[^.])\.(?=\s|$)|;", plain, maxsplit=1)[0]
    return clause.partition(": ")[0] if "|" in signature and ": " in clause[20:] else clause
