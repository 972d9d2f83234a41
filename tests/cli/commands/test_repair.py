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


def test_a_broken_shard_gets_a_copy_and_the_answer_says_how(wdsctl: Wdsctl, cut: Path, tmp_path: Path) -> None:
    result = wdsctl("repair", cut, tmp_path / "fixed")
    assert result.code == 5
    assert result.stdout.startswith("error[WDS130]: samples are missing from a repaired shard")
    assert "train-000004.tar" in result.stdout
    assert "1 repaired" in result.stdout
    assert max(map(len, result.stdout.splitlines())) < 200
    assert wdsctl("repair", cut, tmp_path / "fixed", "--json").document["fixed"] == 1


def test_what_cannot_be_repaired_is_told_and_ends_with_5(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root = a_folder(tmp_path / "in", {"a.tar": b"no tar"})
    result = wdsctl("repair", root, tmp_path / "fixed")
    assert result.code == 5
    assert result.stdout.startswith("error[WDS157]: not repaired\n  --> a.tar: the file contains no tar members")
    assert "1 beyond repair\n" in result.stdout  # and nothing is in DEST


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--in-place"], "needs --yes"),
        ([], "missing DEST for the fixed copies"),
        (["DEST", "--no-backup"], "--no-backup needs --in-place"),
        (["DEST", "--encoding", "klingon"], "--encoding klingon"),
        (["DEST", "--in-place", "--yes"], "exclude each other"),
    ],
)
def test_words_that_make_no_sense_are_refused_and_nothing_is_written(
    wdsctl: Wdsctl, cut: Path, tmp_path: Path, words: list[str], said: str
) -> None:
    before = tree(tmp_path)
    result = wdsctl("repair", cut, *[word.replace("DEST", str(tmp_path / "fixed")) for word in words])
    assert (result.code, said in result.stderr) == (2, True), result.stderr
    assert tree(tmp_path) == before


def test_a_dry_run_in_place_needs_no_yes_and_writes_nothing(wdsctl: Wdsctl, cut: Path) -> None:
    before = tree(cut)
    result = wdsctl("repair", cut, "--in-place", "--dry-run")
    assert (result.code, "1 would be repaired" in result.stdout) == (5, True)
    assert tree(cut) == before


def test_in_place_keeps_what_was_there(wdsctl: Wdsctl, cut: Path) -> None:
    result = wdsctl("repair", cut, "--in-place", "--yes")
    assert (result.code, "the originals are in 1 .bak file" in result.stdout) == (5, True)
    assert (cut / "train-000004.tar.bak").exists()


def test_lines_are_repaired_with_counts(wdsctl: Wdsctl, tmp_path: Path) -> None:
    a_folder(tmp_path / "in", {"qa.jsonl": LINES})
    result = wdsctl("repair", tmp_path / "in" / "qa.jsonl", tmp_path / "fixed", "--encoding", "latin-1")
    assert result.code == 0
    assert "  lines re-encoded as UTF-8: 1" in result.stdout.splitlines()
    assert (tmp_path / "fixed" / "qa.jsonl").read_bytes() == '{"a": 1}\n{"a": "é"}\n{"a": 2}\n'.encode()


@pytest.mark.parametrize("words", [("DEST",), ("--in-place", "--yes")])
def test_of_two_runs_at_once_the_second_waits(
    wdsctl: Wdsctl, cut: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    wdsctl("index", cut)
    said = [tmp_path / "fixed" if word == "DEST" else word for word in words]
    lock = str(tmp_path / "fixed" / META_FOLDER / "lock") if words == ("DEST",) else locate(str(cut)).lock
    with hold_lock(lock):
        waited = wdsctl("repair", cut, *said, "--wait", "0.2")
    assert waited.code == 6
    assert "waiting for another wdsctl" in waited.stderr
    assert wdsctl("repair", cut, *said, "--wait").code == 5
