from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer.models

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
def test_help_is_as_agreed(wdsctl: Wdsctl, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """A change is a decision: COLUMNS=80 TERM=dumb python -m wdsctl COMMAND --help > tests/golden/help/COMMAND.txt"""
    monkeypatch.setenv("TERM", "dumb")

    result = wdsctl(*command.split(), "--help")

    assert result.code == 0
    assert result.stderr == ""
    assert result.stdout == (GOLDEN / f"{command.replace(' ', '-') or 'wdsctl'}.txt").read_text()
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("columns", [50, 60])
@pytest.mark.parametrize("command", ["", "prepare", "ls", "validate", "sql"])
def test_help_fits_narrow_terminals_but_for_commands(
    wdsctl: Wdsctl, monkeypatch: pytest.MonkeyPatch, command: str, columns: int
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = wdsctl(*command.split(), "--help").stdout.splitlines()

    examples = lines.index("  Examples:")
    too_long = [line for line in lines[:examples] if len(line) > columns]
    assert [line for line in too_long if len(line.split()) > 2] == []  # an option with its values stays whole
    assert [line for line in lines[examples:] if len(line) > columns and not line.startswith("    ")] == []


@pytest.mark.parametrize("command", [*COMMANDS, *GROUPED])
def test_every_command_has_examples(wdsctl: Wdsctl, command: str) -> None:
    assert f"Examples:\n    wdsctl {command} " in wdsctl(*command.split(), "--help").stdout


def test_every_golden_help_is_of_a_command() -> None:
    named = {command.replace(" ", "-") for command in GROUPED}
    assert {path.stem for path in GOLDEN.iterdir()} == {"wdsctl", *COMMANDS, *named}
    assert {command.name for command in build_full_app().registered_commands} == set(COMMANDS)
    assert {
        f"{group.name} {command.name}"
        for group in build_full_app().registered_groups
        for command in _commands_of(group)
    } == {command for command in GROUPED if " " in command}


def _commands_of(group: typer.models.TyperInfo) -> list[typer.models.CommandInfo]:
    return [] if group.typer_instance is None else group.typer_instance.registered_commands


def test_no_words_at_all_show_the_help(wdsctl: Wdsctl) -> None:
    result = wdsctl()
    assert (result.code, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: wdsctl")


def test_a_group_without_its_command_is_an_error_of_usage(wdsctl: Wdsctl) -> None:
    result = wdsctl("catalog")
    assert (result.code, result.stdout, result.stderr.startswith("Usage: wdsctl catalog")) == (2, "", True)


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (("help",), ("--help",)),
        (("help", "prepare"), ("prepare", "--help")),
        (("help", "catalog", "check"), ("catalog", "check", "--help")),
        (("version",), ("--version",)),
    ],
)
def test_words_that_people_try_first(wdsctl: Wdsctl, words: tuple[str, ...], same: tuple[str, ...]) -> None:
    result = wdsctl(*words)
    assert result.code == 0
    assert result.stdout == wdsctl(*same).stdout != ""


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_told(wdsctl: Wdsctl, option: str) -> None:
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
def test_usage_errors_have_the_shape_of_all_errors(wdsctl: Wdsctl, argv: list[str], message: str, hint: str) -> None:
    result = wdsctl(*argv)

    assert (result.code, result.stdout) == (2, "")
    head, help_line = result.stderr.splitlines()
    assert head.startswith("error[WDS001]: ")
    assert message in head
    assert help_line.startswith(f"  help: {hint}")


def test_usage_errors_are_documents_under_json_on_either_side_of_the_command(wdsctl: Wdsctl) -> None:
    for argv in (["--json", "index"], ["index", "--json"]):
        result = wdsctl(*argv)
        assert (result.code, result.stderr) == (2, "")
        assert result.document["error"]["code"] == "WDS001"


def test_colours_are_for_a_terminal_that_wants_them(wdsctl: Wdsctl) -> None:
    assert "\x1b" not in wdsctl("index").stderr
    assert "\x1b[" in wdsctl("index", stderr=Stream(is_terminal=True)).stderr
    assert "\x1b" not in wdsctl("index", "--no-color", stderr=Stream(is_terminal=True)).stderr


def test_a_missing_dataset_is_an_error_of_input(wdsctl: Wdsctl, tmp_path: Path) -> None:
    result = wdsctl("index", tmp_path / "nowhere")
    assert result.code == 3
    assert result.stderr.startswith("error[WDS002]: ")
    assert str(tmp_path / "nowhere") in result.stderr


def test_what_is_no_error_of_ours_is_a_bug_and_keeps_its_traceback(wdsctl: Wdsctl) -> None:
    class Cursed(Stream):
        def write(self, text: str) -> int:
            raise RuntimeError("planted")

    result = wdsctl("explain", stdout=Cursed())

    assert result.code == 1
    assert "RuntimeError: planted" in result.stderr
    assert result.stderr.endswith("wdsctl has a bug: please report it with the lines above and the command\n")


def test_a_full_disk_under_stdout_is_an_error_with_a_code(wdsctl: Wdsctl) -> None:
    class Full(Stream):
        name = "<stdout>"

        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for argv in (["explain"], ["explain", "--json"]):
        result = wdsctl(*argv, stdout=Full())

        assert result.code == 3
        assert result.stderr.startswith(
            "error[WDS401]: cannot write the output: No space left on device\n  --> <stdout>\n"
        )
        assert "Traceback" not in result.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("argv", [["explain"], ["explain", "--json"], ["explain", "WDS102"], ["--help"], ["ls", "-h"]])
def test_a_stdout_that_is_full_leaves_one_error_and_its_exit_code(argv: list[str]) -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "wdsctl", *argv], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert (result.returncode, result.stderr.count(b"\n")) == (3, 3)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_where_stderr_is_full_too_the_exit_code_still_tells() -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "wdsctl", "index"], stdout=full, stderr=full, timeout=60, check=False
        )
    assert result.returncode == 2


def test_ctrl_c_says_how_to_go_on(wdsctl: Wdsctl) -> None:
    class Impatient(Stream):
        def write(self, text: str) -> int:
            raise KeyboardInterrupt

    result = wdsctl("explain", stdout=Impatient())

    assert result.code == 130
    assert result.stderr == "interrupted; run the same command again to continue\n"


def test_it_runs_as_a_module(in_a_process: InAProcess) -> None:
    result = in_a_process("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"wdsctl {VERSION}\n", "")


@pytest.mark.parametrize("argv", [["explain"], ["explain", "--json"], ["--help"]])
def test_a_reader_who_left_is_no_error(argv: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [sys.executable, "-m", "wdsctl", *argv], stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, b"")


def test_completion_is_offered(in_a_process: InAProcess) -> None:
    surroundings = os.environ | {
        "_WDSCTL_COMPLETE": "complete_bash",
        "COMP_WORDS": "wdsctl ins",
        "COMP_CWORD": "1",
    }
    assert in_a_process(env=surroundings).stdout.split() == ["inspect"]
