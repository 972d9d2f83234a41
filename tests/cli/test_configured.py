from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl
from tests.cli.test_startup import modules_after

Process = Callable[..., object]


@pytest.fixture
def runs(wdsctl: Wdsctl, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset with three runs, and a working directory beside it."""
    for _ in range(3):
        wdsctl("index", shards)
    monkeypatch.chdir(tmp_path)
    return shards


def listed(wdsctl: Wdsctl, *words: object) -> int:
    result = wdsctl("log", *words, "--json")
    assert result.code == 0, result.stdout
    return len(result.document["runs"])


def test_flag_then_variable_then_nearest_file_then_user_file_then_default(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listed(wdsctl, runs) == 3
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "wdsctl").mkdir(parents=True)
    (tmp_path / "home" / "wdsctl" / "wdsctl.toml").write_text("[log]\nlimit = 1\n")
    assert listed(wdsctl, runs) == 1
    (tmp_path / "pyproject.toml").write_text("[tool.wdsctl.log]\nlimit = 2\n")
    assert listed(wdsctl, runs) == 2
    monkeypatch.setenv("WDSCTL_LOG_LIMIT", "1")
    assert listed(wdsctl, runs) == 1
    assert listed(wdsctl, runs, "-n", 3) == 3


def test_flags_and_lists_reach_their_commands(wdsctl: Wdsctl, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "wdsctl.toml").write_text('[index]\nhash = true\nexclude = ["*3.tar", "*4.tar"]\nmedia = false\n')
    document = wdsctl("index", runs, "--json").document
    assert (document["shards"], document["hashed"]) == (8, 8)


def test_commands_of_groups_are_configured_too(wdsctl: Wdsctl, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "wdsctl.toml").write_text('[view.create]\nwhere = "position = 0"\n')
    assert wdsctl("view", "create", runs, "first", "--json").document["samples"] == 10


def test_a_value_that_an_option_does_not_take_is_blamed_on_the_file(wdsctl: Wdsctl, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "wdsctl.toml").write_text("[log]\nlimit = 'many'\n")
    result = wdsctl("log", runs)
    assert (result.code, result.stderr.splitlines()[:2]) == (
        2,
        ["error[WDS010]: log.limit: invalid value for '--limit' / '-n': a whole number is needed", "  --> wdsctl.toml"],
    )
    assert wdsctl("log", runs, "--limit", "many").stderr.startswith("error[WDS001]")
    assert listed(wdsctl, runs, "--limit", 1) == 1


def test_a_mistake_stops_every_command_but_help_and_those_that_look_into_it(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "wdsctl.toml").write_text("[indx]\n")
    result = wdsctl("log", runs)
    assert (result.code, result.stderr.splitlines()) == (
        2,
        [
            "error[WDS010]: there is no command indx",
            "  --> wdsctl.toml",
            "  help: did you mean index?",
        ],
    )
    assert wdsctl("log", runs, "--json").document["error"]["code"] == "WDS010"
    for words in (("log", "--help"), ("--help",), ("--version",), ("explain", "WDS010"), ("config", "path")):
        assert wdsctl(*words).code == 0


def test_every_option_of_every_command_has_a_name_of_its_own_among_variables(wdsctl: Wdsctl) -> None:
    assert wdsctl("config", "check").code == 0


def test_help_does_not_look_for_a_configuration() -> None:
    loaded = modules_after("--help")
    assert not {"wdsctl.core.config", "tomllib"} & loaded
    assert "tomllib" not in modules_after("config", "path")
    assert sys.version_info >= (3, 10)


def test_what_is_typed_takes_the_place_of_a_configured_option_that_does_not_go_with_it(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "wdsctl.toml").write_text(
        '[sql]\ncsv = true\n[inspect]\nsamples = 1\n[validate]\nformat = "sarif"\n[ls]\nparts = true\n'
    )
    assert wdsctl("sql", runs, "SELECT 1 AS a, 2 AS b").stdout == "a,b\n1,2\n"
    assert wdsctl("sql", runs, "SELECT 1 AS a, 2 AS b", "--tsv").stdout == "a\tb\n1\t2\n"
    assert wdsctl("sql", runs, "SELECT 1 AS a", "--json").document["rows"] == [{"a": 1}]
    assert "contents are of" in wdsctl("inspect", runs, "--stats").stdout
    assert wdsctl("validate", runs, "--json").document["command"] == "validate"
    assert wdsctl("ls", runs, "--shards").stdout.startswith("train-")
    assert wdsctl("sql", runs, "SELECT 1", "--csv", "--tsv").code == 2


def test_what_is_configured_and_says_more_of_what_nobody_asks_for_is_idle(
    wdsctl: Wdsctl, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "wdsctl.toml").write_text(
        '[split]\nby = "key"\nseed = 3\nrest = "train"\n[inspect]\nseed = 4\n[convert]\nseed = 4\n'
    )
    made = wdsctl("split", runs, "8,2", "--json").document
    assert (made["by"], made["seed"]) == ("key", 3)
    assert wdsctl("split", runs, "8,2", "--by", "sample", "--yes", "--json").document["by"] == "sample"
    assert wdsctl("split", "--catalog", runs / ".wdsctl", runs).code == 0
    assert wdsctl("split", runs, "--pattern", "val=*1.tar", "--yes").code == 0
    assert wdsctl("inspect", runs).code == 0
    assert wdsctl("inspect", runs, "--random", 1, "--json").document["seed"] == 4
    assert wdsctl("convert", runs, tmp_path / "dest", "--dry-run").code == 0
