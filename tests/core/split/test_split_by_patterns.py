"""Splits of shards by patterns, and of samples by key lists."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.build import a_dataset, split_by_ratios
from tests.core.split_sets import a_video_dataset, split_by_rule, splits_of, video_shards
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import DatasetError, InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.split_rules.rule import SplitRule


def test_patterns_assign_existing_and_later_shards(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 6)
    patterns = {"train": ("shard-{000..003}.tar", "re:shard-01\\d\\.tar"), "val": ("glob:shard-00[45]*",)}
    split_by_rule(root, SplitRule({}, patterns=patterns, allow_empty=True))
    assert Counter(splits_of(root).values()) == {"train": 40, "val": 20}
    a_dataset(tmp_path, video_shards(10, 1) | video_shards(30, 1))
    found = index(root).findings

    assert Counter(splits_of(root).values()) == {"train": 50, "val": 20}
    assert [(each.code, each.severity, each.count) for each in found] == [("WDS213", "warning", 10)]
    assert index(root).up_to_date


@pytest.mark.parametrize(
    ("patterns", "code", "words"),
    [
        ({"train": ("shard-{000..004}.tar",), "val": ("shard-{004..005}.tar",)}, "WDS212", "1 shard matches patterns"),
        ({"train": ("shard-000.tar",), "val": ("shard-001.tar",)}, "WDS213", "40 samples match no pattern"),
        ({"train": ("glob:*",), "val": ("val/*.tar", "re:x")}, "WDS214", "2 patterns match no shard: val/"),
    ],
)
def test_pattern_overlaps_gaps_and_misses_are_refused_with_counts(
    tmp_path: Path, patterns: dict[str, tuple[str, ...]], code: str, words: str
) -> None:
    root = a_video_dataset(tmp_path, 6)
    split_by_ratios(root, {"train": 1})
    before = splits_of(root)

    with pytest.raises(UsageError, match=words) as caught:
        split_by_rule(root, SplitRule({}, patterns=patterns))
    assert caught.value.code == code
    assert splits_of(root) == before


def test_rest_of_patterns_is_split_or_none(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path, 6)
    split_by_rule(root, SplitRule({}, patterns={"val": ("shard-000.tar",)}, rest="train"))
    assert Counter(splits_of(root).values()) == {"val": 10, "train": 50}
    split_by_rule(root, SplitRule({}, patterns={"val": ("shard-000.tar",)}, rest="none"))
    assert Counter(splits_of(root).values()) == {"val": 10}
    assert index(root).up_to_date


def test_key_lists_are_stored_with_dataset_and_new_keys_join_rest(tmp_path: Path) -> None:
    key_list = tmp_path / "val.txt"
    key_list.write_bytes(b"\xef\xbb\xbffilm000/00001\r\n\r\nfilm003/00012\nfilm003/00012\n")
    root = a_video_dataset(tmp_path / "data", 3)
    Path(locate(root).config_path).write_text("sample_type: CrudeSample\n")
    split_by_rule(root, SplitRule({}, keys={"val": str(key_list)}, rest="train"), split_set="papers")
    key_list.unlink()
    a_dataset(tmp_path / "data", video_shards(3, 1))
    index(root)
    found = splits_of(root, "papers")

    assert sorted(sample for sample, name in found.items() if name == "val") == [
        "shard-000.tar/film000/00001",
        "shard-001.tar/film003/00012",
    ]
    assert Counter(found.values()) == {"val": 2, "train": 38}
    rule = load_config(locate(root).config_path).split_sets["papers"]
    assert Path(locate(root).meta, rule.keys["val"]).is_file()


@pytest.mark.parametrize(
    ("lists", "rest", "code", "words"),
    [
        (
            {"val": "film000/00001\nnobody\n"},
            "train",
            "WDS214",
            "1 key in the list for split val is not in the dataset: nobody",
        ),
        ({"val": "film000/00001\n"}, "", "WDS213", "29 samples are not in any list"),
        ({"val": "film000/00001\n", "test": "film000/00001\n"}, "train", "WDS212", "1 sample is in the lists"),
    ],
)
def test_unknown_uncovered_or_repeated_listed_keys_are_refused(
    tmp_path: Path, lists: dict[str, str], rest: str, code: str, words: str
) -> None:
    root = a_video_dataset(tmp_path / "data", 3)
    files = {}
    for name, text in lists.items():
        (tmp_path / name).write_text(text)
        files[name] = str(tmp_path / name)

    with pytest.raises(UsageError, match=words) as caught:
        split_by_rule(root, SplitRule({}, keys=files, rest=rest))
    assert caught.value.code == code
    assert not Path(locate(root).meta, "splits").exists()


@pytest.mark.parametrize(("text", "words"), [(b"", "no keys"), (b"a\n\xff\n", "line 2 is not UTF-8")])
def test_invalid_key_list_is_refused(tmp_path: Path, text: bytes, words: str) -> None:
    root = a_video_dataset(tmp_path / "data", 1)
    (tmp_path / "val.txt").write_bytes(text)

    with pytest.raises((InputError, DatasetError), match=words):
        split_by_rule(root, SplitRule({}, keys={"val": str(tmp_path / "val.txt")}, rest="train"))
    with pytest.raises(InputError, match="does not exist"):
        split_by_rule(root, SplitRule({}, keys={"val": str(tmp_path / "nowhere.txt")}, rest="train"))
