from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_folder, tree
from tests.cli.conftest import Wdsctl
from wdsctl.core.dataset.location import META_FOLDER, locate
from wdsctl.core.dataset.lock import hold_lock

LINES = b'\xef\xbb\xbf{"a": 1}\r\n{"a": "\xe9"}\n{"a": 2}\n'


@pytest.fixture
def cut(truncated: Path) -> Path:
    return truncated


def test_repair_writes_fixed_copy_and_reports_missing_samples(wdsctl: Wdsctl, cut: Path, tmp_path: Path) -> None:
    result = wdsctl("repair", cut, tmp_path / "fixed")
    assert result.code == 5
    assert result.stdout.startswith("error[WDS130]: samples are missing from a repaired shard")
    assert "train-000004.tar" in result.stdout
    assert "1 repaired" in result.stdout
    assert max(map(len, result.stdout.splitlines())) < 200
    assert wdsctl("repair", cut, tmp_path / "fixed", "--json").document["fixed"] == 1


def test_repair_exits_with_5_for_unrepairable_shard(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root = a_folder(tmp_path / "in", {"a.tar": b"no tar"})
    result = wdsctl("repair", root, tmp_path / "fixed")
    assert result.code == 5
    assert result.stdout.startswith(
        "error[WDS157]: a repair lost data, or was not possible\n  --> a.tar: the file contains no tar members"
    )
    assert "1 beyond repair\n" in result.stdout  # and nothing is in DEST


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--in-place"], "needs --yes"),
        ([], "missing DEST for the fixed copies"),
        (["DEST", "--no-backup"], "--no-backup needs --in-place"),
        (["DEST", "--encoding", "klingon"], "--encoding klingon"),
        (["DEST", "--in-place", "--yes"], "exclude each other"),
    ],
)
def test_repair_refuses_invalid_options_and_writes_nothing(
    wdsctl: Wdsctl, cut: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    before = tree(tmp_path)
    result = wdsctl("repair", cut, *[word.replace("DEST", str(tmp_path / "fixed")) for word in words])
    assert (result.code, message in result.stderr) == (2, True), result.stderr
    assert tree(tmp_path) == before


def test_repair_in_place_dry_run_writes_nothing_without_yes(wdsctl: Wdsctl, cut: Path) -> None:
    before = tree(cut)
    result = wdsctl("repair", cut, "--in-place", "--dry-run")
    assert (result.code, "1 would be repaired" in result.stdout) == (5, True)
    assert tree(cut) == before


def test_repair_in_place_keeps_backup(wdsctl: Wdsctl, cut: Path) -> None:
    result = wdsctl("repair", cut, "--in-place", "--yes")
    assert (result.code, "the originals are in 1 .bak file" in result.stdout) == (5, True)
    assert (cut / "train-000004.tar.bak").exists()
    assert "put the .bak files back and run index again" in result.stdout.splitlines()[-1]


def test_repair_in_place_without_backup_names_next_command(wdsctl: Wdsctl, cut: Path) -> None:
    lines = wdsctl("repair", cut, "--in-place", "--no-backup", "--yes").stdout.splitlines()
    assert lines[-2].startswith("  next: wdsctl index ")
    assert "trainings cannot resume from states saved on the repaired shards" in lines[-1]
    assert not any("--all" in line or "(in " in line for line in lines)


def test_repair_counts_repaired_lines(wdsctl: Wdsctl, tmp_path: Path) -> None:
    a_folder(tmp_path / "in", {"qa.jsonl": LINES})
    result = wdsctl("repair", tmp_path / "in" / "qa.jsonl", tmp_path / "fixed", "--encoding", "latin-1")
    assert result.code == 0
    assert "  lines re-encoded as UTF-8: 1" in result.stdout.splitlines()
    assert (tmp_path / "fixed" / "qa.jsonl").read_bytes() == '{"a": 1}\n{"a": "é"}\n{"a": 2}\n'.encode()


@pytest.mark.parametrize("words", [("DEST",), ("--in-place", "--yes")])
def test_repair_waits_for_lock(wdsctl: Wdsctl, cut: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    wdsctl("index", cut)
    message = [tmp_path / "fixed" if word == "DEST" else word for word in words]
    lock = str(tmp_path / "fixed" / META_FOLDER / "lock") if words == ("DEST",) else locate(str(cut)).lock
    with hold_lock(lock):
        waited = wdsctl("repair", cut, *message, "--wait", "0.2")
    assert waited.code == 6
    assert "waiting for another wdsctl" in waited.stderr
    assert wdsctl("repair", cut, *message, "--wait").code == 5
