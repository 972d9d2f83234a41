"""Questions to whoever sits at the terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import typer

from wdsctl.cli.options import Common
from wdsctl.core.printable import harmless, one_line

_ANSWERS = {"y": True, "yes": True, "n": False, "no": False}


class Terminal:
    """Questions go to stderr, also when stdout is a file: Python's `input` would write the prompt's end into it."""

    def text(self, question: str, default: str) -> str:
        asked = f"{question} [{one_line(default)}]" if default else question
        with _asking():
            return str(typer.prompt(harmless(asked), default=default, show_default=False, err=True)).strip()

    def confirm(self, question: str, *, default: bool = True, choices: str = "") -> bool:
        """Whether the answer is yes: y, n, or Enter for the default. `choices`: what ? shows."""
        more = "/?" if choices else ""
        while True:
            answer = self.text(f"{question} [{'Y/n' if default else 'y/N'}{more}]", "").lower()
            if answer in _ANSWERS or not answer:
                return _ANSWERS.get(answer, default)
            typer.echo(harmless(choices) if answer == "?" and choices else "y is yes, n is no", err=True)


def may_ask(common: Common) -> bool:
    """Whether there is somebody to ask, who has not asked to be left alone."""
    return not (common.no_input or common.json) and sys.stdin.isatty() and sys.stderr.isatty()


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except typer.Abort:  # Ctrl-C or Ctrl-D: what is said next begins a line of its own
        typer.echo(err=True)
        raise
