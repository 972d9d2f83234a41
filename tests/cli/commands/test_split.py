from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.build import split_by_ratios
from tests.cli.conftest import Wdsctl
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import UsageError


@pytest.mark.parametrize("ratios", ["8,1,1", "train=8,val=1,test=1"])
def test_split_accepts_named_and_unnamed_ratios(wdsctl: Wdsctl, shards: Path, ratios: str) -> None:
    wdsctl("index", shards)

    document = wdsctl("split", shards, ratios, "--json").document

    assert (document["schema"], document["command"], document["by"]) == (1, "split", "shard")
    assert [(split["name"], split["shards"], split["samples"]) for split in document["splits"]] == [
        ("train", 8, 24),
        ("val", 1, 3),
        ("test", 1, 3),
    ]


def test_split_prints_table_of_splits(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)

    result = wdsctl("split", shards, "8,1,1")

    assert result.code == 0
    assert result.stdout.splitlines()[1:] == [
        "split  share  shards  samples",
        "train   80 %       8       24",
        "val     10 %       1        3",
        "test    10 %       1        3",
    ]


def test_split_exits_with_2_for_invalid_ratios(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("split", shards, "8,,1")
    assert result.code == 2
    assert result.stderr.startswith("error[WDS210]: ")


def test_split_exits_with_6_without_catalog(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("split", shards, "8,1,1")
    assert result.code == 6
    assert result.stderr.startswith("error[WDS301]: ")


def test_split_set_prints_one_set_and_fails_for_unknown_set(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    wdsctl("split", shards, "8,1,1")
    wdsctl("split", shards, "1,1", "--set", "halves")

    shown = wdsctl("split", shards, "--set", "halves", "--json").document
    assert [each["name"] for each in shown["sets"]] == ["halves"]
    assert len(wdsctl("split", shards, "--json").document["sets"]) == 2
    unknown = wdsctl("split", shards, "--set", "halfs")
    assert unknown.code == 3
    assert "no split set 'halfs'; it has halves" in unknown.stderr


def test_split_dry_run_changes_nothing(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    assert "would be split" in wdsctl("split", shards, "8,1,1", "--dry-run").stdout
    assert wdsctl("inspect", shards, "--json").document["splits"] == []


def test_split_waits_for_lock_or_names_its_holder(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    with hold_lock(locate(str(shards)).lock):
        refused = wdsctl("split", shards, "8,2")
        waited = wdsctl("split", shards, "8,2", "--wait", "0.2")
    assert (refused.code, waited.code) == (6, 6)
    assert f"process {os.getpid()} on {socket.gethostname()}, since" in refused.stderr
    assert "--wait" in refused.stderr
    assert "waiting for another wdsctl" in waited.stderr
    assert wdsctl("split", shards, "--wait", "8,2").code == 0


@pytest.mark.parametrize("consent", ["--allow-split-changes", "--yes"])
def test_split_reassigns_samples_only_with_consent(wdsctl: Wdsctl, shards: Path, consent: str) -> None:
    wdsctl("index", shards)
    first = wdsctl("split", shards, "8,1,1", "--json", consent)
    preview = wdsctl("split", shards, "8,1", "--dry-run")
    refused = wdsctl("split", shards, "8,1", "--json")
    done = wdsctl("split", shards, "8,1", "--json", consent)
    again = wdsctl("split", shards, "8,1", "--json", consent)

    assert "6 samples would leave their split, which needs --allow-split-changes" in preview.stdout
    assert (refused.code, refused.document["error"]["code"]) == (2, "WDS238")
    moves = [(move["before"], move["after"], move["samples"]) for move in done.document["reassigned"]]
    assert sorted(moves) == [("test", "val", 3), ("val", "train", 3)]
    assert [each.document["consents"] for each in (first, done, again)] == [[], ["allow_split_changes"], []]
    assert "consents used: --allow-split-changes\n" in wdsctl("split", shards, "1,1", consent).stdout


def test_split_export_refuses_options_that_it_would_ignore(wdsctl: Wdsctl, shards: Path, tmp_path: Path) -> None:
    wdsctl("index", shards)
    wdsctl("split", shards, "8,1,1")
    dry = wdsctl("split", shards, "--export", tmp_path / "split.yaml", "--dry-run")
    assert (dry.code, "which --dry-run forbids" in dry.stderr) == (2, True)
    both = wdsctl("split", shards, "--leaks", "--export", tmp_path / "split.yaml")
    assert (both.code, "--export and --leaks exclude each other" in both.stderr) == (2, True)
    assert not (tmp_path / "split.yaml").exists()
    assert wdsctl("split", shards, "--export", "-", "--dry-run").stdout.startswith("split_parts:")


@pytest.mark.parametrize("seed", [1 << 63, -(1 << 63) - 1])
def test_seed_that_the_catalog_cannot_store_is_refused(
    wdsctl: Wdsctl, shards: Path, photos: Path, tmp_path: Path, seed: int
) -> None:
    wdsctl("index", shards)
    for words in (("split", shards, "8,1,1"), ("prepare", photos.parent / "photos", tmp_path / "out", "--no-input")):
        result = wdsctl(*words, "--seed", seed)
        assert (result.code, f"the seed {seed} is not a whole number" in result.stderr) == (2, True)
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match="64 bits"):
        split_by_ratios(str(shards), {"train": 1, "val": 1}, seed=seed)
    assert wdsctl("split", shards, "8,1,1", "--seed", (1 << 63) - 1).code == 0
