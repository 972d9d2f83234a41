"""Groups stay in one split, and each stratum is divided by the shares."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, a_shard, rewrite_shard, split_by_ratios
from tests.core.split_sets import (
    BALANCED,
    VIDEO_SAMPLES,
    a_video_dataset,
    split_by_rule,
    splits_by_video,
    splits_of,
    video_shards,
)
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError, StorageError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.shards.read_parts import BLOCK_BYTES
from wdsctl.core.split.values import ValueUnit, read_value_hashes
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.rule import SplitRule


@pytest.mark.parametrize("value", ["json:film.id", "part:json[film][id]", "key:^(film\\d+)/"])
def test_group_is_in_one_split_and_new_samples_join_it(tmp_path: Path, value: str) -> None:
    root = a_video_dataset(tmp_path, 17)
    split_by_rule(root, SplitRule({"train": 2, "val": 1, "test": 1}, group_by=value))
    before = splits_of(root)
    a_dataset(tmp_path, video_shards(17, 3))  # its first film began in the previous shard
    index(root)
    after = splits_of(root)

    assert len(after) == 200
    assert {sample: after[sample] for sample in before} == before
    assert all(len(names) == 1 for names in splits_by_video(after).values())
    assert len(splits_by_video(after)) == 200 // VIDEO_SAMPLES


def test_pictures_and_large_parts_are_values_by_their_bytes(tmp_path: Path) -> None:
    large = b"\x01" * BLOCK_BYTES
    parts = {"0.mp4": large + b"a", "1.mp4": large + b"b", "2.mp4": large + b"a", "3.jpg": b"\xff1", "4.jpg": b"\xff1"}
    root = a_dataset(tmp_path, {"a.tar": {**parts, "5.txt": b"x"}})
    index(root)

    unit = ValueUnit(root, locate(root).offsets_path(1), 0, 0, "part:jpg,mp4")
    hashes = read_value_hashes(unit).hashes.tolist()

    assert hashes[0] == hashes[2] != hashes[1]
    assert hashes[3] == hashes[4] != hashes[0]
    assert hashes[5] == 0


def test_grouped_splits_are_independent_of_workers(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path)
    for rule in (
        SplitRule({"a": 1, "b": 1}, group_by="json:film.id"),
        SplitRule({"a": 1, "b": 1}, stratify="part:cls"),
        BALANCED,
    ):
        found = []
        for workers in (1, 3):
            split_by_rule(root, rule, workers=workers)
            found.append(splits_of(root))
        assert found[0] == found[1]


def test_each_stratum_meets_shares_within_one_sample(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path)
    report = split_by_rule(root, SplitRule({"train": 7, "val": 3}, stratify="json:label"))
    counts = {line.stratum: (line.samples, line.splits) for line in report.strata}

    assert {name: samples for name, (samples, _) in counts.items()} == {"cat": 53, "dog": 54, "eel": 53, "rare": 40}
    for samples, splits in counts.values():
        assert sum(splits.values()) == samples
        assert abs(splits["train"] - samples * 0.7) < 1
    assert report.drift == max(line.drift for line in report.strata) < 1 / 40
    assert Counter(splits_of(root).values())["train"] == sum(splits["train"] for _, splits in counts.values())


def test_later_samples_of_stratum_restore_its_shares(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 1)
    split_by_rule(root, SplitRule({"train": 7, "val": 3}, stratify="part:cls", allow_empty=True))
    for first in range(1, 20):
        a_dataset(tmp_path, video_shards(first, 1))
        index(root)
    after = splits_of(root)

    by_label = Counter((int(sample[-5:]) % 4, name) for sample, name in after.items())
    assert len(after) == 200
    assert all(abs(by_label[label, "train"] - 35) <= 1 for label in range(4))


def test_samples_without_group_are_refused_without_rest(tmp_path: Path) -> None:
    shards: dict[str, Any] = video_shards(0, 4)
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
        split_by_rule(root, rule)
    assert caught.value.code == "WDS215"
    split_by_rule(root, SplitRule({"train": 1, "val": 1}, group_by="json:film.id", rest="val"))
    assert {name for sample, name in splits_of(root).items() if "/x/" in sample} == {"val"}
    split_by_rule(root, SplitRule({"train": 1, "val": 1}, stratify="json:film.id"))
    assert len(splits_of(root)) == 44


def test_empty_split_error_suggests_seed(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 2)
    rule = SplitRule({"train": 8, "val": 1, "test": 1}, group_by="json:film.id")
    with pytest.raises(UsageError, match="would be empty") as caught:
        split_by_rule(root, rule)
    found = re.search(r"with `--seed (\d+)`, no split is empty", caught.value.hint)

    assert found is not None
    split_by_rule(root, replace(rule, seed=int(found[1])))
    assert set(splits_of(root).values()) == {"train", "val", "test"}


def test_unreadable_shard_fails_grouped_split_unless_excluded(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 6)
    split_by_ratios(root, {"train": 1})
    before = splits_of(root)
    (tmp_path / "shard-002.tar").unlink()
    rule = SplitRule({"train": 1, "val": 1}, group_by="json:film.id")

    with pytest.raises(StorageError, match=r"cannot read json:film\.id from a shard: cannot read"):
        split_by_rule(root, rule)
    assert splits_of(root) == before
    split_by_rule(root, rule, excludes=Excludes(shards=("shard-002.tar",)))
    assert len(splits_of(root)) == 50


def test_column_values_can_be_groups(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 6)
    index(root, columns={"size": "size:json"})
    split_by_rule(root, SplitRule({"train": 1, "val": 1}, group_by="column:size"))
    found = splits_of(root)
    a_dataset(tmp_path, video_shards(6, 2))
    index(root)

    assert len(splits_of(root)) == 80
    assert {sample: splits_of(root)[sample] for sample in found} == found
    with pytest.raises(InputError, match="no column 'wide'"):
        split_by_rule(root, SplitRule({"train": 1}, group_by="column:wide"))


def test_unusual_names_work_as_groups_and_keys(tmp_path: Path) -> None:
    odd = ["a'; DROP TABLE split;--", "ключ", "$(rm -rf)", "b c", "{x,y}"]
    members = {f"{key}/{i}.json": json.dumps({"g": key}).encode() for key in odd for i in range(4)}
    root = a_dataset(tmp_path / "data", {f"s {n}.tar": a_shard(members) for n in range(2)})
    index(root)
    (tmp_path / "keys").write_text("\n".join(f"{key}/0" for key in odd))
    split_by_rule(root, SplitRule({}, keys={"a": str(tmp_path / "keys")}, rest="b"))
    assert Counter(splits_of(root).values()) == {"a": 10, "b": 30}
    split_by_rule(root, SplitRule({"a": 1, "b": 1}, group_by="json:g", allow_empty=True))
    groups: dict[str, set[str]] = {}
    for sample, name in splits_of(root).items():
        groups.setdefault(sample.split("/", 1)[1].rpartition("/")[0], set()).add(name)
    assert groups.keys() == set(odd)
    assert all(len(names) == 1 for names in groups.values())


@pytest.mark.usefixtures("place")
def test_values_of_replaced_shard_of_same_size_are_refused(tmp_path: Path) -> None:
    files = {f"{key}.json": b'{"g": "%d"}' % (i % 2) for i, key in enumerate("abcd")}
    root = a_dataset(tmp_path, {"a.tar": files})
    index(root)
    rewrite_shard(tmp_path / "a.tar", dict(reversed(files.items())))
    with pytest.raises(StorageError, match=r"differs from the indexed one: no a\.json"):
        split_by_rule(root, SplitRule({"train": 1, "val": 1}, group_by="json:g"))
