"""Options that the user sets once, in variables or in the configuration file.

Typer resolves them: every option knows its variables (`WDSCTL_INDEX_WORKERS`, then `WDSCTL_WORKERS`), and `--config`,
which Typer handles before all other options, loads the file as the defaults of the command. The command line overrides
variables, and variables override the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from typer.main import get_command

from wdsctl.cli.app import BARE_OPTION_EXCEPTIONS, BARE_OPTION_VALUES, build_full_app
from wdsctl.cli.config_file import CONFIG_VARIABLE, NO_CONFIG, find_config_file, read_config_file
from wdsctl.cli.options import COMMAND_GROUPS, CONFIG_FLAG
from wdsctl.core.errors import UsageError, WdsctlError

#: Options that no configuration may set: they confirm, run code, write files, or change what a script reads.
NOT_CONFIGURABLE = frozenset(
    {
        *("accept-type", "allow-split-changes", "break-lock", "catalog", "catalog-b", "column", "config", "debug"),
        *("json", "output", "source-moved", "trust-code", "yes"),
    }
)
#: Variables that are not options.
NON_OPTION_VARIABLES = frozenset(
    {
        "WDSCTL_AGENT",
        "WDSCTL_ALLOW_PATH",
        "WDSCTL_CATALOG",
        "WDSCTL_CATALOG_CACHE",
        "WDSCTL_CONFIG",
        "WDSCTL_DEBUG",
        "WDSCTL_LIMIT_FACTOR",
        "WDSCTL_NO_COLOR",
        "WDSCTL_SHARD_CACHE",
        "WDSCTL_SHARD_CACHE_GBYTES",
    }
)
#: Commands that work with any configuration, however wrong.
COMMANDS_WITHOUT_CONFIG = frozenset({"config", "explain"})


class Setting(NamedTuple):
    """The value of a command's option, and its origin: a variable, or the path of the file."""

    command: str
    option: str
    value: Any
    origin: str


def attach_config(command: Any, origins: dict[str, tuple[str, str]]) -> None:
    """Let the options of all commands below `command` take their values from the configuration.

    Before other options are parsed, `origins` receives the configured ones: parameter -> (flag, variable or file).
    Parsing raises UsageError WDS010 for a file that cannot be used.
    """
    for name, subcommand in _iter_commands(command):
        options = _configurable_options(subcommand)
        for option, parameter in options.items():
            parameter.envvar, parameter.show_envvar = _variable_names(name, option), False
        for parameter in subcommand.params:
            if parameter.name == "config":
                parameter.is_eager = True
                parameter.callback = partial(_load_defaults, name, options, origins)


def _load_defaults(
    command: str,
    options: Mapping[str, Any],
    origins: dict[str, tuple[str, str]],
    context: Any,
    _: Any,
    config: str | None,
) -> str | None:
    if context.resilient_parsing:  # a shell asks for completion
        return config
    if config == "":
        raise UsageError(
            f"{CONFIG_FLAG} is empty", hint="check whether a variable is unset; or pass `--config none` to use no file"
        )
    path = find_config_file(os.environ, config)
    values: dict[str, Any] = {}
    if path is not None:
        values = {each.option: each.value for each in read_settings(path) if each.command == command}
        origins.update({options[option].name: (f"--{option}", path) for option in values})
    for option, parameter in options.items():
        variables = [name for name in parameter.envvar if os.environ.get(name)]
        if not variables:
            continue
        origins[parameter.name] = (f"--{option}", variables[0])
        word = os.environ[variables[0]].lower()
        if _bare_value(command, option) is not None and word in ("true", "false"):
            parameter.envvar = None  # its text is not the value
            values.pop(option, None)
            values |= {option: _bare_value(command, option)} if word == "true" else {}
    if values:
        context.default_map = {options[option].name: value for option, value in values.items()}
    return config


def read_settings(path: str) -> list[Setting]:
    """The settings of all commands in a file, one for each command and option.

    Raises UsageError WDS010 for an unknown command or option, and for a value of a wrong type.
    """
    commands = all_options()
    tables: dict[str, Any] = {}
    globals_: dict[str, Any] = {}
    try:
        content = read_config_file(path)
    except WdsctlError as error:
        raise _config_error(path, error.message, error.hint) from error
    for key, value in content.items():
        if not isinstance(value, dict):
            globals_[key] = value
        elif key in COMMAND_GROUPS:
            tables.update({f"{key} {inner}": table for inner, table in value.items()})
        else:
            tables[key] = value
    settings: dict[tuple[str, str], Setting] = {}
    for key, value in globals_.items():
        users = [name for name, options in commands.items() if _option_name(key) in options]
        if not users:
            known = {option for options in commands.values() for option in options}
            raise _unknown_option_error(path, key, key, known)
        for name in _without_exceptions(users, _option_name(key), value):
            settings[name, _option_name(key)] = _make_setting(path, name, key, value, commands[name])
    for name, table in tables.items():
        if name not in commands or not isinstance(table, dict):
            raise _config_error(path, f"no command {name!r}", _suggestion(name, commands))
        for key, value in table.items():
            if _option_name(key) not in commands[name]:
                raise _unknown_option_error(path, f"{name.replace(' ', '.')}.{key}", key, commands[name])
            settings[name, _option_name(key)] = _make_setting(path, name, key, value, commands[name])
    return [each for each in settings.values() if each.value is not None]


