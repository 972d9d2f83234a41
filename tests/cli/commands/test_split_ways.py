from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Stream, Wdsctl, a_tar
from wdsctl.core.dataset.location import META_FOLDER


@pytest.fixture
def dataset(tmp_path: Path, wdsctl: Wdsctl) -> Path:
    """Ten shards of four samples, in groups of eight; the last sample has a copy of the first one's image."""
    for shard in range(10):
        members = {}
        for i in range(shard * 4, shard * 4 + 4):
            facts = {"film": i // 8, "label": "ab"[i % 2]}
            members[f"{i:04}.jpg"] = f"picture {i if i != 39 else 0:02}".encode()
            members[f"{i:04}.json"] = json.dumps(facts).encode()
        a_tar(tmp_path / "films" / f"s-{shard:02}.tar", members)
    wdsctl("index", tmp_path / "films")
    return tmp_path / "films"


def test_split_without_ratios_lists_existing_sets(wdsctl: Wdsctl, dataset: Path) -> None:
    assert "no splits yet" in wdsctl("split", dataset).stdout
    wdsctl("split", dataset, "1,1")
    wdsctl("split", dataset, "a=1,b=3", "--by", "key", "--set", "two")
    shown = wdsctl("split", dataset, "--json").document

    assert [(each["name"], each["rule"]) for each in shown["sets"]] == [
        ("", "by shard, seed 0"),
        ("two", "by key, seed 0"),
    ]
    assert [each["name"] for each in shown["sets"][1]["splits"]] == ["two/a", "two/b"]
    assert shown["samples"] == 40
    assert [line.split()[0] for line in wdsctl("split", dataset).stdout.splitlines() if "/a" in line] == ["two/a"]


@pytest.mark.parametrize(
    ("words", "by"),
    [
        (["1,1", "--group-by", "json:film", "--seed", "8"], "group"),
        (["1,1", "--stratify", "json:label"], "stratum"),
        (["--pattern", "train=s-{00..07}.tar", "--rest", "val"], "pattern"),
        (["--pattern", "train=glob:s-0*", "--pattern", "val=re:s-1.*", "--rest", "none", "--allow-empty"], "pattern"),
        (["--folds", "2"], "key"),
    ],
)
def test_split_methods_report_their_splits(wdsctl: Wdsctl, dataset: Path, words: list[str], by: str) -> None:
    document = wdsctl("split", dataset, *words, "--json").document

    assert (document["by"], document["command"]) == (by, "split")
    assert sum(each["samples"] for each in document["splits"]) == 40 * len(document["sets"])


def test_split_prints_drift_of_strata(wdsctl: Wdsctl, dataset: Path) -> None:
    lines = wdsctl("split", dataset, "train=3,val=1", "--stratify", "json:label").stdout.splitlines()
    at = lines.index("2 strata, largest drift 0 %")

    assert lines[at + 1 :] == [
        "stratum  samples  train  val  drift",
        "a             20     15    5    0 %",
        "b             20     15    5    0 %",
    ]


def test_split_prints_drift_of_grouped_strata_and_folds(wdsctl: Wdsctl, dataset: Path) -> None:
    words = ("--group-by", "json:film", "--stratify", "json:label")
    lines = wdsctl("split", dataset, "train=3,val=1", *words).stdout.splitlines()
    assert lines[0].endswith(": split in groups of json:film, in strata of json:label, seed 0")
    assert "stratum  samples  train  val  drift" in lines
    lines = wdsctl("split", dataset, "--folds", "2", *words, "--dry-run").stdout.splitlines()
    assert "stratum  samples  fold-0  fold-1  drift" in lines


def test_split_reads_keys_from_file_and_prints_moves(wdsctl: Wdsctl, dataset: Path, tmp_path: Path) -> None:
    wdsctl("split", dataset, "train=1")
    (tmp_path / "val.txt").write_text("0001\n0002\n")
    shown = wdsctl("split", dataset, "--keys", f"val={tmp_path / 'val.txt'}", "--rest", "train", "--dry-run").stdout

    assert [line.split()[:3] for line in shown.splitlines()[-2:]] == [["from", "to", "samples"], ["train", "val", "2"]]
    assert "would move:" in shown.splitlines()


def test_split_leaks_exits_with_1_on_leaks(wdsctl: Wdsctl, dataset: Path) -> None:
    wdsctl("split", dataset, "--pattern", "train=s-{00..07}.tar", "--rest", "val")
    result = wdsctl("split", dataset, "--leaks")

    assert result.code == 1
    assert "error[WDS216]" in result.stdout
    assert "s-00.tar/0000" in result.stdout
    assert wdsctl("split", dataset, "--leaks", "jpg,json", "--json").document["findings"] == []
    assert wdsctl("split", dataset, "--exclude-key", "0039").code == 0
    assert wdsctl("split", dataset, "--leaks", "jpg").code == 0


def test_split_exports_and_imports_split_yaml(wdsctl: Wdsctl, dataset: Path, tmp_path: Path) -> None:
    wdsctl("split", dataset, "8,2", "--exclude-key", "0000")
    out = wdsctl("split", dataset, "--export", "-").stdout
    assert wdsctl("split", dataset, "--export", tmp_path / "split.yaml").code == 0
    assert (tmp_path / "split.yaml").read_text() == out
    assert wdsctl("split", dataset, "--export", tmp_path / "split.yaml").code == 2
    assert wdsctl("split", dataset, "--export", tmp_path / "split.yaml", "--yes").code == 0
    document = wdsctl("split", dataset, "--from", tmp_path / "split.yaml", "--json").document

    assert document["moved"] == []
    assert document["excluded"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["8,1", "--pattern", "a=b.tar"], "RATIOS and --pattern exclude each other"),
        (["--group-by", "json:film"], "--group-by only applies to ratios"),
        (["1,1", "--group-by", "film"], "is not of the form SOURCE:VALUE"),
        (["1,1", "--group-by", "json:a", "--stratify", "b"], "is not of the form SOURCE:VALUE"),
        (["1,1", "--by", "key", "--group-by", "json:a"], "excludes --group-by"),
        (["--seed", "3"], "--seed has no effect without RATIOS or --folds"),
        (["--again", "--seed", "3"], "--seed has no effect without RATIOS or --folds"),
        (["--pattern", "a=s-00.tar", "--seed", "3"], "--seed has no effect without RATIOS or --folds"),
        (["--again", "--set", "two"], "--again and --set exclude each other"),
        (["--again", "--exclude-key", "0000"], "--again and new excludes exclude each other"),
        (["1,1", "--rest", "val"], "--rest has no effect with ratios"),
        (["--pattern", "a.tar"], "expected NAME=..."),
        (["--keys", "a=x", "--keys", "a=y"], "two files for split a"),
        (["--folds", "1"], "no samples for training"),
        (["--folds", "3", "--stratify", "json:label"], "--folds divides the samples by key"),
        (["1,1", "--set", "a/b"], "is not a valid name of a split set"),
        (["--exclude-code", "WDS999"], "unknown code WDS999"),
        (["1,1", "--leaks"], "cannot be combined with new splits"),
        (["1,1", "--rest", "a/b", "--group-by", "json:film"], "is not a valid split name"),
    ],
)
def test_split_exits_with_2_for_contradictory_options(
    wdsctl: Wdsctl, dataset: Path, words: list[str], message: str
) -> None:
    result = wdsctl("split", dataset, *words)

    assert result.code == 2
    assert message in result.stderr


