from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Stream, Wdsctl


def test_log_lists_runs_latest_first(wdsctl: Wdsctl, shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shards.parent)
    wdsctl("index", "shards")
    wdsctl("split", "shards", "8,1,1")
    result = wdsctl("log", "shards")
    assert result.code == 0
    head, split, index = result.stdout.splitlines()
    assert head.split() == ["run", "started", "took", "status", "generation", "samples", "command"]
    assert split.split()[0] == "2"
    assert split.endswith("ok               1       30  split shards 8,1,1")
    assert index.endswith("ok            -> 1       30  index shards")


def test_log_keeps_timestamp_on_one_line_on_terminal(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    wdsctl("split", shards, "train=8,val=1,test=1", "--by", "key", "--seed", "3")
    output = wdsctl("log", shards, stdout=Stream(is_terminal=True)).stdout
    assert len(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", output)) == 2


def test_log_wraps_command_on_narrow_terminal(wdsctl: Wdsctl, shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.chdir(shards.parent)
    wdsctl("index", "shards")
    lines = wdsctl("log", "shards", stdout=Stream(is_terminal=True)).stdout.splitlines()
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert re.fullmatch(r"1  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ok, .*s", plain[0].strip())
    assert plain[1].strip() == "index shards"
    assert max(map(len, plain)) <= 60


@pytest.mark.parametrize(
    ("typed", "recorded"),
    [
        (("split", "shards", "--exclude-key", "0/0000"), "split shards --exclude-key 0/0000"),
        (("split", "shards", "8,1,1", "--by", "key", "--seed", "3"), "split shards 8,1,1 --by key --seed 3"),
        (("--quiet", "index", "shards", "--missing", "keep"), "index --quiet shards --missing keep"),
        (("prepare", "shards", "--split", "8,1,1"), "prepare shards --split 8,1,1"),
        (("view", "create", "shards", "v", "--where", "id > 0"), "view create shards v --where 'id > 0'"),
        (("index", "shards", "--wait"), "index shards --wait"),
    ],
)
def test_log_lists_command_as_typed(
    wdsctl: Wdsctl, shards: Path, monkeypatch: pytest.MonkeyPatch, typed: tuple[str, ...], recorded: str
) -> None:
    monkeypatch.chdir(shards.parent)
    wdsctl("prepare", "shards")
    assert wdsctl(*typed).code == 0
    assert wdsctl("log", "shards").stdout.splitlines()[1].endswith(f"  {recorded}")


def test_log_prints_findings_of_one_run(wdsctl: Wdsctl, truncated: Path) -> None:
    assert wdsctl("index", truncated).code == 5
    result = wdsctl("log", truncated, 1)
    assert result.code == 0
    assert result.stdout.splitlines()[0].endswith("shards: partial")
    assert "error[WDS102]" in result.stdout
    assert wdsctl("log", truncated, 7).code == 3
    assert wdsctl("log", truncated, 10**30).code == 3


def test_log_prints_json_documents(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    listed = wdsctl("log", shards, "--json").document
    assert (listed["command"], listed["total"], listed["runs"][0]["after"]["samples"]) == ("log", 1, 30)
    assert wdsctl("log", shards, 1, "--json").document["run"]["status"] == "ok"


def test_log_exits_with_3_without_runs(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("log", shards)
    assert (result.code, result.stdout.endswith("shards: no run is recorded\n")) == (3, True)
