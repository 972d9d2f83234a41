from __future__ import annotations

import json

import pytest
import typer

from wdsctl.cli import errors
from wdsctl.cli.errors import ErrorFormat
from wdsctl.core.errors import DatasetError, WdsctlError, join_indented

TRUNCATED = DatasetError(
    "shard is truncated",
    where="train-000017.tar (byte 73,822,720)",
    hint="copy the shard again",
    code="WDS102",
)
PLAIN = ErrorFormat(json=False, no_color=False, debug=False)


def test_an_error_says_what_where_and_one_thing_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.report_error(TRUNCATED, PLAIN) == 3
    assert capsys.readouterr() == (
        "",
        "error[WDS102]: shard is truncated\n  --> train-000017.tar (byte 73,822,720)\n  help: copy the shard again\n",
    )


def test_an_error_without_a_place_has_no_arrow() -> None:
    assert "-->" not in errors.format_error(WdsctlError("x", hint="y"), is_colored=False)


def test_an_error_is_one_document_under_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.report_error(TRUNCATED, ErrorFormat(json=True, no_color=False, debug=False)) == 3

    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out) == {
        "schema": 1,
        "error": {
            "code": "WDS102",
            "message": "shard is truncated",
            "where": "train-000017.tar (byte 73,822,720)",
            "hint": "copy the shard again",
        },
    }


def test_debug_shows_the_traceback_of_an_error_too(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise DatasetError("outer", hint="h") from OSError("inner")
    except DatasetError as error:
        errors.report_error(error, ErrorFormat(json=False, no_color=False, debug=True))

    captured = capsys.readouterr().err
    assert "Traceback" in captured
    assert "OSError: inner" in captured
    assert captured.endswith("error[WDS200]: outer\n  help: h\n")


def test_a_message_of_several_lines_is_indented_and_moves_no_cursor() -> None:
    text = errors.format_error(WdsctlError(join_indented("3 samples", "\x1b[2Ja\nb"), hint="h"), is_colored=False)
    assert text == "error[WDS000]: 3 samples\n    \\x1b[2Ja\\nb\n  help: h\n"


def test_the_code_is_coloured_and_nothing_else() -> None:
    text = errors.format_error(WdsctlError("x", hint="h"), is_colored=True)
    assert text.splitlines()[0].endswith("\x1b[0m: x")


@pytest.mark.parametrize(
    ("words", "manner"),
    [
        ([], PLAIN),
        (["index", "X", "--json"], ErrorFormat(json=True, no_color=False, debug=False)),
        (["index", "--", "--json"], PLAIN),
        (["--debug", "--no-color"], ErrorFormat(json=False, no_color=True, debug=True)),
    ],
)
def test_the_manner_is_read_from_the_bare_words(words: list[str], manner: ErrorFormat) -> None:
    assert ErrorFormat.from_args(words) == manner


@pytest.mark.parametrize(("value", "is_debug"), [("1", True), ("0", False), ("", False)])
def test_the_environment_can_ask_for_tracebacks(monkeypatch: pytest.MonkeyPatch, value: str, is_debug: bool) -> None:
    monkeypatch.setenv("WDSCTL_DEBUG", value)
    assert ErrorFormat.from_args([]).debug is is_debug


def test_a_usage_error_of_typer_takes_our_shape() -> None:
    error = errors.convert_typer_error(typer.BadParameter("'3x' is no size.", param_hint="--shard-size"))

    assert error.exit_code == 2
    assert error.code == "WDS001"
    assert error.message == "invalid value for --shard-size: '3x' is no size"
    assert error.hint == "run `wdsctl --help` for the accepted values"
