from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl, a_tar


@pytest.fixture
def with_a_warning(wdsctl: Wdsctl, shards: Path) -> Path:
    """One key in two shards."""
    a_tar(shards / "again.tar", {"0/0000.txt": b"x", "0/0000.json": b"{}"})
    assert wdsctl("index", shards).code == 0
    return shards


def test_a_sound_dataset_passes(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    result = wdsctl("validate", shards)
    assert result.code == 0
    assert result.stdout.startswith(f"{shards}: nothing wrong\n")


@pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("warning", 1), ("note", 1), ("never", 0)])
def test_what_fails_is_chosen(wdsctl: Wdsctl, with_a_warning: Path, fail_on: str, code: int) -> None:
    assert wdsctl("validate", with_a_warning, "--fail-on", fail_on).code == code


def test_warnings_fail_unless_told_otherwise(wdsctl: Wdsctl, with_a_warning: Path) -> None:
    result = wdsctl("validate", with_a_warning)
    assert result.code == 1
    assert result.stdout.startswith("warning[WDS106]: the same key in several shards")
    assert result.stderr == ""


def test_findings_are_in_the_document_whatever_the_limit(wdsctl: Wdsctl, with_a_warning: Path) -> None:
    document = wdsctl("validate", with_a_warning, "--json", "--limit", "1").document
    assert (document["schema"], document["command"]) == (1, "validate")
    assert [finding["code"] for finding in document["findings"]] == ["WDS106"]


def test_a_truncated_shard_is_an_error_with_its_place(wdsctl: Wdsctl, truncated: Path) -> None:
    assert wdsctl("index", truncated).code == 5
    result = wdsctl("validate", truncated, "--fail-on", "error")
    assert result.code == 1
    assert "error[WDS102]: the shard is truncated\n  --> train-000004.tar (byte " in result.stdout
