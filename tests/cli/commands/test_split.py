from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock


@pytest.mark.parametrize("ratios", ["8,1,1", "train=8,val=1,test=1"])
def test_shares_may_be_named_or_not(wdsctl: Wdsctl, shards: Path, ratios: str) -> None:
    wdsctl("index", shards)

    document = wdsctl("split", shards, ratios, "--json").document

    assert (document["schema"], document["command"], document["by"]) == (1, "split", "shard")
    assert [(split["name"], split["shards"], split["samples"]) for split in document["splits"]] == [
        ("train", 8, 24),
        ("val", 1, 3),
        ("test", 1, 3),
    ]


def test_the_table_shows_what_came_out(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)

    result = wdsctl("split", shards, "8,1,1")

    assert result.code == 0
    assert result.stdout.splitlines()[1:] == [
        "split  share  shards  samples",
        "train   80 %       8       24",
        "val     10 %       1        3",
        "test    10 %       1        3",
    ]


def test_shares_that_make_no_sense_are_an_error_of_usage(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("split", shards, "8,,1")
    assert result.code == 2
    assert result.stderr.startswith("error[WDS210]: ")


def test_a_dataset_without_a_catalog_says_so(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("split", shards, "8,1,1")
    assert result.code == 6
    assert result.stderr.startswith("error[WDS301]: ")


def test_one_set_may_be_shown_and_has_to_be_there(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    wdsctl("split", shards, "8,1,1")
    wdsctl("split", shards, "1,1", "--set", "halves")

    shown = wdsctl("split", shards, "--set", "halves", "--json").document
    assert [each["name"] for each in shown["sets"]] == ["halves"]
    assert len(wdsctl("split", shards, "--json").document["sets"]) == 2
    unknown = wdsctl("split", shards, "--set", "halfs")
    assert unknown.code == 3
    assert "no split set 'halfs'; it has halves" in unknown.stderr


def test_a_dry_run_changes_nothing(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    assert "would be split" in wdsctl("split", shards, "8,1,1", "--dry-run").stdout
    assert wdsctl("inspect", shards, "--json").document["splits"] == []


def test_of_two_runs_at_once_the_second_waits_or_says_who_is_at_it(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    with hold_lock(locate(str(shards)).lock):
        refused = wdsctl("split", shards, "8,2")
        waited = wdsctl("split", shards, "8,2", "--wait", "0.2")
    assert (refused.code, waited.code) == (6, 6)
    assert f"process {os.getpid()} on {socket.gethostname()}, since" in refused.stderr
    assert "--wait" in refused.stderr
    assert "waiting for another wdsctl" in waited.stderr
    assert wdsctl("split", shards, "--wait", "8,2").code == 0


def test_samples_change_their_split_only_where_somebody_says_yes(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    wdsctl("split", shards, "8,1,1")
    foreseen = wdsctl("split", shards, "8,1", "--dry-run")
    refused = wdsctl("split", shards, "8,1", "--json")
    done = wdsctl("split", shards, "8,1", "--json", "--yes")

    assert "6 samples would leave their split, which needs --yes" in foreseen.stdout
    assert (refused.code, refused.document["error"]["code"]) == (2, "WDS238")
    moves = [(move["before"], move["after"], move["samples"]) for move in done.document["reassigned"]]
    assert sorted(moves) == [("test", "val", 3), ("val", "train", 3)]
