from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl

OWN = "home/wdsctl/wdsctl.toml"  # the user's file in these tests


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "wdsctl").mkdir(parents=True)


def test_config_show_reports_absence_of_options(wdsctl: Wdsctl) -> None:
    assert wdsctl("config", "show").stdout == f"no option is configured (no file at {OWN})\n"


def test_config_show_lists_options_with_origin(wdsctl: Wdsctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / OWN).write_text('[index]\nhash = true\nworkers = 2\n[prepare]\nshard-size = "1GiB"\n')
    monkeypatch.setenv("WDSCTL_INDEX_WORKERS", "4")
    monkeypatch.setenv("WDSCTL_INDX_WORKERS", "4")
    result = wdsctl("config", "show")
    assert result.code == 0
    assert result.stdout.splitlines() == [
        "option        value   command  from",
        "--hash        true    index    home/wdsctl/wdsctl.toml",
        '--workers     "4"     index    WDSCTL_INDEX_WORKERS',
        '--shard-size  "1GiB"  prepare  home/wdsctl/wdsctl.toml',
        "warning: no option reads the variable WDSCTL_INDX_WORKERS",
    ]
    settings = wdsctl("config", "show", "--json").document["settings"]
    assert settings[0] == {"command": "index", "option": "hash", "value": True, "origin": str(tmp_path / OWN)}


def test_config_show_reads_file_of_config_option(wdsctl: Wdsctl, tmp_path: Path) -> None:
    (tmp_path / "theirs.toml").write_text("[index]\nhash = 3\n")
    assert wdsctl("--config=theirs.toml", "config", "show").code == 2
    assert wdsctl("config", "show").code == 0


def test_config_without_subcommand_exits_with_2(wdsctl: Wdsctl) -> None:
    assert wdsctl("config").code == 2
