from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl


def test_runs_are_listed_the_latest_first(wdsctl: Wdsctl, shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shards.parent)
    wdsctl("index", "shards")
    wdsctl("split", "shards", "8,1,1")
    result = wdsctl("log", "shards")
    assert result.code == 0
    head, split, index = result.stdout.splitlines()
    assert head.split() == ["run", "when", "took", "how", "generation", "samples", "command"]
    assert split.split()[0] == "2"
    assert split.endswith("ok            1       30  split shards train=8,val=1,test=1 auto 0")
    assert index.endswith("ok         -> 1       30  index shards")


def test_one_run_is_shown_with_what_it_found(wdsctl: Wdsctl, truncated: Path) -> None:
    assert wdsctl("index", truncated).code == 5
    result = wdsctl("log", truncated, 1)
    assert result.code == 0
    assert result.stdout.splitlines()[0].endswith("shards: partial")
    assert "error[WDS102]" in result.stdout
    assert wdsctl("log", truncated, 7).code == 3


def test_documents(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    listed = wdsctl("log", shards, "--json").document
    assert (listed["command"], listed["total"], listed["runs"][0]["after"]["samples"]) == ("log", 1, 30)
    assert wdsctl("log", shards, 1, "--json").document["run"]["status"] == "ok"


def test_no_run_is_no_success(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("log", shards)
    assert (result.code, result.stdout.endswith("shards: no run is noted\n")) == (3, True)
