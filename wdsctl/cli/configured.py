"""Puts what is configured in the place of the options' defaults."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import typer
from typer.main import get_command

from wdsctl.cli.apps import full_app
from wdsctl.cli.bare_options import BARE
from wdsctl.cli.fitting import fitting
from wdsctl.cli.options import CONFIG, command_of
from wdsctl.core.errors import UsageError

if TYPE_CHECKING:
    from wdsctl.core.config import Config, Kind, Problem, Setting

#: What these ask about must be answered however odd the configuration is.
EXEMPT = frozenset({"config", "explain"})
HELP = frozenset({"--help", "-h"})


def defaults_for(words: Sequence[str]) -> tuple[dict[str, Any], dict[str, Setting]]:
    """The defaults for Typer, nested by command, and where those of the command that is run are from, by parameter.

    Empty where nothing is configured, which costs some looks at the disk. Raises UsageError WDS010 for what is wrong.
    """
    if not words or words[0].startswith("-") or words[0] in EXEMPT or HELP & set(words):
        return {}, {}
    from wdsctl.core.config import is_any

    named = file_named(words)
    if not is_any(os.environ, named):
        return {}, {}
    parameters = _parameters()
    config = _configuration(parameters, named)
    if config.problems:
        raise config.problems[0].as_error()
    command, _ = command_of(list(words))
    mine = fitting(command, config.of(command), words, parameters[command])
    made = {parameters[command][option].name: setting for option, setting in mine.items()}
    values: dict[str, Any] = {name: _value(setting) for name, setting in made.items()}
    for name in reversed(command.split()):
        values = {name: values}
    return values, made


def file_named(words: Sequence[str]) -> str | None:
    """The value of `--config` on a command line; None where it is not there. Raises UsageError where it is empty."""
    if not any(word == CONFIG or word.startswith(f"{CONFIG}=") for word in words):
        return None
    command, rest = command_of(list(words))
    named, option = None, ""
    valued = _valued(command)
    for word in takewhile(lambda each: each != "--", rest):
        if option:
            named, option = (word if option == CONFIG else named), ""
        elif word in valued:
            option = word
        elif word.startswith(f"{CONFIG}="):
            named = word.partition("=")[2]
    if named == "":
        raise UsageError(f"{CONFIG} is empty", hint="a variable that is not set, perhaps; `--config none` uses no file")
    return named


def _valued(command: str) -> set[str]:
    """The options of a command that take the next word, by all of their names: what stands there is no option."""
    found: Any = get_command(full_app())
    for name in command.split():
        found = getattr(found, "commands", {}).get(name)
    parameters = getattr(found, "params", ())
    return {CONFIG} | {name for each in parameters if not getattr(each, "is_flag", True) for name in each.opts}


def configuration(named: str | None = None) -> Config:
    """All that is configured for all commands, values that an option does not take among its problems."""
    parameters = _parameters()
    config = _configuration(parameters, named)
    context = typer.Context(get_command(full_app()))
    settings = config.settings.items()
    found = (_refused(parameters[command][option], setting, context) for (command, option), setting in settings)
    # A key that stands for all commands has one mistake, however many commands there are.
    return replace(config, problems=(*config.problems, *dict.fromkeys(problem for problem in found if problem)))


def _refused(parameter: Any, setting: Setting, context: typer.Context) -> Problem | None:
    from wdsctl.cli.errors import from_typer
    from wdsctl.core.config import Problem

    try:
        parameter.process_value(context, _value(setting))
    except typer.BadParameter as error:
        error.param = None  # its name is said already, as it is written in the file
        return Problem(f"{setting.key}: {from_typer(error).message}", setting.origin)
    return None


def _configuration(parameters: Mapping[str, Mapping[str, Any]], named: str | None) -> Config:
    from wdsctl.core.config import read_config

    schema = {
        command: {option: _kind(parameter) for option, parameter in options.items()}
        for command, options in parameters.items()
    }
    return read_config(schema, os.environ, named)


@cache
def _parameters() -> dict[str, dict[str, Any]]:
    """The options of every command, by their long names; those left out that no configuration may set."""
    return dict(_commands(get_command(full_app()), ""))


def _commands(group: Any, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    from wdsctl.core.config import NEVER

    for name, command in group.commands.items():
        if name in EXEMPT:
            continue
        if hasattr(command, "commands"):
            yield from _commands(command, f"{prefix}{name} ")
            continue
        longs = ((_long(parameter), parameter) for parameter in command.params)
        yield f"{prefix}{name}", {long: each for long, each in longs if long and long not in NEVER | {"help"}}


def _long(parameter: Any) -> str:
    """`workers` of `--workers`; nothing for an argument."""
    return next((name.removeprefix("--") for name in parameter.opts if name.startswith("--")), "")


def _kind(parameter: Any) -> Kind:
    if parameter.is_flag:
        return "flag"
    if f"--{_long(parameter)}" in BARE:
        return "bare"
    return "many" if parameter.multiple else "value"


def _value(setting: Setting) -> Any:
    """What Typer takes as a default: of an option that may stand bare, its bare value for true, and none for false."""
    bare = BARE.get(f"--{setting.option}")
    if bare is None or not isinstance(setting.value, bool):
        return setting.value
    return bare if setting.value else None
