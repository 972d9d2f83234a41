from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Stream, Wdsctl, a_tar
from wdsctl.core.dataset.location import META_FOLDER


@pytest.fixture
def films(tmp_path: Path, wdsctl: Wdsctl) -> Path:
    """Ten shards of four samples, of which five times two belong together; the last is a copy of the first."""
    for shard in range(10):
        members = {}
        for i in range(shard * 4, shard * 4 + 4):
            facts = {"film": i // 8, "label": "ab"[i % 2]}
            members[f"{i:04}.jpg"] = f"picture {i if i != 39 else 0:02}".encode()
            members[f"{i:04}.json"] = json.dumps(facts).encode()
        a_tar(tmp_path / "films" / f"s-{shard:02}.tar", members)
    wdsctl("index", tmp_path / "films")
    return tmp_path / "films"


def test_without_shares_it_shows_what_there_is(wdsctl: Wdsctl, films: Path) -> None:
    assert "no splits yet" in wdsctl("split", films).stdout
    wdsctl("split", films, "1,1")
    wdsctl("split", films, "a=1,b=3", "--by", "key", "--set", "two")
    shown = wdsctl("split", films, "--json").document

    assert [(each["name"], each["rule"]) for each in shown["sets"]] == [
        ("", "by shard, seed 0"),
        ("two", "by key, seed 0"),
    ]
    assert [each["name"] for each in shown["sets"][1]["splits"]] == ["two/a", "two/b"]
    assert shown["samples"] == 40
    assert [line.split()[0] for line in wdsctl("split", films).stdout.splitlines() if "/a" in line] == ["two/a"]


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
def test_every_way_to_divide_answers_with_its_splits(wdsctl: Wdsctl, films: Path, words: list[str], by: str) -> None:
    document = wdsctl("split", films, *words, "--json").document

    assert (document["by"], document["command"]) == (by, "split")
    assert sum(each["samples"] for each in document["splits"]) == 40 * len(document["sets"])


def test_strata_are_shown_with_their_drift(wdsctl: Wdsctl, films: Path) -> None:
    lines = wdsctl("split", films, "train=3,val=1", "--stratify", "json:label").stdout.splitlines()
    at = lines.index("2 strata, largest drift 0 %")

    assert lines[at + 1 :] == [
        "stratum  samples  train  val  drift",
        "a             20     15    5    0 %",
        "b             20     15    5    0 %",
    ]


def test_groups_in_strata_are_shown_with_their_drift_and_folds_by_what_each_validates(
    wdsctl: Wdsctl, films: Path
) -> None:
    words = ("--group-by", "json:film", "--stratify", "json:label")
    lines = wdsctl("split", films, "train=3,val=1", *words).stdout.splitlines()
    assert lines[0].endswith(": split in groups of json:film, in strata of json:label, seed 0")
    assert "stratum  samples  train  val  drift" in lines
    lines = wdsctl("split", films, "--folds", "2", *words, "--dry-run").stdout.splitlines()
    assert "stratum  samples  fold-0  fold-1  drift" in lines


def test_keys_come_from_files_and_what_moves_is_shown(wdsctl: Wdsctl, films: Path, tmp_path: Path) -> None:
    wdsctl("split", films, "train=1")
    (tmp_path / "val.txt").write_text("0001\n0002\n")
    shown = wdsctl("split", films, "--keys", f"val={tmp_path / 'val.txt'}", "--rest", "train", "--dry-run").stdout

    assert [line.split()[:3] for line in shown.splitlines()[-2:]] == [["from", "to", "samples"], ["train", "val", "2"]]
    assert "would move:" in shown.splitlines()


def test_leaks_exit_with_1_and_none_with_0(wdsctl: Wdsctl, films: Path) -> None:
    wdsctl("split", films, "--pattern", "train=s-{00..07}.tar", "--rest", "val")
    result = wdsctl("split", films, "--leaks")

    assert result.code == 1
    assert "error[WDS216]" in result.stdout
    assert "s-00.tar/0000" in result.stdout
    assert wdsctl("split", films, "--leaks", "jpg,json", "--json").document["findings"] == []
    assert wdsctl("split", films, "--exclude-key", "0039").code == 0
    assert wdsctl("split", films, "--leaks", "jpg").code == 0


def test_split_yaml_goes_out_and_in(wdsctl: Wdsctl, films: Path, tmp_path: Path) -> None:
    wdsctl("split", films, "8,2", "--exclude-key", "0000")
    out = wdsctl("split", films, "--export", "-").stdout
    assert wdsctl("split", films, "--export", tmp_path / "split.yaml").code == 0
    assert (tmp_path / "split.yaml").read_text() == out
    assert wdsctl("split", films, "--export", tmp_path / "split.yaml").code == 2
    assert wdsctl("split", films, "--export", tmp_path / "split.yaml", "--yes").code == 0
    document = wdsctl("split", films, "--from", tmp_path / "split.yaml", "--json").document

    assert document["moved"] == []
    assert document["excluded"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["8,1", "--pattern", "a=b.tar"], "RATIOS and --pattern exclude each other"),
        (["--group-by", "json:film"], "--group-by only applies to ratios"),
        (["1,1", "--group-by", "film"], "is not of the form SOURCE:VALUE"),
        (["1,1", "--group-by", "json:a", "--stratify", "b"], "is not of the form SOURCE:VALUE"),
        (["1,1", "--by", "key", "--group-by", "json:a"], "excludes --group-by"),
        (["--seed", "3"], "--seed only applies to ratios"),
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
def test_what_contradicts_itself_is_an_error_of_usage(wdsctl: Wdsctl, films: Path, words: list[str], said: str) -> None:
    result = wdsctl("split", films, *words)

    assert result.code == 2
    assert said in result.stderr


def test_a_set_is_dropped_and_excludes_are_taken_back(wdsctl: Wdsctl, films: Path) -> None:
    wdsctl("split", films, "1,1", "--set", "two", "--exclude-shard", "s-00.tar")
    assert wdsctl("split", films, "--json").document["excluded"] == 4
    assert wdsctl("split", films, "--no-excludes", "--json").document["excluded"] == 0
    assert "set two dropped" in wdsctl("split", films, "--set", "two", "--drop").stdout
    assert wdsctl("split", films, "--json").document["sets"] == []


def test_to_drop_the_set_that_has_no_name_is_asked_for(
    wdsctl: Wdsctl, films: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wdsctl("split", films, "1,1", "--by", "shard")

    refused = wdsctl("split", films, "--drop")
    assert (refused.code, refused.stdout) == (2, "")
    assert "--drop without --set deletes the splits train, val, and needs --yes" in refused.stderr
    monkeypatch.setattr("sys.stdin", Stream("\n", is_terminal=True))
    left = wdsctl("split", films, "--drop", stderr=Stream(is_terminal=True))
    assert left.code == 2
    assert "delete the splits train, val of" in left.stderr
    assert "answered no: no split was deleted" in left.stderr
    assert len(wdsctl("split", films, "--json").document["sets"]) == 1
    monkeypatch.setattr("sys.stdin", Stream("y\n", is_terminal=True))
    assert wdsctl("split", films, "--drop", stderr=Stream(is_terminal=True)).code == 0
    assert wdsctl("split", films, "--json").document["sets"] == []


def test_what_is_dropped_is_told_and_is_in_dataset_yaml_no_more(wdsctl: Wdsctl, films: Path) -> None:
    wdsctl("prepare", films, "--split", "1,1", "--no-input", "--yes")
    wdsctl("split", films, "--folds", "2")

    told = wdsctl("split", films, "--drop", "--yes")

    assert "sets (default), fold-0, fold-1 dropped" in told.stdout
    lines = [line.split()[:3] for line in told.stdout.splitlines()]
    assert ["train", "(none)", "20"] in lines
    assert ["fold-1/val", "(none)"] in [line[:2] for line in lines]
    assert "split" not in (films / META_FOLDER / "dataset.yaml").read_text()
