from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.build import a_dataset, rewrite_shard
from tests.core.split_sets import BALANCED, SHARD_SAMPLES, a_video_dataset, split_by_rule, splits_of, video_shards
from wdsctl.core.index.index import index
from wdsctl.core.split_rules.rule import SplitRule

RULES = [
    SplitRule({"a": 3, "b": 1}, "shard"),
    SplitRule({"a": 3, "b": 1}, "sample"),
    SplitRule({"a": 3, "b": 1}, "key"),
    SplitRule({"a": 3, "b": 1}, group_by="json:film.id"),
    SplitRule({"a": 3, "b": 1}, stratify="json:label"),
    SplitRule({}, patterns={"a": ("shard-00{0..3}.tar",)}, rest="b"),
    BALANCED,
]


SETS = [f"set-{i}" for i in range(len(RULES))]


def a_dataset_with_sets(folder: Path) -> str:
    """Eight shards, divided by each rule in a set of its own."""
    root = a_video_dataset(folder, 8)
    for name, rule in zip(SETS, RULES, strict=True):
        split_by_rule(root, rule, split_set=name)
    return root


def splits_of_sets(root: str) -> dict[str, dict[str, str]]:
    return {name: splits_of(root, name) for name in SETS}


def test_rebuild_moves_no_sample_of_named_set(tmp_path: Path) -> None:
    root = a_dataset_with_sets(tmp_path)
    a_dataset(tmp_path, video_shards(8, 2))
    index(root)
    before = splits_of_sets(root)
    report = index(root, rebuild=True)

    assert not report.findings
    assert [len(each) for each in before.values()] == [10 * SHARD_SAMPLES] * len(RULES)
    assert splits_of_sets(root) == before


def test_grown_shard_counts_as_one_when_new_shards_are_divided(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 4)
    split_by_rule(root, SplitRule({"a": 1, "b": 1}, "shard"))
    grown = min(sample.partition("/")[0] for sample, name in splits_of(root).items() if name == "a")
    rewrite_shard(tmp_path / grown, {**video_shards(0, 4)[grown], **video_shards(20, 1)["shard-020.tar"]})
    a_dataset(tmp_path, video_shards(4, 4))
    index(root)

    shards = {sample.partition("/")[0]: name for sample, name in splits_of(root).items()}
    assert Counter(shards.values()) == {"a": 4, "b": 4}


def test_grown_shard_keeps_splits_of_named_set(tmp_path: Path) -> None:
    root = a_dataset_with_sets(tmp_path)
    before = splits_of_sets(root)
    shards = video_shards(0, 21)
    for i in range(4):
        rewrite_shard(tmp_path / f"shard-00{i}.tar", shards[f"shard-00{i}.tar"] | shards[f"shard-01{i}.tar"])
    index(root)
    after = splits_of_sets(root)

    for name in SETS:
        assert len(after[name]) == len(before[name]) + 4 * SHARD_SAMPLES, name
        assert {key: after[name].get(key) for key in before[name]} == before[name], name
