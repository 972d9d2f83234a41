"""Ask on a terminal: a text, or yes or no."""

from __future__ import annotations

import contextlib
import sys

import typer

from wdsctl.cli.options import CommonOptions
from wdsctl.core.text import escape_control_chars, escape_unprintable

_ANSWERS = {"y": True, "yes": True, "n": False, "no": False}


class TerminalPrompter:
    """Asks on stderr, even if stdout is a file: Python's `input` would write part of the prompt to stdout."""

    def text(self, question: str, default: str) -> str:
        prompt = f"{question} [{escape_unprintable(default)}]" if default else question
        try:
            with contextlib.redirect_stdout(sys.stderr):
                answer = typer.prompt(escape_control_chars(prompt), default=default, show_default=False, err=True)
        except typer.Abort:  # Ctrl-C or Ctrl-D: end the line of the prompt
            typer.echo(err=True)
            raise
        return str(answer).strip()

    def confirm(self, question: str, *, default: bool = True, choices: str = "") -> bool:
        """Whether the answer is yes: y, n, or Enter for the default. `choices`: the text that ? shows."""
        help_choice = "/?" if choices else ""
        while True:
            answer = self.text(f"{question} [{'Y/n' if default else 'y/N'}{help_choice}]", "").lower()
            if answer in _ANSWERS or not answer:
                return _ANSWERS.get(answer, default)
            typer.echo(escape_control_chars(choices) if answer == "?" and choices else "y is yes, n is no", err=True)


def may_ask(common: CommonOptions) -> bool:
    """Whether to ask questions: stdin and stderr are terminals, without --no-input and --json."""
    return not (common.no_input or common.json) and sys.stdin.isatty() and sys.stderr.isatty()
