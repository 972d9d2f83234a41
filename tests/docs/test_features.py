"""The commands of every row of docs/features.md run and exit with the documented code."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.features_world import build
from tests.docs.pages import ROOT
from wdsctl.cli.app import SUMMARIES
from wdsctl.cli.main import main

PAGE = ROOT / "docs" / "features.md"
_COMMAND = re.compile(r"`((?:wdsctl|python|mv|_WDSCTL_COMPLETE=\w+) [^`]+)`(?: \((\d+)\))?")


@dataclass(frozen=True, slots=True)
class Row:
    feature: str
    commands: tuple[tuple[str, int], ...]  # with their exit codes


def sections() -> Iterator[tuple[str, list[Row]]]:
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, body = part.partition("\n")
        lines = [line.strip("|").split(" | ") for line in body.splitlines() if line.startswith("| ")]
        found = [
            Row(feature.strip(), tuple((command, int(code or 0)) for command, code in _COMMAND.findall(shown)))
            for feature, shown in lines[1:]
        ]
        yield title, found


SECTIONS = dict(sections())


@pytest.fixture(scope="module")
def world(example_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("features")
    with contextlib.redirect_stderr(io.StringIO()):
        build(folder, example_data)
    return folder


class Stdin(io.TextIOWrapper):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")


def run(command: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Run one command here; `< FILE` and `> FILE` as in a shell. Returns its exit code and output."""
    words = shlex.split(command)
    while "=" in words[0]:
        monkeypatch.setenv(*words.pop(0).split("=", 1))
    if words[0] == "mv":
        Path(words[1]).rename(words[2])
        return 0, ""
    if words[0] == "python":
        exec(words[2], {})  # noqa: S102 - the page is ours
        return 0, ""
    data = Path(words[words.index("<") + 1]).read_bytes() if "<" in words else b""
    output_path = Path(words[words.index(">") + 1]) if ">" in words else None
    words = words[1 : min(words.index(sign) if sign in words else len(words) for sign in "<>")]
    monkeypatch.setattr("sys.stdin", Stdin(data))
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(words)
    out.flush()
    output = out.buffer.getvalue()
    if output_path is not None:
        output_path.write_bytes(output)
    return code, f"{output.decode('utf-8', 'replace')}\n{err.getvalue()}"


@pytest.mark.parametrize("section", SECTIONS)
def test_commands_of_features_exit_with_documented_code(
    section: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(world, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("WDSCTL_WORKERS", "1")  # starting processes would take longer than all of the work
    for row in SECTIONS[section]:
        for command, expected_code in row.commands:
            code, output = run(command, monkeypatch)
            assert code == expected_code, f"{row.feature}: `{command}` exits with {code}\n{output[-2000:]}"


def test_every_row_has_commands_and_every_command_is_run() -> None:
    for rows in SECTIONS.values():
        assert rows
        assert all(row.commands for row in rows)
    listed_commands = re.findall(r"`(wdsctl [^`]+)`", PAGE.read_text(encoding="utf-8"))
    assert len(listed_commands) == sum(command.startswith("wdsctl") for row in _rows() for command, _ in row.commands)


def test_every_command_is_in_table() -> None:
    shown = {
        words[1] for row in _rows() for command, _ in row.commands if (words := shlex.split(command))[0] == "wdsctl"
    }
    assert SUMMARIES.keys() - shown == {"trace", "checkpoint"}  # of the loader: docs/trace.md and docs/checkpoints.md


def _rows() -> Iterator[Row]:
    for rows in SECTIONS.values():
        yield from rows