def test_split_drops_set_and_removes_excludes(wdsctl: Wdsctl, dataset: Path) -> None:
    wdsctl("split", dataset, "1,1", "--set", "two", "--exclude-shard", "s-00.tar")
    assert wdsctl("split", dataset, "--json").document["excluded"] == 4
    assert wdsctl("split", dataset, "--no-excludes", "--json").document["excluded"] == 0
    assert "set two dropped" in wdsctl("split", dataset, "--set", "two", "--drop").stdout
    assert wdsctl("split", dataset, "--json").document["sets"] == []


def test_split_drop_of_default_set_needs_confirmation(
    wdsctl: Wdsctl, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wdsctl("split", dataset, "1,1", "--by", "shard")

    refused = wdsctl("split", dataset, "--drop")
    assert (refused.code, refused.stdout) == (2, "")
    assert "--drop without --set deletes the splits train, val, and needs --yes" in refused.stderr
    monkeypatch.setattr("sys.stdin", Stream("\n", is_terminal=True))
    declined = wdsctl("split", dataset, "--drop", stderr=Stream(is_terminal=True))
    assert declined.code == 2
    assert "delete the splits train, val of" in declined.stderr
    assert "answered no: no split was deleted" in declined.stderr
    assert len(wdsctl("split", dataset, "--json").document["sets"]) == 1
    monkeypatch.setattr("sys.stdin", Stream("y\n", is_terminal=True))
    assert wdsctl("split", dataset, "--drop", stderr=Stream(is_terminal=True)).code == 0
    assert wdsctl("split", dataset, "--json").document["sets"] == []


def test_split_drop_reports_sets_and_updates_dataset_yaml(wdsctl: Wdsctl, dataset: Path) -> None:
    wdsctl("prepare", dataset, "--split", "1,1", "--no-input", "--yes")
    wdsctl("split", dataset, "--folds", "2")

    result = wdsctl("split", dataset, "--drop", "--yes")

    assert "sets (default), fold-0, fold-1 dropped" in result.stdout
    lines = [line.split()[:3] for line in result.stdout.splitlines()]
    assert ["train", "(none)", "20"] in lines
    assert ["fold-1/val", "(none)"] in [line[:2] for line in lines]
    assert "split" not in (dataset / META_FOLDER / "dataset.yaml").read_text()
