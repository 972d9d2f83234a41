from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer.models

from tests import children
from tests.build import some_shards
from tests.cli.conftest import Stream, Wdsctl
from wdsctl.cli.app import build_full_app
from wdsctl.core.version import VERSION

GOLDEN = Path(__file__).parents[1] / "golden" / "help"
COMMANDS = (
    "prepare",
    "index",
    "split",
    "convert",
    "init",
    "inspect",
    "get",
    "ls",
    "validate",
    "repair",
    "trace",
    "doctor",
    "explain",
    "skill",
    "export",
    "sql",
    "diff",
    "log",
    "checksum",
    "migrate",
)
CHECKPOINT = ("checkpoint", "checkpoint info", "checkpoint redistribute", "checkpoint diff")
CATALOG = ("catalog", "catalog info", "catalog check", "catalog vacuum")
VIEW = (
    "view",
    "view create",
    "view list",
    "view show",
    "view diff",
    "view export",
    "view refresh",
    "view delete",
)
CONFIG = ("config", "config show")
JOB = ("job", "job plan", "job run", "job status", "job merge", "job template")
GROUPED = (*CHECKPOINT, *CATALOG, *CONFIG, *JOB, *VIEW)
InAProcess = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize("command", ["", *COMMANDS, *GROUPED])
def test_help_matches_golden_file(wdsctl: Wdsctl, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """To update: COLUMNS=80 TERM=dumb python -m wdsctl COMMAND --help > tests/golden/help/COMMAND.txt"""
    monkeypatch.setenv("TERM", "dumb")

    result = wdsctl(*command.split(), "--help")

    assert result.code == 0
    assert result.stderr == ""
    assert result.stdout == (GOLDEN / f"{command.replace(' ', '-') or 'wdsctl'}.txt").read_text()
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("columns", [50, 60])
@pytest.mark.parametrize("command", ["", "prepare", "ls", "validate", "sql"])
def test_help_fits_narrow_terminals_except_examples(
    wdsctl: Wdsctl, monkeypatch: pytest.MonkeyPatch, command: str, columns: int
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = wdsctl(*command.split(), "--help").stdout.splitlines()

    examples = lines.index("  Examples:")
    too_long = [line for line in lines[:examples] if len(line) > columns]
    assert [line for line in too_long if len(line.split()) > 2] == []  # an option and its values are not broken
    assert [line for line in lines[examples:] if len(line) > columns and not line.startswith("    ")] == []


@pytest.mark.parametrize("command", [*COMMANDS, *GROUPED])
def test_every_command_has_examples(wdsctl: Wdsctl, command: str) -> None:
    assert f"Examples:\n    wdsctl {command} " in wdsctl(*command.split(), "--help").stdout


def test_golden_help_files_match_commands() -> None:
    grouped = {command.replace(" ", "-") for command in GROUPED}
    assert {path.stem for path in GOLDEN.iterdir()} == {"wdsctl", *COMMANDS, *grouped}
    assert {command.name for command in build_full_app().registered_commands} == set(COMMANDS)
    assert {
        f"{group.name} {command.name}"
        for group in build_full_app().registered_groups
        for command in _list_commands(group)
    } == {command for command in GROUPED if " " in command}


def _list_commands(group: typer.models.TyperInfo) -> list[typer.models.CommandInfo]:
    return [] if group.typer_instance is None else group.typer_instance.registered_commands


def test_wdsctl_without_arguments_prints_help(wdsctl: Wdsctl) -> None:
    result = wdsctl()
    assert (result.code, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: wdsctl")


def test_group_without_subcommand_exits_with_2(wdsctl: Wdsctl) -> None:
    result = wdsctl("catalog")
    assert (result.code, result.stdout, result.stderr.startswith("Usage: wdsctl catalog")) == (2, "", True)


@pytest.mark.parametrize(
    ("words", "equivalent"),
    [
        (("help",), ("--help",)),
        (("help", "prepare"), ("prepare", "--help")),
        (("help", "catalog", "check"), ("catalog", "check", "--help")),
        (("version",), ("--version",)),
    ],
)
def test_help_and_version_words_match_options(
    wdsctl: Wdsctl, words: tuple[str, ...], equivalent: tuple[str, ...]
) -> None:
    result = wdsctl(*words)
    assert result.code == 0
    assert result.stdout == wdsctl(*equivalent).stdout != ""


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_option_prints_version(wdsctl: Wdsctl, option: str) -> None:
    assert wdsctl(option).stdout == f"wdsctl {VERSION}\n"


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        (["index"], "missing argument 'ROOT'", "run `wdsctl index --help`"),
        (["indx", "x"], "'indx'. Did you mean 'index'?", "run `wdsctl --help`"),
        (["look", "x"], "no such command 'look'", "did you mean `wdsctl inspect`?"),
        (["import", "x"], "no such command 'import'", "did you mean `wdsctl prepare`?"),
        (["view", "shards"], "no such command 'shards'", "`wdsctl inspect shards --samples 3`"),
        (
            ["index", "x", "--rebild"],
            "no such option: --rebild (Possible options: --rebuild)",
            "run `wdsctl index --help`",
        ),
        (
            ["prepare", "a", "b", "--shard-size", "3x"],
            "for '--shard-size': '3x' is not a size",
            "run `wdsctl prepare --help`",
        ),
        (["prepare", "a", "--by", "colour"], "'--by'", "run `wdsctl prepare --help`"),
        (
            ["inspect", "a", "--samples", "-1"],
            "'--samples': the minimum is 0",
            "run `wdsctl inspect --help`",
        ),
        (["checkpoint", "infos"], "'infos'. Did you mean 'info'?", "run `wdsctl checkpoint --help`"),
        (["checkpoint", "info"], "missing argument 'FILES'", "run `wdsctl checkpoint info --help`"),
        (["inspect", "a", "--samples", "x"], "'--samples': expected a whole number", "run `wdsctl inspect --help`"),
        (["prepare", "a", "--by", "x"], "'--by': 'x' is not one of 'auto'", "run `wdsctl prepare --help`"),
        (["inspect", "a", "--samples"], "option '--samples' requires an argument", "run `wdsctl inspect --help`"),
        (["catalog", "info", "a", "--catalog"], "'--catalog' requires an argument", "run `wdsctl catalog info --help`"),
        (["explain", "WDS102", "WDS103"], "unexpected extra argument", "run `wdsctl explain --help`"),
    ],
)
def test_usage_errors_have_standard_format(wdsctl: Wdsctl, argv: list[str], message: str, hint: str) -> None:
    result = wdsctl(*argv)

    assert (result.code, result.stdout) == (2, "")
    head, help_line = result.stderr.splitlines()
    assert head.startswith("error[WDS001]: ")
    assert message in head
    assert help_line.startswith(f"  help: {hint}")


def test_usage_errors_are_json_documents_with_json_option(wdsctl: Wdsctl) -> None:
    for argv in (["--json", "index"], ["index", "--json"]):
        result = wdsctl(*argv)
        assert (result.code, result.stderr) == (2, "")
        assert result.document["error"]["code"] == "WDS001"


def test_errors_are_coloured_only_on_terminal(wdsctl: Wdsctl) -> None:
    assert "\x1b" not in wdsctl("index").stderr
    assert "\x1b[" in wdsctl("index", stderr=Stream(is_terminal=True)).stderr
    assert "\x1b" not in wdsctl("index", "--no-color", stderr=Stream(is_terminal=True)).stderr


def test_missing_dataset_exits_with_3(wdsctl: Wdsctl, tmp_path: Path) -> None:
    result = wdsctl("index", tmp_path / "nowhere")
    assert result.code == 3
    assert result.stderr.startswith("error[WDS002]: ")
    assert str(tmp_path / "nowhere") in result.stderr


def test_unexpected_exception_is_reported_as_bug_with_traceback(wdsctl: Wdsctl) -> None:
    class RaisingStream(Stream):
        def write(self, text: str) -> int:
            raise RuntimeError("planted")

    result = wdsctl("explain", stdout=RaisingStream())

    assert result.code == 1
    assert "RuntimeError: planted" in result.stderr
    assert result.stderr.endswith("wdsctl has a bug: please report it with the lines above and the command\n")


class BrokenStdin:
    """A stdin that raises an exception after these lines."""

    def __init__(self, *lines: bytes) -> None:
        self.buffer, self._lines = self, [*lines]

    def readline(self, limit: int) -> bytes:
        if not self._lines:
            raise RuntimeError("planted")
        return self._lines.pop(0)


def test_bug_answers_json_with_error_document(wdsctl: Wdsctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = some_shards(tmp_path / "data", 1)
    wdsctl("index", root)
    for lines, expected in (((), ["schema", "error"]), ((b"000000\n",), ["schema", "command"])):
        monkeypatch.setattr("sys.stdin", BrokenStdin(*lines))
        result = wdsctl("get", root, "--keys", "-", "--json")
        assert list(result.document)[:2] == expected
        error = result.document["error"]
        assert (result.code, error["code"], error["message"]) == (
            1,
            "WDS011",
            "wdsctl has a bug: RuntimeError: planted",
        )
        assert "RuntimeError: planted" in result.stderr


def test_full_disk_on_stdout_is_reported_with_code(wdsctl: Wdsctl) -> None:
    class FullStream(Stream):
        name = "<stdout>"

        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for argv in (["explain"], ["explain", "--json"]):
        result = wdsctl(*argv, stdout=FullStream())

        assert result.code == 3
        assert result.stderr.startswith(
            "error[WDS401]: cannot write the output: No space left on device\n  --> <stdout>\n"
        )
        assert "Traceback" not in result.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("argv", [["explain"], ["explain", "--json"], ["explain", "WDS102"], ["--help"], ["ls", "-h"]])
def test_full_stdout_prints_one_error_and_exits_with_3(argv: list[str]) -> None:
    with open("/dev/full", "w") as full:
        result = children.run(
            [sys.executable, "-m", "wdsctl", *argv], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert (result.returncode, result.stderr.count(b"\n")) == (3, 3)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_full_stderr_keeps_exit_code() -> None:
    with open("/dev/full", "w") as full:
        result = children.run(
            [sys.executable, "-m", "wdsctl", "index"], stdout=full, stderr=full, timeout=60, check=False
        )
    assert result.returncode == 2


def test_interrupt_prints_how_to_continue(wdsctl: Wdsctl) -> None:
    class InterruptedStream(Stream):
        def write(self, text: str) -> int:
            raise KeyboardInterrupt

    result = wdsctl("explain", stdout=InterruptedStream())

    assert result.code == 130
    assert result.stderr == "interrupted; run the same command again to continue\n"


def test_wdsctl_runs_as_module(run_in_process: InAProcess) -> None:
    result = run_in_process("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"wdsctl {VERSION}\n", "")


@pytest.mark.parametrize("argv", [["explain"], ["explain", "--json"], ["--help"]])
def test_closed_pipe_exits_quietly(argv: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = children.run(
        [sys.executable, "-m", "wdsctl", *argv], stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, b"")


def test_completion_offers_commands(run_in_process: InAProcess) -> None:
    environment = os.environ | {
        "_WDSCTL_COMPLETE": "complete_bash",
        "COMP_WORDS": "wdsctl ins",
        "COMP_CWORD": "1",
    }
    assert run_in_process(env=environment).stdout.split() == ["inspect"]
