"""What the boundary in `main` says when a command fails."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from wdsctl.cli.figures import path, relative, safe
from wdsctl.cli.output import document, facts, has_color, write, write_drawn
from wdsctl.core.errors import StorageError, UsageError, WdsctlError
from wdsctl.core.urls import shown

if TYPE_CHECKING:
    from wdsctl.core.config import Setting

#: What Typer's checks say, by whichever library it checks with, and what we say.
VOICE = (
    (
        re.compile(r"(?:-?\S+ is not in the range x>=|Input should be greater than or equal to )(-?\S+)"),
        r"\1 is the least",
    ),
    (re.compile(r"(?:-?\S+ is not in the range x<=|Input should be less than or equal to )(-?\S+)"), r"\1 is the most"),
    (re.compile(r"(?:\S+ is not a valid integer|Input should be a valid integer.*)"), "a whole number is needed"),
    (re.compile(r"(?:\S+ is not a valid float|Input should be a valid number.*)"), "a number is needed"),
    (re.compile(r"Value error, "), ""),
)
BUG = "this is a bug of wdsctl: please report it with the lines above and the command"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How to speak of an error. Read from the bare words, because parsing them may be what failed."""

    json: bool
    no_color: bool
    debug: bool

    @classmethod
    def of(cls, words: Sequence[str]) -> Manner:
        options = set(words[: words.index("--")] if "--" in words else words)
        return cls(
            json="--json" in options,
            no_color="--no-color" in options,
            debug="--debug" in options or os.environ.get("WDSCTL_DEBUG", "") not in {"", "0"},
        )


def report(error: WdsctlError, manner: Manner, *, is_answered: bool = False) -> int:
    """Say it, on stderr or as one JSON document on stdout. Returns the exit code.

    Where stdout takes no more, the document cannot come: the text comes in its place. `is_answered`: the end of a
    document that had begun tells of it.
    """
    if manner.debug:
        _tell("".join(traceback.format_exception(error)))
    if not is_answered and not (manner.json and _is_answered(error)):
        text = as_text(error, is_colored=has_color(sys.stderr, manner.no_color))
        _tell_drawn(_fitted(text) if sys.stderr.isatty() else text)
    return error.exit_code


def as_text(error: WdsctlError, *, is_colored: bool) -> str:
    head = f"error[{error.code}]"
    if is_colored:
        head = typer.style(head, fg="red", bold=True)
    lines = [f"{head}: {_lines(error.message)}"]
    if error.where:
        lines.append(f"  --> {path(error.where)}")
    lines.append(f"  help: {_lines(error.hint)}")
    return "\n".join(lines) + "\n"


def _fitted(text: str) -> str:
    """As wide as the terminal; the head, which is coloured, is measured without its colour."""
    from wdsctl.cli.output import width
    from wdsctl.cli.wrapping import wrapped

    head, mark, rest = text.rpartition("\x1b[0m")
    bare = re.sub("\x1b\\[[0-9;]*m", "", head)
    fitted = wrapped(bare + rest, width(sys.stderr))
    return head + mark + fitted[len(bare) :]


def from_typer(
    error: typer.TyperException, settings: Mapping[str, Setting] | None = None, *, words: str = ""
) -> UsageError:
    """Typer's usage errors in our shape; its suggestions are part of its message.

    `settings`: where values are from that were not on the command line, by parameter. `words`: the command that was
    given, which Typer does not know yet where it cannot take the line apart.
    """
    message = error.format_message().strip().removesuffix(".").replace("\n\t", " ")
    for theirs, ours in VOICE:
        message = theirs.sub(ours, message)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else f"wdsctl {words}".rstrip()
    message = message[:1].lower() + message[1:]
    parameter = getattr(getattr(error, "param", None), "name", "")
    setting = (settings or {}).get(parameter)
    if setting is not None and _is_from_defaults(context, parameter):
        return UsageError(
            f"{setting.key}: {message}", where=setting.origin, hint="mend it there, or give the option", code="WDS010"
        )
    return UsageError(message, hint=f"`{command} --help` lists what it accepts")


def _is_from_defaults(context: Any, parameter: str) -> bool:
    """Whether a value was not on the command line. Typer has no public name for where a value is from."""
    source = context.get_parameter_source(parameter) if context is not None else None
    return source is not None and source.name == "DEFAULT_MAP"


def bug() -> int:
    """The traceback of the exception being handled stays: it is for us."""
    _tell(f"{traceback.format_exc()}\n{BUG}\n")
    return 1


def _is_answered(error: WdsctlError) -> bool:
    try:
        write(sys.stdout, document({"error": facts(error)}))
    except StorageError:
        return False
    return True


def _tell(text: str) -> None:
    """Write to stderr. Where that takes no more either, the exit code is all that can still be said."""
    with suppress(StorageError):
        write(sys.stderr, shown(text))


def _tell_drawn(text: str) -> None:
    with suppress(StorageError):
        write_drawn(sys.stderr, text)


def _lines(text: str) -> str:
    return "\n  ".join(safe(line) for line in relative(text).split("\n"))
