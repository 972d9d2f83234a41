from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset, rewritten
from tests.core.split_sets import BALANCED, EACH, film_shards, films, make, splits_of
from wdsctl.core.dataset.split_rules import SplitRule
from wdsctl.core.index.index import index

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
def test_a_rebuild_moves_nothing_where_all_sets_have_names(tmp_path: Path, rule: SplitRule) -> None:
    root = films(tmp_path, 8)
    make(root, rule, split_set="one")
    a_dataset(tmp_path, film_shards(8, 2))
    index(root)
    before = splits_of(root, "one")
    report = index(root, rebuild=True)

    assert not report.findings
    assert len(before) == 10 * EACH
    assert splits_of(root, "one") == before


@pytest.mark.parametrize("rule", RULES)
def test_a_shard_that_grows_keeps_its_samples_where_they_were_where_all_sets_have_names(
    tmp_path: Path, rule: SplitRule
) -> None:
    root = films(tmp_path, 8)
    make(root, rule, split_set="one")
    before = splits_of(root, "one")
    shards = film_shards(0, 21)
    for i in range(4):
        rewritten(tmp_path / f"shard-00{i}.tar", shards[f"shard-00{i}.tar"] | shards[f"shard-01{i}.tar"])
    index(root)
    after = splits_of(root, "one")

    assert len(after) == len(before) + 4 * EACH
    assert {key: after.get(key) for key in before} == before
