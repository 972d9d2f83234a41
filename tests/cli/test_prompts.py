from __future__ import annotations

import io
from collections.abc import Callable

import pytest
import typer

from tests.cli.conftest import Stream
from wdsctl.cli.options import CommonOptions
from wdsctl.cli.prompts import TerminalPrompter, may_ask


@pytest.mark.parametrize(
    "ask", [lambda: TerminalPrompter().text("where", "here"), lambda: TerminalPrompter().confirm("so")]
)
def test_prompter_ends_line_when_aborted(
    ask: Callable[[], object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())  # its end is read like Ctrl-D
    with pytest.raises(typer.Abort):
        ask()
    captured = capsys.readouterr()
    assert (captured.out, captured.err[-1]) == ("", "\n")


@pytest.mark.parametrize(
    ("common", "is_terminal", "expected"),
    [
        (CommonOptions(), True, True),
        (CommonOptions(), False, False),
        (CommonOptions(no_input=True), True, False),
        (CommonOptions(json=True), True, False),
    ],
)
def test_may_ask_requires_terminal_and_input(
    common: CommonOptions, is_terminal: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Stream(is_terminal=is_terminal))
    monkeypatch.setattr("sys.stderr", Stream(is_terminal=is_terminal))

    assert may_ask(common) is expected
