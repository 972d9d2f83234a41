from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wdsctl.core.config import Config, Schema, is_any, read_config, variable_of

SCHEMA: Schema = {
    "index": {"workers": "value", "hash": "flag", "exclude": "many", "media": "bare"},
    "ls": {"split": "value"},
    "view create": {"workers": "value", "seed": "value"},
}


def read(folder: Path, text: str = "", **environment: str) -> Config:
    (folder / "wdsctl").mkdir(parents=True)
    if text:
        (folder / "wdsctl" / "wdsctl.toml").write_text(text)
    return read_config(SCHEMA, {"XDG_CONFIG_HOME": str(folder), **environment})


def values(config: Config) -> dict[str, Any]:
    assert config.problems == ()
    return {f"{command} {option}": setting.value for (command, option), setting in config.settings.items()}


def test_a_table_of_a_command_wins_over_what_stands_above_all(tmp_path: Path) -> None:
    assert values(read(tmp_path, "workers = 3\n[index]\nworkers = 4\n[view.create]\nseed = 9\n")) == {
        "index workers": "4",
        "view create workers": "3",
        "view create seed": "9",
    }


def test_a_file_that_is_named_takes_the_place_of_the_users(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[ls]\nsplit = 'val'\n")
    read(tmp_path, "workers = 3\n")
    assert values(read_config(SCHEMA, {"XDG_CONFIG_HOME": str(tmp_path)}, str(other))) == {"ls split": "val"}


def test_variables_win_over_files_and_the_closer_one_over_the_wider(tmp_path: Path) -> None:
    config = read(tmp_path, "[index]\nworkers = 4\n", WDSCTL_WORKERS="5", WDSCTL_VIEW_CREATE_WORKERS="6")
    assert values(config) == {"index workers": "5", "view create workers": "6"}
    assert config.of("index")["workers"].origin == "WDSCTL_WORKERS"


def test_what_files_may_say(tmp_path: Path) -> None:
    text = '[index]\nhash = false\nexclude = ["a b", "c"]\nmedia = true\n[ls]\nsplit = "x"\n'
    assert values(read(tmp_path, text)) == {
        "index hash": False,
        "index exclude": ["a b", "c"],
        "index media": True,
        "ls split": "x",
    }


def test_one_text_is_a_list_of_one(tmp_path: Path) -> None:
    assert values(read(tmp_path, '[index]\nexclude = "a b"\n')) == {"index exclude": ["a b"]}


def test_what_variables_may_say(tmp_path: Path) -> None:
    config = read(tmp_path, WDSCTL_INDEX_HASH="Yes", WDSCTL_INDEX_EXCLUDE="'a b' c", WDSCTL_INDEX_MEDIA="jpg")
    assert values(config) == {"index hash": True, "index exclude": ["a b", "c"], "index media": "jpg"}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("wokers = 1", "there is no option wokers", "did you mean workers?"),
        ("[indx]\nhash = true", "there is no command indx", "did you mean index?"),
        ("[index]\nhsh = true", "there is no option index.hsh", "did you mean hash?"),
        ("[view.creat]\nseed = 1", "there is no command of view creat", "did you mean create?"),
        ("[ls]\nhash = true", "there is no option ls.hash", ""),
        ("index = 3", "index: a table of options is needed, such as [index]", ""),
        ("[index]\nhash = 'x'", "index.hash: true or false is needed", ""),
        ("[index]\nworkers = true", "index.workers: a text or a number is needed", ""),
        ("[index]\nexclude = [[1]]", "index.exclude: a list of texts is needed", ""),
        ("[ls]\nsplit = 2020-01-01", "ls.split: a text or a number is needed", ""),
        ("yes = true", "yes: this option cannot be configured; it is given each time", ""),
        ("[index]\ncolumn = 'x=evil:run'", "index.column: this option cannot be configured; it is given each time", ""),
    ],
)
def test_what_is_wrong_is_said_with_what_may_be_meant(tmp_path: Path, text: str, message: str, hint: str) -> None:
    (problem,) = read(tmp_path, text).problems
    assert (problem.message, problem.where, problem.hint) == (message, str(tmp_path / "wdsctl" / "wdsctl.toml"), hint)
    assert problem.as_error().code == "WDS010"


def test_an_unknown_variable_is_told_and_stops_nothing(tmp_path: Path) -> None:
    config = read(tmp_path, WDSCTL_INDEX_WORKER="3", WDSCTL_CATALOG="x")
    assert config.problems == ()
    assert [(p.where, p.hint) for p in config.unknown] == [
        ("WDSCTL_INDEX_WORKER", "did you mean WDSCTL_INDEX_WORKERS?")
    ]


@pytest.mark.parametrize("environment", [{"WDSCTL_INDEX_HASH": "perhaps"}, {"WDSCTL_INDEX_EXCLUDE": "'open"}])
def test_a_variable_that_cannot_be_understood_is_named(tmp_path: Path, environment: dict[str, str]) -> None:
    (problem,) = read(tmp_path, **environment).problems
    assert problem.where == next(iter(environment))


def test_names_of_variables() -> None:
    assert variable_of("shard-size", "view create") == "WDSCTL_VIEW_CREATE_SHARD_SIZE"
    assert variable_of("workers") == "WDSCTL_WORKERS"


def test_most_runs_have_no_configuration(tmp_path: Path) -> None:
    plain = {"XDG_CONFIG_HOME": str(tmp_path), "WDSCTL_CATALOG": "x", "WDSCTL_NO_COLOR": "1"}
    assert not is_any(plain)
    assert is_any(plain | {"WDSCTL_WORKERS": "1"})
