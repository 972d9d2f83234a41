from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import children
from tests.cli.conftest import Stream
from tests.loader.datasets import a_shard, numbered
from wdsctl.cli import output
from wdsctl.cli.output import Output, PipeClosed
from wdsctl.cli.tables import make_table
from wdsctl.core.errors import StorageError


@dataclass(frozen=True, slots=True)
class Inner:
    name: str


@dataclass(frozen=True, slots=True)
class Outer:
    size_bytes: int
    inner: tuple[Inner, ...]
    shares: dict[str, float]
    nothing: Inner | None = None


class FailingStream(Stream):
    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


def test_output_writes_report_as_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    report = Outer(1 << 30, (Inner("ä"),), {"train": 0.8})

    Output(json=True).answer("index", report, lambda _: [])

    assert json.loads(capsys.readouterr().out) == {
        "schema": 1,
        "command": "index",
        "size_bytes": 1 << 30,
        "inner": [{"name": "ä"}],
        "shares": {"train": 0.8},
        "nothing": None,
    }


def test_quiet_output_silences_notes_only(capsys: pytest.CaptureFixture[str]) -> None:
    def render(report: Inner) -> Iterator[str]:
        yield report.name

    Output(quiet=True).answer("index", Inner("data"), render)
    Output(quiet=True).note("chatter")

    assert capsys.readouterr() == ("data\n", "")


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("WDSCTL_NO_COLOR", "1"), ("TERM", "dumb")])
def test_has_color_is_false_if_environment_forbids_it(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    assert output.has_color(Stream(is_terminal=True))
    monkeypatch.setenv(variable, value)
    assert not output.has_color(Stream(is_terminal=True))


def test_has_color_depends_on_stream() -> None:
    assert output.has_color(Stream(is_terminal=True))
    assert not output.has_color(Stream())
    assert not output.has_color(Stream(is_terminal=True), no_color=True)


def test_has_color_ignores_empty_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert output.has_color(Stream(is_terminal=True))


def test_piped_text_is_not_wrapped_padded_or_coloured() -> None:
    long = "/".join(["folder"] * 100)

    text = output.render_text(
        [make_table(("path", "#n"), [(long, "1"), ("a", "2")]), "x" * 500], Stream(), is_colored=False
    )

    assert long in text
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert "x" * 500 in text


def test_table_fits_terminal_and_keeps_text() -> None:
    long = "/".join(["folder"] * 30)

    text = output.render_text(
        [make_table(("path", "#size"), [(long, "1,204.5 GiB")])], Stream(is_terminal=True), is_colored=False
    )

    assert max(map(len, text.splitlines())) <= 80
    assert "1,204.5 GiB" in text
    assert "".join(line.split()[0] for line in text.splitlines()[1:]) == long


def test_render_text_escapes_markup() -> None:
    assert "[bold]a[/]" in output.render_text(["[bold]a[/]"], Stream(), is_colored=False)


def test_write_plain_distinguishes_closed_pipe_from_full_disk() -> None:
    with pytest.raises(PipeClosed):
        output.write_plain(FailingStream(BrokenPipeError()), "x")
    with pytest.raises(StorageError, match="No space left"):
        output.write_plain(FailingStream(OSError(28, "No space left on device")), "x")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_full_stderr_does_not_stop_command(tmp_path: Path) -> None:
    a_shard(tmp_path / "data" / "a.tar", [("000000", numbered(0))])
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "wdsctl", "prepare", str(tmp_path / "data"), "--json"]
        result = children.run(command, stderr=full, stdout=subprocess.PIPE, timeout=60, check=False)

    assert result.returncode == 0
    assert json.loads(result.stdout)["command"] == "prepare"


def test_write_bytes_keeps_order_and_escapes_for_text_streams(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    with open(1, "w", encoding="utf-8", closefd=False) as stdout:
        stdout.write("text ")
        output.write_bytes(stdout, b"\xff\x00")
    assert capfdbinary.readouterr().out == b"text \xff\x00"
    stream = Stream()
    output.write_bytes(stream, b"a\xff")
    assert stream.getvalue() == "a\\xff"
