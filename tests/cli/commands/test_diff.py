from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Wdsctl, a_tar


@pytest.fixture
def pair(wdsctl: Wdsctl, shards: Path) -> tuple[Path, Path]:
    """A dataset of ten shards and a changed copy of it."""
    other = shards.parent / "other"
    shutil.copytree(shards, other)
    (other / "train-000003.tar").rename(other / "val-000003.tar")
    (other / "train-000005.tar").unlink()
    a_tar(other / "train-000006.tar", {"6/0000.txt": b"a dog, too", "6/0001.txt": b"a cat", "6/0001.json": b"{}"})
    for root in (shards, other):
        assert wdsctl("index", root).code == 0
        assert wdsctl("split", root, "8,1,1").code == 0
    return shards, other


def test_diff_exits_with_0_for_equal_datasets(wdsctl: Wdsctl, pair: tuple[Path, Path]) -> None:
    result = wdsctl("diff", pair[0], pair[0], "--content")
    assert result.code == 0
    assert result.stdout.splitlines()[-1].startswith("nothing differs (by keys, and the bytes of parts; ")


@pytest.mark.parametrize(("option", "value"), [("--until", 1), ("--catalog-b", "elsewhere")])
def test_diff_refuses_options_without_their_other_side(
    wdsctl: Wdsctl, shards: Path, option: str, value: object
) -> None:
    wdsctl("index", shards)
    since = ["--since", 1] if option == "--catalog-b" else []
    result = wdsctl("diff", shards, *since, option, value)
    assert (result.code, f"{option} needs " in result.stderr) == (2, True)


def test_diff_prints_differences_within_80_columns_and_exits_with_1(
    wdsctl: Wdsctl, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pair[0].parent)
    result = wdsctl("diff", "shards", "other", "--limit", 1)
    assert result.code == 1
    lines = result.stdout.splitlines()
    assert lines[:5] == [
        "  A  shards, generation 1: 30 samples in 10 shards (100.0 KiB)",
        "  B  other, generation 1: 26 samples in 9 shards (90.0 KiB)",
        "         same  added  removed  moved  changed",
        "shards      7      0        1      1        1",
        "samples    21      0        4      3        2",
    ]
    assert lines[5:12] == [
        "- train-000005.tar",
        "~ train-000006.tar (3 -> 2 samples)",
        "> train-000003.tar -> val-000003.tar (3 samples)",
        "- sample 5/0000 (train-000005.tar)",
        "- ... and 3 more samples",
        "~ sample 6/0000 (train-000006.tar)",
        "~ ... and 1 more sample",
    ]
    assert all(len(line) <= 80 for line in lines)


def test_diff_json_document_has_all_counts(wdsctl: Wdsctl, pair: tuple[Path, Path]) -> None:
    document = wdsctl("diff", *pair, "--json").document
    assert (document["schema"], document["command"]) == (1, "diff")
    assert {kind: document["samples"][kind] for kind in ("same", "added", "removed", "moved", "changed")} == {
        "same": 21,
        "added": 0,
        "removed": 4,
        "moved": 3,
        "changed": 2,
    }
    assert [split["name"] for split in document["splits"]] == ["train", "val", "test"]


def test_diff_exits_with_6_for_unindexed_dataset(wdsctl: Wdsctl, shards: Path) -> None:
    result = wdsctl("diff", shards, shards)
    assert (result.code, result.stderr.splitlines()[0][:13]) == (6, "error[WDS301]")


def test_diff_content_exits_with_5_for_missing_shard(wdsctl: Wdsctl, shards: Path) -> None:
    other = shards.parent / "other"
    shutil.copytree(shards, other)
    for root in (shards, other):
        wdsctl("index", root)
    (other / "train-000005.tar").unlink()
    result = wdsctl("diff", shards, other, "--content")
    assert result.code == 5
    assert "train-000005.tar" in result.stdout


def test_diff_since_compares_with_older_generation(wdsctl: Wdsctl, shards: Path) -> None:
    wdsctl("index", shards)
    (shards / "train-000005.tar").unlink()
    wdsctl("index", shards, "--missing", "drop")
    result = wdsctl("diff", shards, "--since", 1)
    assert result.code == 1
    assert "splits not compared: the catalog has no splits of older generations" in result.stdout
    assert wdsctl("diff", shards, "--since", 5).code == 3
