from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import children
from tests.build import RecordingProgress, a_dataset, rewrite_shard, split_by_ratios, tree
from tests.core.split_sets import (
    BALANCED,
    SHARD_SAMPLES,
    a_video_dataset,
    split_by_rule,
    splits_by_video,
    splits_of,
    video_shards,
)
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.rule import SplitRule, rule_to_plain

EIGHT_ONE_ONE: dict[str, float] = {"train": 8, "val": 1, "test": 1}


def test_split_by_key_is_stable_when_shards_are_added_or_rewritten(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 15)
    split_by_ratios(root, EIGHT_ONE_ONE, by="key")
    before = {sample.split("/", 1)[1]: name for sample, name in splits_of(root).items()}
    a_dataset(tmp_path, video_shards(15, 5))
    shards = video_shards(0, 2)
    rewrite_shard(tmp_path / "shard-000.tar", dict(sorted(shards["shard-001.tar"].items(), reverse=True)))
    rewrite_shard(tmp_path / "shard-001.tar", shards["shard-000.tar"])
    index(root)
    after = splits_of(root)

    assert len(after) == 200
    assert all(before.get(sample.split("/", 1)[1], name) == name for sample, name in after.items())
    assert set(after.values()) == {"train", "val", "test"}
    assert index(root).up_to_date


def test_split_sets_are_independent(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path)
    split_by_ratios(root, EIGHT_ONE_ONE)
    plain = splits_of(root)
    split_by_rule(root, SplitRule({"a": 1, "b": 1}, by="key"), split_set="two")
    split_by_rule(root, SplitRule({"x": 1}), split_set="one")
    split_by_rule(root, SplitRule({"a": 1, "b": 3}, by="shard", seed=1), split_set="two")

    assert splits_of(root) == plain
    assert Counter(splits_of(root, "two").values()) == {"a": 50, "b": 150}
    assert set(splits_of(root, "one").values()) == {"x"}
    split_dataset(root, SplitRequest(split_set="one", drop=True))
    assert splits_of(root, "one") == {}
    with pytest.raises(InputError, match="no split set 'one'; it has two"):
        split_dataset(root, SplitRequest(split_set="one", drop=True))


def test_new_shards_are_allocated_by_shares_of_each_set(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 10)
    split_by_ratios(root, EIGHT_ONE_ONE)
    split_by_rule(root, SplitRule({"a": 1, "b": 1}, "sample"), split_set="two")
    before = splits_of(root), splits_of(root, "two")
    a_dataset(tmp_path, video_shards(10, 10))
    index(root)
    after = splits_of(root), splits_of(root, "two")

    assert [Counter(each.values()) for each in after] == [{"train": 160, "val": 20, "test": 20}, {"a": 100, "b": 100}]
    for one, other in zip(before, after, strict=True):
        assert {sample: other[sample] for sample in one} == one


def test_every_sample_is_in_val_of_one_fold(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path)
    split_by_rule(root, SplitRule({}, by="key"), folds=4)
    a_dataset(tmp_path, video_shards(20, 2))
    index(root)
    sets = [splits_of(root, f"fold-{i}") for i in range(4)]

    assert all(len(each) == 220 for each in sets)
    assert Counter(sample for each in sets for sample, name in each.items() if name == "val") == dict.fromkeys(
        sets[0], 1
    )
    split_by_rule(root, SplitRule({}, group_by="json:film.id"), folds=3)
    assert splits_of(root, "fold-3") == {}
    assert all(len(names) == 1 for names in splits_by_video(splits_of(root, "fold-2")).values())


def test_excluded_samples_are_in_no_split_and_others_stay(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path)
    split_by_ratios(root, EIGHT_ONE_ONE)
    split_by_rule(root, SplitRule({"a": 1, "b": 1}, by="key"), split_set="two")
    before = splits_of(root), splits_of(root, "two")
    (tmp_path / "bad.txt").write_text("film001/00005\nfilm002/00008\n")
    excludes = Excludes(
        shards=("shard-003.tar",), keys=("film000/00001",), samples=("shard-019.tar/film04{8,9}/00{195..196}",)
    )
    with pytest.raises(
        UsageError, match=r"nothing to exclude: no shard or sample matches shard-019\.tar/film048/00196"
    ):
        split_by_rule(root, None, excludes=excludes)
    excludes = Excludes(
        shards=("shard-003.tar",), keys=("film000/00001",), samples=("shard-019.tar/film048/00195",),
        key_files=(str(tmp_path / "bad.txt"),),
    )  # fmt: skip
    report = split_by_rule(root, None, excludes=excludes)
    excluded = {
        *(sample for sample in before[0] if sample.startswith("shard-003.tar/")),
        "shard-000.tar/film000/00001",
        "shard-000.tar/film001/00005",
        "shard-000.tar/film002/00008",
        "shard-019.tar/film048/00195",
    }

    assert report.excluded == len(excluded) == 14
    for one, other in zip(before, (splits_of(root), splits_of(root, "two")), strict=True):
        assert other == {sample: name for sample, name in one.items() if sample not in excluded}
    split_by_ratios(root, EIGHT_ONE_ONE)
    assert not excluded & splits_of(root).keys()
    split_by_rule(root, None, replace_excludes=True)
    assert splits_of(root, "two") == before[1]
    assert len(splits_of(root)) == 200


