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


def find(folder: Path, option: str | None = None, **environment: str) -> str | None:
    return find_config_file({"XDG_CONFIG_HOME": str(folder / "home"), **environment}, option)


def a_file(path: Path, text: str = "workers = 1\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_find_config_file_reads_user_file_not_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    a_file(tmp_path / "a" / "wdsctl.toml")
    a_file(tmp_path / "pyproject.toml", "[tool.wdsctl]\n")
    monkeypatch.chdir(tmp_path / "a")
    assert find(tmp_path) is None
    user = a_file(tmp_path / "home" / "wdsctl" / "wdsctl.toml")
    assert find(tmp_path) == user
    assert user_config_path({"XDG_CONFIG_HOME": str(tmp_path / "home")}) == user


def test_find_config_file_prefers_option_then_variable(tmp_path: Path) -> None:
    a_file(tmp_path / "home" / "wdsctl" / "wdsctl.toml")
    other, third = a_file(tmp_path / "other.toml"), a_file(tmp_path / "third.toml")
    assert find(tmp_path, WDSCTL_CONFIG=other) == other
    assert find(tmp_path, third, WDSCTL_CONFIG=other) == third
    assert find(tmp_path, "none", WDSCTL_CONFIG=other) is None


def test_user_config_path_ignores_relative_xdg_config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    a_file(tmp_path / "wdsctl" / "wdsctl.toml")
    assert user_config_path({"XDG_CONFIG_HOME": "."}) == str(tmp_path / "me/.config/wdsctl/wdsctl.toml")
    assert find_config_file({"XDG_CONFIG_HOME": "."}) is None


def test_has_unused_config_detects_file_in_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not has_unused_config({})
    a_file(tmp_path / "wdsctl.toml")
    assert has_unused_config({})
    assert not has_unused_config({"WDSCTL_CONFIG": "none"})
    assert not has_unused_config({}, "wdsctl.toml")
    monkeypatch.chdir(Path(a_file(tmp_path / "home" / "wdsctl" / "wdsctl.toml")).parent)
    assert not has_unused_config({"XDG_CONFIG_HOME": str(tmp_path / "home")})


@pytest.mark.parametrize("kind", ["pipe", "deep", "large"])
def test_read_config_file_refuses_pipes_and_oversized_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "wdsctl.toml"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("a = " + "[" * 100_000 if kind == "deep" else "#" * (MAX_CONFIG_BYTES + 1))
    with pytest.raises(InputError, match="cannot read the configuration") as caught:
        read_config_file(str(path))
    assert caught.value.code == "WDS010"


@pytest.mark.parametrize("none", ["none", ""])
def test_find_config_file_returns_none_if_disabled(tmp_path: Path, none: str) -> None:
    a_file(tmp_path / "home" / "wdsctl" / "wdsctl.toml")
    assert find(tmp_path, WDSCTL_CONFIG=none) is None


def test_read_config_file_reads_wdsctl_and_pyproject_tables(tmp_path: Path) -> None:
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
def test_read_config_file_names_invalid_file(tmp_path: Path, name: str, text: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        read_config_file(str(path))
    assert (caught.value.code, caught.value.where) == ("WDS010", str(path))
    assert words in caught.value.message
