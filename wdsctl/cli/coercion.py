"""Values of options that are plain what they are, without pydantic: loading it takes as long as half a short command.

Typer 0.29 hands every value to pydantic, also `None` and text that stays text. Here are those on which the two cannot
differ; all others, and whatever is wrong, go to Typer, which says so in its words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args, get_origin

import typer

_WHOLE = re.compile(r"[0-9]{1,15}")
_DECIMAL = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")


class Odd(Exception):  # noqa: N818 - no error: Typer is to look at it
    """A value that is not plain."""


def lighten(command: Any, above: typer.Context | None = None) -> Any:
    """Let a command's parameters, and those of the commands in it, take plain values by themselves; returns it.

    A Typer without the method that is replaced is left as it is.
    """
    context = typer.Context(command, parent=above, **command.context_settings)
    for parameter in command.get_params(context):  # with --help, which is made here and kept
        theirs = getattr(parameter, "get_runtime_param", None)
        if theirs is not None:
            parameter.get_runtime_param = partial(_Coercion, theirs)
    for inner in getattr(command, "commands", {}).values():
        lighten(inner, context)
    return command


class _Coercion:
    """Stands where Typer has its own: turns what the words or the configuration gave into the value of an option."""

    def __init__(self, theirs: Callable[[], Any]) -> None:
        self._theirs = theirs

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        told = param.type_descriptor
        try:
            return plain_value(value, told.annotation, told.parameter_info)
        except Odd:
            return self._theirs().coerce(value, param=param, ctx=ctx)


def plain_value(value: Any, annotation: Any, info: Any) -> Any:
    """What an option of this type is, given so. Raises Odd where Typer must decide."""
    if get_origin(annotation) is list and isinstance(value, list | tuple):
        return [plain_value(each, get_args(annotation)[0], info) for each in value]
    if info.parser is not None:
        return _parsed(value, info.parser)
    if annotation is str and isinstance(value, str):
        return value
    if get_origin(annotation) is Literal and value in get_args(annotation) and info.case_sensitive:
        return value
    if annotation in (int, float) and not info.clamp:
        return _within(_number(value, annotation), info.min, info.max)
    raise Odd


def _parsed(value: Any, parser: Callable[[Any], Any]) -> Any:
    try:
        return parser(value)
    except (ValueError, AssertionError) as error:
        raise Odd from error


def _number(value: Any, kind: type[int | float]) -> int | float:
    form = _WHOLE if kind is int else _DECIMAL
    if isinstance(value, str) and form.fullmatch(value):
        return kind(value)
    if type(value) is kind:
        return value
    raise Odd


def _within(value: float, low: float | None, high: float | None) -> float:
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        raise Odd
    return value