def test_excludes_apply_to_later_shards(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 4)
    split_by_ratios(root, {"train": 1, "val": 1})
    split_by_rule(
        root, None, excludes=Excludes(shards=("shard-0{04..09}.tar",), keys=("film025/00102",)), allow_empty=True
    )
    a_dataset(tmp_path, video_shards(4, 1) | video_shards(10, 1))
    assert not index(root).up_to_date
    found = splits_of(root)

    assert len(found) == 49
    assert not any(sample.startswith("shard-004.tar") or sample.endswith("00102") for sample in found)


def test_dry_run_reports_moved_samples_and_writes_nothing(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path)
    split_by_ratios(root, EIGHT_ONE_ONE)
    before, files = splits_of(root), tree(root)
    (tmp_path / "val.txt").write_text("film000/00001\n")
    for rule in (
        SplitRule(EIGHT_ONE_ONE, by="key"),
        SplitRule(EIGHT_ONE_ONE, group_by="json:film.id"),
        SplitRule(EIGHT_ONE_ONE, stratify="json:label"),
        SplitRule(EIGHT_ONE_ONE, group_by="json:film.id", stratify="json:label"),
        SplitRule({}, keys={"val": str(tmp_path / "val.txt")}, rest="train"),
    ):
        files = tree(root)
        report = split_by_rule(root, rule, dry_run=True)
        assert tree(root) == files
        split_by_rule(root, rule)
        after = splits_of(root)
        moved = Counter((before[sample], after[sample]) for sample in before if before[sample] != after[sample])
        assert {(move.before, move.after): move.samples for move in report.moved} == moved
        before = after


def test_rebuilt_catalog_has_same_splits(tmp_path: Path) -> None:
    (tmp_path / "val.txt").write_text("film000/00001\nfilm003/00012\n")
    root = a_video_dataset(tmp_path / "data", 8)
    prepare(root, request=PrepareRequest(accept_type=True, split={"train": 8, "val": 2}))
    split_by_rule(root, SplitRule(EIGHT_ONE_ONE, by="key", seed=3), split_set="k")
    split_by_rule(root, SplitRule({"a": 1, "b": 1}, group_by="json:film.id"), split_set="g")
    split_by_rule(root, SplitRule({"a": 1, "b": 1}, stratify="json:label"), split_set="s")
    split_by_rule(root, BALANCED, split_set="b")
    split_by_rule(root, SplitRule({}, patterns={"a": ("shard-00{0..3}.tar",)}, rest="b"), split_set="p")
    split_by_rule(root, SplitRule({}, keys={"val": str(tmp_path / "val.txt")}, rest="train"), split_set="l")
    split_by_rule(root, SplitRule({}, by="key"), folds=2)
    split_by_rule(root, None, excludes=Excludes(keys=("film000/00002",)))
    sets = ("", "k", "g", "s", "b", "p", "l", "fold-0", "fold-1")
    before = [splits_of(root, name) for name in sets]
    assert index(root).up_to_date

    os.unlink(locate(root).catalog_path)
    prepare(root, request=PrepareRequest(accept_type=True))
    assert [splits_of(root, name) for name in sets] == before
    index(root, rebuild=True)
    assert [splits_of(root, name) for name in sets] == before
    assert all(len(each) == 79 for each in before)


