from __future__ import annotations

from pathlib import Path

import pytest

from wdsctl.core.config_file import Candidate, candidates, tables, user_file
from wdsctl.core.errors import InputError


def found(folder: Path, **environment: str) -> list[Candidate]:
    return candidates({"XDG_CONFIG_HOME": str(folder / "home"), **environment}, str(folder / "a" / "b"))


def a_file(path: Path, text: str = "workers = 1\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_the_nearest_file_upwards_counts_alone(tmp_path: Path) -> None:
    far = a_file(tmp_path / "wdsctl.toml")
    assert found(tmp_path) == [Candidate(far, "project")]
    near = a_file(tmp_path / "a" / "pyproject.toml", "[tool.wdsctl]\n")
    assert found(tmp_path) == [Candidate(near, "project")]
    nearest = a_file(tmp_path / "a" / "b" / "wdsctl.toml")
    assert found(tmp_path) == [Candidate(nearest, "project")]


def test_a_pyproject_without_our_table_does_not_count(tmp_path: Path) -> None:
    far = a_file(tmp_path / "wdsctl.toml")
    a_file(tmp_path / "a" / "pyproject.toml", "[tool.ruff]\n")
    assert found(tmp_path) == [Candidate(far, "project")]


def test_wdsctl_toml_goes_before_pyproject_beside_it(tmp_path: Path) -> None:
    a_file(tmp_path / "a" / "pyproject.toml", "[tool.wdsctl]\n")
    mine = a_file(tmp_path / "a" / "wdsctl.toml")
    assert [file.path for file in found(tmp_path)] == [mine]


def test_the_users_file_comes_after(tmp_path: Path) -> None:
    project = a_file(tmp_path / "wdsctl.toml")
    user = a_file(tmp_path / "home" / "wdsctl" / "wdsctl.toml")
    assert found(tmp_path) == [Candidate(project, "project"), Candidate(user, "user")]
    assert user_file({"XDG_CONFIG_HOME": str(tmp_path / "home")}) == user


def test_a_file_that_is_named_stands_alone(tmp_path: Path) -> None:
    a_file(tmp_path / "wdsctl.toml")
    other = a_file(tmp_path / "other.toml")
    assert found(tmp_path, WDSCTL_CONFIG=other) == [Candidate(other, "named")]


@pytest.mark.parametrize("none", ["none", ""])
def test_no_file_may_be_asked_for(tmp_path: Path, none: str) -> None:
    a_file(tmp_path / "wdsctl.toml")
    assert found(tmp_path, WDSCTL_CONFIG=none) == []


def test_tables_of_either_file(tmp_path: Path) -> None:
    assert tables(a_file(tmp_path / "wdsctl.toml", "\ufeffworkers = 1\n[index]\nhash = true\n")) == {
        "workers": 1,
        "index": {"hash": True},
    }
    assert tables(a_file(tmp_path / "pyproject.toml", "[tool.wdsctl.index]\nhash = true\n")) == {
        "index": {"hash": True}
    }


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("wdsctl.toml", b"[index", "it is no TOML"),
        ("wdsctl.toml", b"a = '\xff'", "it is not UTF-8 (byte 5)"),
        ("pyproject.toml", b"[tool]\nwdsctl = 1", "tool.wdsctl is no table"),
    ],
)
def test_a_file_that_does_not_parse_is_refused_by_name(tmp_path: Path, name: str, text: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        tables(str(path))
    assert (caught.value.code, caught.value.where) == ("WDS010", str(path))
    assert words in caught.value.message
