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


def test_report_error_prints_message_location_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.report_error(TRUNCATED, PLAIN) == 3
    assert capsys.readouterr() == (
        "",
        "error[WDS102]: shard is truncated\n  --> train-000017.tar (byte 73,822,720)\n  help: copy the shard again\n",
    )


def test_format_error_without_location_has_no_arrow() -> None:
    assert "-->" not in errors.format_error(WdsctlError("x", hint="y"), is_colored=False)


def test_report_error_prints_json_document(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_report_error_prints_traceback_with_debug(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise DatasetError("outer", hint="h") from OSError("inner")
    except DatasetError as error:
        errors.report_error(error, ErrorFormat(json=False, no_color=False, debug=True))

    captured = capsys.readouterr().err
    assert "Traceback" in captured
    assert "OSError: inner" in captured
    assert captured.endswith("error[WDS200]: outer\n  help: h\n")


def test_format_error_indents_and_escapes_lines() -> None:
    text = errors.format_error(WdsctlError(join_indented("3 samples", "\x1b[2Ja\nb"), hint="h"), is_colored=False)
    assert text == "error[WDS000]: 3 samples\n    \\x1b[2Ja\\nb\n  help: h\n"


def test_format_error_colours_only_the_code() -> None:
    text = errors.format_error(WdsctlError("x", hint="h"), is_colored=True)
    assert text.splitlines()[0].endswith("\x1b[0m: x")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], PLAIN),
        (["index", "X", "--json"], ErrorFormat(json=True, no_color=False, debug=False)),
        (["index", "--", "--json"], PLAIN),
        (["--debug", "--no-color"], ErrorFormat(json=False, no_color=True, debug=True)),
    ],
)
def test_error_format_is_read_from_arguments(words: list[str], expected: ErrorFormat) -> None:
    assert ErrorFormat.from_args(words) == expected


@pytest.mark.parametrize(("value", "is_debug"), [("1", True), ("0", False), ("", False)])
def test_error_format_reads_debug_from_environment(monkeypatch: pytest.MonkeyPatch, value: str, is_debug: bool) -> None:
    monkeypatch.setenv("WDSCTL_DEBUG", value)
    assert ErrorFormat.from_args([]).debug is is_debug


def test_convert_typer_error_returns_usage_error() -> None:
    error = errors.convert_typer_error(typer.BadParameter("'3x' is no size.", param_hint="--shard-size"))

    assert error.exit_code == 2
    assert error.code == "WDS001"
    assert error.message == "invalid value for --shard-size: '3x' is no size"
    assert error.hint == "run `wdsctl --help` for the accepted values"
