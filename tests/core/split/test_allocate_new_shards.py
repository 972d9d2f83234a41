from __future__ import annotations

from pathlib import Path

import pytest

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


@pytest.mark.parametrize("rule", RULES)
def test_rebuild_moves_no_sample_of_named_set(tmp_path: Path, rule: SplitRule) -> None:
    root = a_video_dataset(tmp_path, 8)
    split_by_rule(root, rule, split_set="one")
    a_dataset(tmp_path, video_shards(8, 2))
    index(root)
    before = splits_of(root, "one")
    report = index(root, rebuild=True)

    assert not report.findings
    assert len(before) == 10 * SHARD_SAMPLES
    assert splits_of(root, "one") == before


@pytest.mark.parametrize("rule", RULES)
def test_grown_shard_keeps_splits_of_named_set(tmp_path: Path, rule: SplitRule) -> None:
    root = a_video_dataset(tmp_path, 8)
    split_by_rule(root, rule, split_set="one")
    before = splits_of(root, "one")
    shards = video_shards(0, 21)
    for i in range(4):
        rewrite_shard(tmp_path / f"shard-00{i}.tar", shards[f"shard-00{i}.tar"] | shards[f"shard-01{i}.tar"])
    index(root)
    after = splits_of(root, "one")

    assert len(after) == len(before) + 4 * SHARD_SAMPLES
    assert {key: after.get(key) for key in before} == before
