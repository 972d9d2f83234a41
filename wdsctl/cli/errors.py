"""What the boundary in `main` says when a command fails."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

import typer

from wdsctl.cli.figures import path, safe
from wdsctl.cli.output import document, has_color, write
from wdsctl.core.errors import UsageError, WdsctlError

INTERRUPTED = "interrupted; run the same command again to go on"
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


def report(error: WdsctlError, manner: Manner) -> int:
    """Say it, on stderr or as one JSON document on stdout. Returns the exit code."""
    if manner.debug:
        write(sys.stderr, "".join(traceback.format_exception(error)))
    if manner.json:
        facts = {"code": error.code, "message": error.message, "where": error.where, "hint": error.hint}
        write(sys.stdout, document({"error": facts}))
    else:
        write(sys.stderr, as_text(error, is_colored=has_color(sys.stderr, manner.no_color)))
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


def from_typer(error: typer.TyperException) -> UsageError:
    """Typer's usage errors in our shape; its suggestions are part of its message."""
    message = error.format_message().strip().removesuffix(".").replace("\n\t", " ")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "wdsctl"
    return UsageError(message[:1].lower() + message[1:], hint=f"`{command} --help` lists what it accepts")


def bug() -> int:
    """The traceback of the exception being handled stays: it is for us."""
    write(sys.stderr, f"{traceback.format_exc()}\n{BUG}\n")
    return 1


def _lines(text: str) -> str:
    return "\n  ".join(safe(line) for line in text.split("\n"))
