"""The command line of a request: Typer's parameters, made from the options that the request declares."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args

import typer

from wdsctl.core.errors import UsageError
from wdsctl.core.options import LAST_NAMES, Declared, Option, build_request, declared_options

Command = Callable[..., int]


def takes(request: type, *, before: str = "") -> Callable[[Command], Command]:
    """Decorate the function behind a command: its first argument is the request that the options make.

    Other parameters of the function are options that only the command line has. They stand before the option `before`,
    by default before the first of those that every command has (`LAST_NAMES`).
    """

    def decorate(function: Command) -> Command:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        parameters = [_parameter(each) for each in declared_options(request) if each.flag]
        names = [each.name for each in parameters]
        places = [i for i, name in enumerate(names) if (name == before if before else name in LAST_NAMES)]
        place = min(places, default=len(names))

        @functools.wraps(function)
        def command(**values: Any) -> int:
            passed = {name: values.pop(name) for name in names}
            return function(build_request(request, passed | {"yes": values["common"].yes}), **values)

        signature = [*parameters[:place], *own, *parameters[place:]]
        signature.sort(key=lambda each: each.kind)
        command.__signature__ = inspect.Signature(signature, return_annotation=int)  # type: ignore[attr-defined]
        return command

    return decorate


def _parameter(each: Declared) -> inspect.Parameter:
    option = each.option
    kind, default = _typer_type(each)
    position = inspect.Parameter.POSITIONAL_OR_KEYWORD if option.is_argument else inspect.Parameter.KEYWORD_ONLY
    info = typer_info(option, each.name, has_negative=each.has_negative)
    default = inspect.Parameter.empty if each.is_required else default
    return inspect.Parameter(each.name, position, default=default, annotation=Annotated[kind, info])


def _typer_type(each: Declared) -> tuple[Any, Any]:
    """The type that Typer reads, and its default: text for what `parse` reads, with the default left to the request."""
    option = each.option
    if option.is_repeatable:
        return list[str] | None, None
    kind = each.kind if option.parses_early else each.users_kind
    if option.parse is not None and str in (kind, *get_args(kind)):
        return str | None, None
    return (kind | None if each.default is None else kind), each.default


def typer_info(option: Option, name: str, *, has_negative: bool = False) -> Any:
    """What Typer has to know of an option, for an annotation. `name`: of the parameter."""
    facts: dict[str, Any] = {
        "metavar": option.metavar,
        "help": option.help,
        "show_default": "default: " not in option.help,
    }
    if option.is_argument:
        return typer.Argument(**facts)
    flag = option.flag or f"--{name.replace('_', '-')}"
    flag += f"/--no-{flag.removeprefix('--')}" if has_negative else ""
    if option.parse is not None and option.parses_early:
        facts["parser"] = _early_parser(option.parse)
    return typer.Option(flag, *filter(None, [option.short]), min=option.min, max=option.max, **facts)


def _early_parser(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The parser for Typer, which puts the option before the message."""

    def parse_early(text: Any) -> Any:
        try:
            return parse(text)
        except UsageError as error:
            raise typer.BadParameter(f"{error.message}; {error.hint}") from error

    return parse_early
