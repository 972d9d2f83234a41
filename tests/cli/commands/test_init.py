from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl
from tests.core.init.datasets import make_dataset


@pytest.fixture
def root(tmp_path: Path) -> str:
    return make_dataset(tmp_path / "photos", "classify")


def test_init_prints_written_files_and_next_command(
    wdsctl: Wdsctl, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = wdsctl("init", root)
    assert result.code == 0
    assert result.stdout.splitlines() == [
        "wrote train.py, blend.yaml, README.md to photos-train",
        "ImageClassificationSample: classes of images, 3 classes",
        "16 samples in train, 8 in val",
        "next: cd photos-train && python train.py --steps 100",
    ]


def test_init_prints_json_document(wdsctl: Wdsctl, root: str, tmp_path: Path) -> None:
    document = wdsctl("init", root, tmp_path / "run", "--classify", "--json").document
    assert document["command"] == "init"
    assert (document["kind"], document["classes"], document["folder"]) == ("classify", 3, str(tmp_path / "run"))


def test_init_dry_run_writes_nothing(wdsctl: Wdsctl, root: str, tmp_path: Path) -> None:
    result = wdsctl("init", root, tmp_path / "run", "--dry-run")
    assert result.stdout.startswith("would write train.py")
    assert "next:" not in result.stdout
    assert not (tmp_path / "run").exists()


def test_init_replaces_files_only_with_yes(wdsctl: Wdsctl, root: str, tmp_path: Path) -> None:
    assert wdsctl("init", root, tmp_path / "run").code == 0
    refused = wdsctl("init", root, tmp_path / "run")
    assert (refused.code, "train.py exists" in refused.stderr) == (2, True)
    assert wdsctl("init", root, tmp_path / "run", "--yes").code == 0


def test_init_refuses_conflicting_or_unsuitable_options(wdsctl: Wdsctl, root: str, tmp_path: Path) -> None:
    both = wdsctl("init", root, "--vlm", "--speech")
    assert (both.code, "--vlm and --speech" in both.stderr) == (2, True)
    other = wdsctl("init", root, tmp_path / "run", "--captions")
    assert other.code == 3
    assert "WDS224" in other.stderr
    assert not (tmp_path / "run").exists()
    assert wdsctl("init", tmp_path / "none").code == 3
