from __future__ import annotations

import os
from pathlib import Path

import pytest

from wdsctl.cli.config_file import (
    MAX_CONFIG_BYTES,
    find_config_file,
    has_unused_config,
    read_config_file,
    user_config_path,
)
from wdsctl.core.errors import InputError


def found(folder: Path, named: str | None = None, **environment: str) -> str | None:
    return find_config_file({"XDG_CONFIG_HOME": str(folder / "home"), **environment}, named)


def a_file(path: Path, text: str = "workers = 1\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_the_users_own_file_counts_and_none_from_where_they_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    a_file(tmp_path / "a" / "wdsctl.toml")
    a_file(tmp_path / "pyproject.toml", "[tool.wdsctl]\n")
    monkeypatch.chdir(tmp_path / "a")
    assert found(tmp_path) is None
    user = a_file(tmp_path / "home" / "wdsctl" / "wdsctl.toml")
    assert found(tmp_path) == user
    assert user_config_path({"XDG_CONFIG_HOME": str(tmp_path / "home")}) == user


def test_a_file_that_is_named_stands_alone_and_the_option_before_the_variable(tmp_path: Path) -> None:
    a_file(tmp_path / "home" / "wdsctl" / "wdsctl.toml")
    other, third = a_file(tmp_path / "other.toml"), a_file(tmp_path / "third.toml")
    assert found(tmp_path, WDSCTL_CONFIG=other) == other
    assert found(tmp_path, third, WDSCTL_CONFIG=other) == third
    assert found(tmp_path, "none", WDSCTL_CONFIG=other) is None


def test_a_relative_home_of_configurations_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    a_file(tmp_path / "wdsctl" / "wdsctl.toml")
    assert user_config_path({"XDG_CONFIG_HOME": "."}) == str(tmp_path / "me/.config/wdsctl/wdsctl.toml")
    assert find_config_file({"XDG_CONFIG_HOME": "."}) is None


def test_a_file_here_that_does_not_count_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not has_unused_config({})
    a_file(tmp_path / "wdsctl.toml")
    assert has_unused_config({})
    assert not has_unused_config({"WDSCTL_CONFIG": "none"})
    assert not has_unused_config({}, "wdsctl.toml")
    monkeypatch.chdir(Path(a_file(tmp_path / "home" / "wdsctl" / "wdsctl.toml")).parent)
    assert not has_unused_config({"XDG_CONFIG_HOME": str(tmp_path / "home")})


@pytest.mark.parametrize("what", ["pipe", "deep", "large"])
def test_a_file_that_would_be_waited_for_or_never_end_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "wdsctl.toml"
    if what == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("a = " + "[" * 100_000 if what == "deep" else "#" * (MAX_CONFIG_BYTES + 1))
    with pytest.raises(InputError, match="cannot read the configuration") as caught:
        read_config_file(str(path))
    assert caught.value.code == "WDS010"


@pytest.mark.parametrize("none", ["none", ""])
def test_no_file_may_be_asked_for(tmp_path: Path, none: str) -> None:
    a_file(tmp_path / "home" / "wdsctl" / "wdsctl.toml")
    assert found(tmp_path, WDSCTL_CONFIG=none) is None


def test_tables_of_either_file(tmp_path: Path) -> None:
    assert read_config_file(a_file(tmp_path / "wdsctl.toml", "\ufeffworkers = 1\n[index]\nhash = true\n")) == {
        "workers": 1,
        "index": {"hash": True},
    }
    assert read_config_file(a_file(tmp_path / "pyproject.toml", "[tool.wdsctl.index]\nhash = true\n")) == {
        "index": {"hash": True}
    }


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("wdsctl.toml", b"[index", "it is not TOML"),
        ("wdsctl.toml", b"a = '\xff'", "it is not UTF-8 (byte 5)"),
        ("pyproject.toml", b"[tool]\nwdsctl = 1", "tool.wdsctl is not a table"),
    ],
)
def test_a_file_that_does_not_parse_is_refused_by_name(tmp_path: Path, name: str, text: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        read_config_file(str(path))
    assert (caught.value.code, caught.value.where) == ("WDS010", str(path))
    assert words in caught.value.message
