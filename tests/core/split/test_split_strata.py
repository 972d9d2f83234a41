from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset
from tests.core.split_sets import (
    BALANCED,
    SHARD_SAMPLES,
    a_video_dataset,
    split_by_rule,
    splits_by_video,
    splits_of,
    video_shards,
)
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import index


def texts_of(samples: int) -> list[tuple[int, bytes]]:
    shards = video_shards(0, samples // SHARD_SAMPLES)
    return [
        (int(name[-10:-5]), data) for each in shards.values() for name, data in each.items() if name.endswith(".json")
    ]


def test_balanced_split_keeps_groups_whole_and_strata_near_shares(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path)
    report = split_by_rule(root, BALANCED)
    splits = splits_of(root)
    counts = {line.stratum: (line.samples, line.splits) for line in report.strata}

    assert len(splits) == 200
    assert all(len(names) == 1 for names in splits_by_video(splits).values())
    assert {name: samples for name, (samples, _) in counts.items()} == {"cat": 53, "dog": 54, "eel": 53, "rare": 40}
    assert Counter(splits.values())["val"] == sum(each["val"] for _, each in counts.values())
    assert report.drift < 0.05
    assert report.by == "balanced"


def test_new_samples_join_their_group_and_new_groups_rebalance_splits(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 3)  # 7.5 videos: one is divided between two shards
    split_by_rule(root, BALANCED)
    for first, count in ((3, 2), (5, 15)):
        before = splits_of(root)
        a_dataset(tmp_path, video_shards(first, count))
        index(root)
        after = splits_of(root)
        assert {sample: after[sample] for sample in before} == before
        assert all(len(names) == 1 for names in splits_by_video(after).values())
    labels = {f"{number:05d}": json.loads(text)["label"] for number, text in texts_of(200)}
    counts = Counter((labels[sample[-5:]], name) for sample, name in after.items())

    assert len(after) == 200
    for label in ("cat", "dog", "eel", "rare"):
        assert abs(counts[label, "val"] / (counts[label, "val"] + counts[label, "train"]) - 0.25) < 0.06
    assert index(root).up_to_date


def test_balanced_split_depends_on_groups_not_on_shard_layout(tmp_path: Path) -> None:
    members = {name: data for shard in video_shards(0, 12).values() for name, data in shard.items()}
    keys = sorted({name.split(".")[0] for name in members})
    found = []
    for folder, order in (("one", keys), ("other", keys[::-1])):
        pieces = [order[i : i + 17] for i in range(0, len(order), 17)]
        shards = {
            f"{folder}-{i}.tar": {name: members[name] for key in piece for name in (f"{key}.jpg", f"{key}.json")}
            for i, piece in enumerate(pieces)
        }
        root = a_dataset(tmp_path / folder, shards)
        index(root)
        split_by_rule(root, BALANCED)
        found.append({sample.split("/", 1)[1]: name for sample, name in splits_of(root).items()})

    assert found[0] == found[1]


def test_samples_without_group_count_for_rest_split(tmp_path: Path) -> None:
    shards: dict[str, Any] = video_shards(0, 8)
    shards["x.tar"] = {f"x/{i:03d}.json": json.dumps({"label": "cat"}).encode() for i in range(20)}
    root = a_dataset(tmp_path, shards)
    index(root)
    with pytest.raises(UsageError, match=r"20 samples have no json:film\.id") as caught:
        split_by_rule(root, BALANCED)
    assert caught.value.code == "WDS215"
    cats = {}
    for rest in ("val", "none", "other"):
        report = split_by_rule(root, replace(BALANCED, rest=rest))
        cats[rest] = next(line for line in report.strata if line.stratum == "cat")
        rest_counts = Counter(name for sample, name in splits_of(root).items() if "/x/" in sample)
        assert rest_counts == ({} if rest == "none" else {rest: 20})

    # 20 of 41 cats are in val, which gets next to none of the others.
    assert cats["val"].samples == 41
    assert 20 <= cats["val"].splits["val"] <= 22
    assert cats["none"].samples == cats["other"].samples == 21


def test_balanced_folds_have_every_group_once_in_val(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 10)
    report = split_by_rule(root, replace(BALANCED, shares={}), folds=4)
    a_dataset(tmp_path, video_shards(10, 10))
    index(root)
    sets = [splits_of(root, f"fold-{i}") for i in range(4)]
    val = Counter(sample for each in sets for sample, name in each.items() if name == "val")

    assert report.drift < 0.1
    assert list(report.strata[0].splits) == ["fold-0", "fold-1", "fold-2", "fold-3"]
    assert val == dict.fromkeys(sets[0], 1)
    assert all(len(names) == 1 for each in sets for names in splits_by_video(each).values())
    assert all(40 <= list(each.values()).count("val") <= 60 for each in sets)


def test_balanced_split_refuses_fewer_groups_than_splits(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 1)  # three videos
    rule = replace(BALANCED, shares={"a": 5, "b": 1, "c": 1, "d": 1})
    with pytest.raises(UsageError, match="d would be empty") as caught:
        split_by_rule(root, rule)
    assert caught.value.code == "WDS210"
    assert "fewer groups than splits" in caught.value.hint
    split_by_rule(root, replace(rule, shares={"train": 8, "val": 1, "test": 1}))
    assert set(splits_of(root).values()) == {"train", "val", "test"}


@pytest.mark.parametrize("group_by", ["", "json:film.id"])
def test_stratify_refuses_value_that_no_sample_has(tmp_path: Path, group_by: str) -> None:
    root = a_video_dataset(tmp_path, 3)
    rule = replace(BALANCED, group_by=group_by, stratify="json:lable")

    with pytest.raises(UsageError, match="no sample has json:lable") as caught:
        split_by_rule(root, rule)
    assert (caught.value.code, "--allow-empty" in caught.value.hint) == ("WDS215", True)
    split_by_rule(root, replace(rule, allow_empty=True))
    assert len(splits_of(root)) == 3 * SHARD_SAMPLES
