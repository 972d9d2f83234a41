"""What options are set to where the command line does not say: by variables, and by a configuration file.

The strongest first: the variable of a command's option, the variable of an option of all commands, the file (a
command's table, then what stands above all tables). The file is the user's own, or the one that they name.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from wdsctl.core.config_file import NONE, VARIABLE, Candidate, candidates, tables
from wdsctl.core.errors import UsageError, WdsctlError
from wdsctl.core.fields import did_you_mean

Kind = Literal["flag", "value", "many", "bare"]

#: Command ("view create") -> option ("shard-size") -> what it takes. `bare`: a value that may be left out.
Schema = Mapping[str, Mapping[str, Kind]]

#: Options that no configuration may set: they confirm, run code, write files, or change what a script reads.
NEVER = frozenset(
    {"break-lock", "catalog", "catalog-b", "column", "config", "debug", "json", "output", "trust-code", "yes"}
)
#: Variables that are no options.
OTHERS = frozenset({"WDSCTL_ALLOW_PATH", "WDSCTL_CATALOG", "WDSCTL_CONFIG", "WDSCTL_DEBUG", "WDSCTL_NO_COLOR"})

_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off", ""})


class Setting(NamedTuple):
    """An option's value, and where it is from: a variable, or a file and the key in it."""

    command: str
    option: str
    value: Any
    origin: str
    key: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong in a configuration. `where`: the file or variable."""

    message: str
    where: str
    hint: str = ""

    def as_error(self) -> UsageError:
        hint = self.hint or f"mend it, or go without: {VARIABLE}={NONE}"
        return UsageError(self.message, where=self.where, hint=hint, code="WDS010")


@dataclass(frozen=True, slots=True)
class Config:
    """`settings`: those in force, by command and option. `files`: those that were read. `problems`: what is wrong;
    `unknown`: variables that begin like ours and are none."""

    settings: Mapping[tuple[str, str], Setting]
    files: tuple[Candidate, ...]
    problems: tuple[Problem, ...]
    unknown: tuple[Problem, ...]

    def of(self, command: str) -> dict[str, Setting]:
        """What is set for a command, by option."""
        return {option: setting for (name, option), setting in self.settings.items() if name == command}


def is_any(environment: Mapping[str, str], named: str | None = None) -> bool:
    """Whether there is any configuration: what most runs ask, and nothing else."""
    return any(name.startswith("WDSCTL_") and name not in OTHERS for name in environment) or bool(
        candidates(environment, named)
    )


def read_config(schema: Schema, environment: Mapping[str, str], named: str | None = None) -> Config:
    """All that is configured. `named`: the file of `--config`. What is wrong is in `problems`: nothing is raised."""
    problems: list[Problem] = []
    unknown: list[Problem] = []
    settings: dict[tuple[str, str], Setting] = {}
    files = candidates(environment, named)
    for found in (
        _of_variables(schema, environment, problems, unknown),
        *(_of_file(schema, f, problems) for f in files),
    ):
        for setting in found:  # the strongest come first
            settings.setdefault((setting.command, setting.option), setting)
    return Config(settings, tuple(files), tuple(problems), tuple(unknown))


def variable_of(option: str, command: str = "") -> str:
    """`WDSCTL_INDEX_WORKERS`, or without a command `WDSCTL_WORKERS`."""
    return "_".join(["WDSCTL", *command.split(), option]).upper().replace("-", "_")


def _of_variables(
    schema: Schema, environment: Mapping[str, str], problems: list[Problem], unknown: list[Problem]
) -> list[Setting]:
    close: dict[str, list[tuple[str, str]]] = {}
    wide: dict[str, list[tuple[str, str]]] = {}
    for command, options in schema.items():
        for option in options:
            close.setdefault(variable_of(option, command), []).append((command, option))
            wide.setdefault(variable_of(option), []).append((command, option))
    mine = {n: v for n, v in sorted(environment.items()) if n.startswith("WDSCTL_") and n not in OTHERS}
    found = []
    for names in (close, wide):
        for variable in sorted(mine.keys() & names.keys()):
            if names is wide and variable in close:
                continue
            for command, option in names[variable]:
                value = _spelt(mine[variable], schema[command][option])
                if isinstance(value, Problem):
                    problems.append(Problem(value.message, variable))
                    break
                found.append(Setting(command, option, value, variable, variable))
    for variable in mine.keys() - close.keys() - wide.keys():
        clue = did_you_mean(variable, [*close, *wide])
        unknown.append(Problem("the variable is of no option", variable, clue))
    return found


def _of_file(schema: Schema, file: Candidate, problems: list[Problem]) -> list[Setting]:
    try:
        content = tables(file.path)
    except WdsctlError as error:
        problems.append(Problem(error.message, error.where, error.hint))
        return []
    groups = {command.split()[0] for command in schema if " " in command}
    wide: dict[str, Any] = {}
    close: list[Setting] = []
    for key, value in content.items():
        if key in schema or key in groups:
            close += _of_table(schema, groups, key, value, file.path, problems)
        elif isinstance(value, dict):
            problems.append(_no_such("command", key, {*schema, *groups}, file.path))
        else:
            wide[key] = value
    return [*close, *_of_all(schema, wide, file.path, problems)]


def _of_table(
    schema: Schema, groups: set[str], command: str, value: Any, path: str, problems: list[Problem]
) -> Iterator[Setting]:
    if not isinstance(value, dict):
        problems.append(Problem(f"{command}: a table of options is needed, such as [{command}]", path))
        return
    for key, inner in value.items():
        if command in groups:
            name = f"{command} {key}"
            if name in schema:
                yield from _of_table(schema, set(), name, inner, path, problems)
            else:
                inside = {each.partition(" ")[2] for each in schema if each.startswith(f"{command} ")}
                problems.append(_no_such(f"command of {command}", key, inside, path))
            continue
        yield from _set(schema, [command], key, inner, path, f"{command.replace(' ', '.')}.{key}", problems)


def _of_all(schema: Schema, values: Mapping[str, Any], path: str, problems: list[Problem]) -> Iterator[Setting]:
    for key, value in values.items():
        option = key.replace("_", "-")
        commands = [command for command, options in schema.items() if option in options]
        yield from _set(schema, commands, key, value, path, key, problems)


def _set(
    schema: Schema, commands: list[str], key: str, value: Any, path: str, said: str, problems: list[Problem]
) -> Iterator[Setting]:
    option = key.replace("_", "-")
    if option in NEVER:
        problems.append(Problem(f"{said}: this option cannot be configured; it is given each time", path))
        return
    known = {name for command in commands or schema for name in schema[command]}
    if option not in known:
        problems.append(_no_such("option", said, known, path, option))
        return
    for command in commands:
        made = _typed(value, schema[command][option])
        if isinstance(made, Problem):
            problems.append(Problem(f"{said}: {made.message}", path))
            return
        yield Setting(command, option, made, path, said)


def _no_such(what: str, said: str, known: set[str], path: str, word: str = "") -> Problem:
    return Problem(f"there is no {what} {said}", path, did_you_mean(word or said, sorted(known)))


def _spelt(text: str, kind: Kind) -> Any:
    """The value of a variable."""
    low = text.strip().lower()
    if kind == "flag":
        if low in _TRUE | _FALSE:
            return low in _TRUE
        return Problem(f"{text!r} is neither true nor false", "")
    if kind == "many":
        try:
            return shlex.split(text)
        except ValueError as error:
            return Problem(f"the words do not parse: {error}", "")
    if kind == "bare" and low in ("true", "false"):
        return low == "true"
    return text


def _typed(value: Any, kind: Kind) -> Any:
    """The value in a file, as the command line would have it."""
    if kind == "flag":
        return value if isinstance(value, bool) else Problem("true or false is needed", "")
    if kind == "many":
        values = value if isinstance(value, list) else [value]
        made = [_word(each) for each in values]
        return Problem("a list of texts is needed", "") if None in made else made
    if kind == "bare" and isinstance(value, bool):
        return value
    word = _word(value)
    return Problem("a text or a number is needed", "") if word is None else word


def _word(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value)