def read_variables() -> tuple[list[Setting], list[str]]:
    """The settings in variables, and the `WDSCTL_` variables that no option has."""
    settings: list[Setting] = []
    known = set(NON_OPTION_VARIABLES)
    for command, options in all_options().items():
        for option in options:
            names = _variable_names(command, option)
            known.update(names)
            name = next((name for name in names if os.environ.get(name)), None)
            if name is not None:
                settings.append(Setting(command, option, os.environ[name], name))
    return settings, sorted(name for name in os.environ if name.startswith("WDSCTL_") and name not in known)


def all_options() -> dict[str, dict[str, Any]]:
    """The configurable options of every command ("view create"), Typer's parameters by long name ("shard-size")."""
    return {name: _configurable_options(command) for name, command in _iter_commands(get_command(build_full_app()))}


def _iter_commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in getattr(group, "commands", {}).items():
        if name in COMMANDS_WITHOUT_CONFIG:
            continue
        if hasattr(command, "commands"):
            yield from _iter_commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def _configurable_options(command: Any) -> dict[str, Any]:
    options = {
        next((name.removeprefix("--") for name in parameter.opts if name.startswith("--")), ""): parameter
        for parameter in command.params
    }
    return {name: parameter for name, parameter in options.items() if name and name not in NOT_CONFIGURABLE | {"help"}}


def _variable_names(command: str, option: str) -> list[str]:
    """`WDSCTL_INDEX_WORKERS` and, for all commands with the option, `WDSCTL_WORKERS`."""
    names = ["_".join(["WDSCTL", *path]).upper() for path in ((*command.split(), option), (option,))]
    return [name for name in (each.replace("-", "_") for each in names) if name not in NON_OPTION_VARIABLES]


def _without_exceptions(commands: list[str], option: str, value: Any) -> list[str]:
    """The commands that a value above all tables applies to: true is no value of an option that may not stand bare."""
    return [
        name for name in commands if not (isinstance(value, bool) and (name, f"--{option}") in BARE_OPTION_EXCEPTIONS)
    ]


def _bare_value(command: str, option: str) -> str | None:
    """The value of an option that may stand bare; None for any other."""
    flag = f"--{option}"
    return None if (command, flag) in BARE_OPTION_EXCEPTIONS else BARE_OPTION_VALUES.get(flag)


def _option_name(key: str) -> str:
    return key.replace("_", "-")


def _make_setting(path: str, command: str, key: str, value: Any, options: Mapping[str, Any]) -> Setting:
    """The setting of a key. A number becomes text as on the command line, and `media = true` the bare `--media`."""
    option = _option_name(key)
    parameter, bare = options[option], _bare_value(command, option)
    if parameter.is_flag:
        if not isinstance(value, bool):
            raise _config_error(path, f"{key}: expected true or false")
    elif bare is not None and isinstance(value, bool):
        value = bare if value else None
    else:
        values = value if parameter.multiple and isinstance(value, list) else [value]
        if not all(isinstance(each, str | int | float) and not isinstance(each, bool) for each in values):
            raise _config_error(
                path, f"{key}: expected {'a list of text' if parameter.multiple else 'a text or a number'}"
            )
        value = list(map(str, values)) if parameter.multiple else str(value)
    return Setting(command, option, value, path)


def _unknown_option_error(path: str, shown: str, key: str, known: set[str] | Mapping[str, Any]) -> UsageError:
    if _option_name(key) in NOT_CONFIGURABLE:
        return _config_error(path, f"{shown}: this option cannot be configured", "pass it on the command line")
    return _config_error(path, f"no option {shown!r}", _suggestion(_option_name(key), known))


def _suggestion(word: str, known: set[str] | Mapping[str, Any]) -> str:
    from wdsctl.core.samples.fields import did_you_mean

    return did_you_mean(word, sorted(known))


def _config_error(path: str, message: str, hint: str = "") -> UsageError:
    hint = hint or f"correct the file, or ignore it: {CONFIG_VARIABLE}={NO_CONFIG}"
    return UsageError(message, where=path, hint=hint, code="WDS010")