def test_edited_rules_are_applied_by_again_request(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 8)
    prepare(root, request=PrepareRequest(accept_type=True, split={"train": 8, "val": 2}))
    split_by_rule(root, SplitRule({"a": 1, "b": 1}, by="key"), split_set="k")
    path = Path(locate(root).config_path)
    text = path.read_text().replace("  k: {shares: {a: 1, b: 1}", "  k: {shares: {a: 1, c: 1}")
    path.write_text(text + "exclude:\n  keys: [film000/00001]\n")
    index(root)
    assert set(splits_of(root, "k").values()) == {"a", "b"}
    split_dataset(root, SplitRequest(again=True, allow_split_changes=True))

    assert set(splits_of(root, "k").values()) == {"a", "c"}
    assert len(splits_of(root)) == 79
    assert path.read_text() == text + "exclude:\n  keys: [film000/00001]\n"


def test_prepare_notes_command_for_grouped_rule(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 8)
    prepare(root, request=PrepareRequest(accept_type=True, split={"train": 8, "val": 2}))
    path = Path(locate(root).config_path)
    config = path.read_text().split("split:", maxsplit=1)[0]
    path.write_text(config + 'split: {shares: {train: 1, val: 1}, group_by: "json:film.id"}\n')
    progress = RecordingProgress()
    prepare(root, progress=progress, request=PrepareRequest(accept_type=True))

    assert any(
        "in groups of json:film.id" in note and "--again` to apply dataset.yaml" in note for note in progress.notes
    )


KILLED = """
import json, os, signal, sys
import wdsctl.core.split.values as read
from wdsctl.core.split_rules.rule import rule_from_plain
from wdsctl.core.split.split import SplitRequest, split_dataset
run, left = read.read_value_hashes, [3]
def dying(unit):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return run(unit)
read.read_value_hashes = dying
split_dataset(sys.argv[1], SplitRequest(rule=rule_from_plain(json.loads(sys.argv[2]))))
"""

SPLIT_BY_MOVIE = SplitRule({"a": 1, "b": 1}, group_by="json:film.id")


def split_until_killed(root: str, rule: SplitRule) -> int:
    """Split in another process, which is killed when it has read two shards; returns its exit code."""
    command = [sys.executable, "-c", KILLED, root, json.dumps(rule_to_plain(rule))]
    return children.run(command, cwd=Path(__file__).parents[3], check=False).returncode


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("place", "rule", "names"),
    [
        ("local", SPLIT_BY_MOVIE, {"a", "b"}),
        ("s3", SplitRule({}, by_value="json:label"), {"cat", "dog", "eel", "rare"}),
    ],
    indirect=["place"],
)
def test_killed_split_changes_nothing_and_keeps_read_values(tmp_path: Path, rule: SplitRule, names: set[str]) -> None:
    root = a_video_dataset(tmp_path, 6)
    split_by_ratios(root, {"train": 1})
    before = splits_of(root)
    code = split_until_killed(root, rule)
    progress = RecordingProgress()

    assert code == -9
    assert splits_of(root) == before
    split_dataset(root, SplitRequest(rule=rule, allow_split_changes=True), progress=progress)
    assert [items for name, items, _ in progress.phases if name == "read values"] == [4]
    assert set(splits_of(root).values()) == names
    assert not Path(locate(root).work_folder, "values").exists()


def test_values_of_killed_split_are_read_again_if_shard_was_replaced(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 6)
    split_by_ratios(root, {"train": 1})
    split_until_killed(root, SPLIT_BY_MOVIE)
    path = tmp_path / "shard-000.tar"
    rewrite_shard(path, path.read_bytes().replace(b'{"id": 0}', b'{"id": 9}'))  # the same size and layout
    progress = RecordingProgress()

    split_dataset(root, SplitRequest(rule=SPLIT_BY_MOVIE), progress=progress)

    assert [items for name, items, _ in progress.phases if name == "read values"] == [5]


@pytest.mark.parametrize(
    "rule",
    [
        SplitRule({"train": 7, "val": 3}, stratify="json:label"),
        SplitRule({"train": 7, "val": 3}, group_by="json:film.id"),
        SplitRule({"train": 7, "val": 3}, by="key"),
    ],
)
def test_grown_shard_keeps_splits_of_old_samples(tmp_path: Path, rule: SplitRule) -> None:
    root = a_video_dataset(tmp_path)
    split_by_rule(root, rule)
    before = splits_of(root)
    shards = video_shards(0, 21)
    rewrite_shard(tmp_path / "shard-003.tar", shards["shard-003.tar"] | shards["shard-020.tar"])
    index(root)
    after = splits_of(root)

    assert len(after) == len(before) + SHARD_SAMPLES
    assert {key: after.get(key) for key in before} == before
