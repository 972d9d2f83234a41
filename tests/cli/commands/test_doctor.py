from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import some_shards
from tests.cli.conftest import Wdsctl
from tests.remote import upload_shards
from wdsctl.core.extras import EXTRA_OF_PACKAGE
from wdsctl.core.version import VERSION


def test_doctor_lists_packages_and_install_command_of_absent_ones(
    wdsctl: Wdsctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRA_OF_PACKAGE, "no-such-package", "loader")
    result = wdsctl("doctor")
    assert result.code == 0
    assert result.stdout.split()[:2] == ["wdsctl", VERSION]
    (absent,) = [line for line in result.stdout.splitlines() if line.startswith("no-such-package")]
    assert absent.split(maxsplit=2) == ["no-such-package", "absent", "pip install 'wdsctl[loader]'"]


def test_doctor_describes_dataset_without_its_path(wdsctl: Wdsctl, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    before = wdsctl("doctor", tmp_path)
    assert before.code == 0
    assert "unknown: WDS301 (wdsctl explain WDS301)" in before.stdout
    assert wdsctl("index", tmp_path).code == 0
    after = wdsctl("doctor", tmp_path)
    assert "1 shard, 1 sample, generation 1" in after.stdout
    assert str(tmp_path) not in after.stdout


def test_doctor_prints_json_document(wdsctl: Wdsctl, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    document = wdsctl("doctor", tmp_path, "--json").document
    assert document["command"] == "doctor"
    assert document["dataset"]["form"] == "folder"
    assert document["dataset"]["catalog_error"] == "WDS301"
    assert wdsctl("doctor", "--json").document["dataset"] is None


def test_doctor_calls_catalog_of_url_copy(wdsctl: Wdsctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    url = upload_shards(some_shards(tmp_path / "local", 1), f"memory://{tmp_path.name}")
    assert wdsctl("index", url).code == 0
    assert "catalog   a copy on this machine, " in wdsctl("doctor", url).stdout


def test_doctor_fails_for_missing_dataset_and_catalog_without_root(wdsctl: Wdsctl, tmp_path: Path) -> None:
    assert wdsctl("doctor", tmp_path / "none").code == 3
    result = wdsctl("doctor", "--catalog", tmp_path)
    assert result.code == 2
    assert "wdsctl doctor ROOT --catalog DIR" in result.stderr
