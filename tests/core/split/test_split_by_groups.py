"""Groups that stay together, and strata that are divided each by the shares."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, a_shard
from tests.core.split_sets import BALANCED, FILM, by_film, film_shards, films, make, splits_of
from wdsctl.core.dataset.split_rules import Excludes, SplitRule
from wdsctl.core.errors import InputError, StorageError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.split.split import split_by_ratios


@pytest.mark.parametrize("value", ["json:film.id", "part:json[film][id]", "key:^(film\\d+)/"])
def test_a_group_never_straddles_splits_and_new_samples_of_it_join_it(tmp_path: Path, value: str) -> None:
    root = films(tmp_path, 17)
    make(root, SplitRule({"train": 2, "val": 1, "test": 1}, group_by=value))
    before = splits_of(root)
    a_dataset(tmp_path, film_shards(17, 3))  # the first film of it began in the shard before
    index(root)
    after = splits_of(root)

    assert len(after) == 200
    assert {sample: after[sample] for sample in before} == before
    assert all(len(names) == 1 for names in by_film(after).values())
    assert len(by_film(after)) == 200 // FILM


def test_the_number_of_workers_changes_no_group_and_no_stratum(tmp_path: Path) -> None:
    root = films(tmp_path)
    for rule in (
        SplitRule({"a": 1, "b": 1}, group_by="json:film.id"),
        SplitRule({"a": 1, "b": 1}, stratify="part:cls"),
        BALANCED,
    ):
        found = []
        for workers in (1, 3):
            make(root, rule, workers=workers)
            found.append(splits_of(root))
        assert found[0] == found[1]


def test_each_stratum_is_divided_by_the_shares_to_less_than_one_sample(tmp_path: Path) -> None:
    root = films(tmp_path)
    report = make(root, SplitRule({"train": 7, "val": 3}, stratify="json:label"))
    counts = {line.stratum: (line.samples, line.splits) for line in report.strata}

    assert {name: samples for name, (samples, _) in counts.items()} == {"cat": 53, "dog": 54, "eel": 53, "rare": 40}
    for samples, splits in counts.values():
        assert sum(splits.values()) == samples
        assert abs(splits["train"] - samples * 0.7) < 1
    assert report.drift == max(line.drift for line in report.strata) < 1 / 40
    assert Counter(splits_of(root).values())["train"] == sum(splits["train"] for _, splits in counts.values())


def test_later_samples_of_a_stratum_go_where_its_shares_are_short(tmp_path: Path) -> None:
    root = films(tmp_path, 1)
    make(root, SplitRule({"train": 7, "val": 3}, stratify="part:cls", allow_empty=True))
    for first in range(1, 20):
        a_dataset(tmp_path, film_shards(first, 1))
        index(root)
    after = splits_of(root)

    by_label = Counter((int(sample[-5:]) % 4, name) for sample, name in after.items())
    assert len(after) == 200
    assert all(abs(by_label[label, "train"] - 35) <= 1 for label in range(4))


def test_samples_without_a_group_are_an_error_unless_something_is_said_of_them(tmp_path: Path) -> None:
    shards: dict[str, Any] = film_shards(0, 4)
    shards["shard-004.tar"] = {
        "x/1.jpg": b"1",
        "x/2.json": b"{",
        "x/3.json": b'{"film": {"id": null}}',
        "x/4.json": b"[]",
    }
    root = a_dataset(tmp_path, shards)
    index(root)
    rule = SplitRule({"train": 1, "val": 1}, group_by="json:film.id")

    with pytest.raises(UsageError, match=r"4 samples have no json:film\.id: shard-004\.tar/x/1") as caught:
        make(root, rule)
    assert caught.value.code == "WDS215"
    make(root, SplitRule({"train": 1, "val": 1}, group_by="json:film.id", rest="val"))
    assert {name for sample, name in splits_of(root).items() if "/x/" in sample} == {"val"}
    make(root, SplitRule({"train": 1, "val": 1}, stratify="json:film.id"))
    assert len(splits_of(root)) == 44


def test_a_seed_is_named_by_which_few_groups_leave_no_split_empty(tmp_path: Path) -> None:
    root = films(tmp_path, 2)
    rule = SplitRule({"train": 8, "val": 1, "test": 1}, group_by="json:film.id")
    with pytest.raises(UsageError, match="would be empty") as caught:
        make(root, rule)
    found = re.search(r"with `--seed (\d+)`, no split is empty", caught.value.hint)

    assert found is not None
    make(root, replace(rule, seed=int(found[1])))
    assert set(splits_of(root).values()) == {"train", "val", "test"}


def test_a_shard_that_cannot_be_read_ends_a_grouped_split_unless_it_is_excluded(tmp_path: Path) -> None:
    root = films(tmp_path, 6)
    split_by_ratios(root, {"train": 1})
    before = splits_of(root)
    (tmp_path / "shard-002.tar").unlink()
    rule = SplitRule({"train": 1, "val": 1}, group_by="json:film.id")

    with pytest.raises(StorageError, match=r"cannot read json:film\.id from a shard: cannot read"):
        make(root, rule)
    assert splits_of(root) == before
    make(root, rule, excludes=Excludes(shards=("shard-002.tar",)))
    assert len(splits_of(root)) == 50


def test_groups_may_be_numbers_of_a_column(tmp_path: Path) -> None:
    root = films(tmp_path, 6)
    index(root, columns={"size": "size:json"})
    make(root, SplitRule({"train": 1, "val": 1}, group_by="column:size"))
    found = splits_of(root)
    a_dataset(tmp_path, film_shards(6, 2))
    index(root)

    assert len(splits_of(root)) == 80
    assert {sample: splits_of(root)[sample] for sample in found} == found
    with pytest.raises(InputError, match="no column 'wide'"):
        make(root, SplitRule({"train": 1}, group_by="column:wide"))


def test_odd_names_are_groups_and_keys_like_others(tmp_path: Path) -> None:
    odd = ["a'; DROP TABLE split;--", "ключ", "$(rm -rf)", "b c", "{x,y}"]
    members = {f"{key}/{i}.json": json.dumps({"g": key}).encode() for key in odd for i in range(4)}
    root = a_dataset(tmp_path / "data", {f"s {n}.tar": a_shard(members) for n in range(2)})
    index(root)
    (tmp_path / "keys").write_text("\n".join(f"{key}/0" for key in odd))
    make(root, SplitRule({}, keys={"a": str(tmp_path / "keys")}, rest="b"))
    assert Counter(splits_of(root).values()) == {"a": 10, "b": 30}
    make(root, SplitRule({"a": 1, "b": 1}, group_by="json:g", allow_empty=True))
    groups: dict[str, set[str]] = {}
    for sample, name in splits_of(root).items():
        groups.setdefault(sample.split("/", 1)[1].rpartition("/")[0], set()).add(name)
    assert groups.keys() == set(odd)
    assert all(len(names) == 1 for names in groups.values())
