from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl

OWN = "home/wdsctl/wdsctl.toml"  # the user's, in the tests


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "wdsctl").mkdir(parents=True)


def test_nothing_is_configured(wdsctl: Wdsctl) -> None:
    assert wdsctl("config", "show").stdout == "nothing is configured\n"
    assert wdsctl("config", "path").stdout.startswith("no file; your own would be ")
    assert wdsctl("config", "check").stdout == "nothing wrong in 0 files\n"


def test_what_is_in_force_is_shown_with_where_it_is_from(
    wdsctl: Wdsctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / OWN).write_text('[index]\nhash = true\n[prepare]\nshard-size = "1GiB"\n')
    monkeypatch.setenv("WDSCTL_INDEX_WORKERS", "4")
    result = wdsctl("config", "show")
    assert result.code == 0
    assert result.stdout.splitlines() == [
        "option        value   of       from",
        "--hash        true    index    home/wdsctl/wdsctl.toml",
        '--workers     "4"     index    WDSCTL_INDEX_WORKERS',
        '--shard-size  "1GiB"  prepare  home/wdsctl/wdsctl.toml',
    ]
    settings = wdsctl("config", "show", "--json").document["settings"]
    assert settings[0] == {
        "command": "index",
        "option": "hash",
        "value": True,
        "origin": str(tmp_path / OWN),
        "key": "index.hash",
    }


def test_all_mistakes_are_listed_once(wdsctl: Wdsctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / OWN).write_text("limit = 'x'\nwokers = 2\n[ls]\nsplit = true\n")
    monkeypatch.setenv("WDSCTL_INDX_WORKERS", "4")
    result = wdsctl("config", "check")
    assert result.code == 1
    assert sorted(line for line in result.stdout.splitlines() if not line.startswith("  ")) == [
        "error[WDS010]: limit: invalid value: a whole number is needed",
        "error[WDS010]: ls.split: a text or a number is needed",
        "error[WDS010]: there is no option wokers",
        "warning: the variable is of no option",
    ]


def test_another_file_may_be_looked_at(wdsctl: Wdsctl, tmp_path: Path) -> None:
    (tmp_path / "theirs.toml").write_text("[index]\nhash = 3\n")
    assert wdsctl("config", "path", "--config", "theirs.toml").stdout == "theirs.toml (named)\n"
    assert wdsctl("--config=theirs.toml", "config", "check").code == 1
    assert wdsctl("config", "check").code == 0


def test_a_bare_group_shows_its_help(wdsctl: Wdsctl) -> None:
    assert wdsctl("config").code == 2
