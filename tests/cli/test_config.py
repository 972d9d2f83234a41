from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wdsctl.cli.config import read_settings, read_variables
from wdsctl.core.errors import UsageError

Read = Callable[[str], dict[str, Any]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """The settings in a file, by command and option."""

    def call(text: str) -> dict[str, Any]:
        (tmp_path / "wdsctl.toml").write_text(text)
        return {f"{each.command} {each.option}": each.value for each in read_settings(str(tmp_path / "wdsctl.toml"))}

    return call


def variables() -> dict[str, Any]:
    return {f"{each.command} {each.option}": each.value for each in read_variables()[0]}


def test_command_table_overrides_top_level_options(read: Read) -> None:
    settings = read("seed = 3\n[split]\nseed = 4\n[view.create]\nseed = 9\n")
    assert {name: value for name, value in settings.items() if name.split()[0] in {"split", "view", "prepare"}} == {
        "prepare seed": "3",
        "split seed": "4",
        "view create seed": "9",
    }


def test_read_settings_converts_values(read: Read) -> None:
    text = '[index]\nhash = false\nexclude = ["a b", "c"]\nmedia = true\n[ls]\nsplit = "x"\n'
    assert read(text) == {
        "index hash": False,
        "index exclude": ["a b", "c"],
        "index media": "auto",
        "ls split": "x",
    }
    assert read("[index]\nmedia = false\n") == {}
    assert read("media = true\n") == {"prepare media": "auto", "index media": "auto"}  # not of convert


def test_read_settings_wraps_text_in_list(read: Read) -> None:
    assert read('[index]\nexclude = "a b"\n') == {"index exclude": ["a b"]}


def test_read_settings_accepts_underscores_in_option_names(read: Read) -> None:
    assert read('[prepare]\nshard_size = "1GiB"\n') == {"prepare shard-size": "1GiB"}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("wokers = 1", "no option 'wokers'", "did you mean workers?"),
        ("[indx]\nhash = true", "no command 'indx'", "did you mean index?"),
        ("[index]\nhsh = true", "no option 'index.hsh'", "did you mean hash?"),
        ("[view.creat]\nseed = 1", "no command 'view creat'", "did you mean view create?"),
        ("[view]\nseed = 1", "no command 'view seed'", ""),
        ("[ls]\nhash = true", "no option 'ls.hash'", ""),
        ("index = 3", "no option 'index'", ""),
        ("[index]\nhash = 'x'", "hash: expected true or false", ""),
        ("[index]\nworkers = true", "workers: expected a text or a number", ""),
        ("[index]\nexclude = [[1]]", "exclude: expected a list of text", ""),
        ("[ls]\nsplit = 2020-01-01", "split: expected a text or a number", ""),
        ("yes = true", "yes: this option cannot be configured", "pass it on the command line"),
        ("[index]\ncolumn = 'x=evil:run'", "index.column: this option cannot be configured", ""),
    ],
)
def test_read_settings_refuses_invalid_file_with_hint(
    read: Read, tmp_path: Path, text: str, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    error = caught.value
    assert (error.code, error.message, error.where) == ("WDS010", message, str(tmp_path / "wdsctl.toml"))
    assert hint in error.hint


def test_command_variable_overrides_general_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WDSCTL_SEED", "5")
    monkeypatch.setenv("WDSCTL_VIEW_CREATE_SEED", "6")
    found = variables()
    assert (found["view create seed"], found["split seed"]) == ("6", "5")


def test_read_variables_lists_unknown_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WDSCTL_INDEX_WORKER", "3")
    monkeypatch.setenv("WDSCTL_CATALOG", "x")
    monkeypatch.setenv("WDSCTL_YES", "1")
    assert read_variables() == ([], ["WDSCTL_INDEX_WORKER", "WDSCTL_YES"])


def test_read_variables_knows_every_documented_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[2] / "docs" / "configuration.md"
    names = set(re.findall(r"`(WDSCTL_[A-Z_]+)`", page.read_text(encoding="utf-8")))
    assert "WDSCTL_CATALOG_CACHE" in names
    for name in names:
        monkeypatch.setenv(name, "1")
    assert read_variables()[1] == []
