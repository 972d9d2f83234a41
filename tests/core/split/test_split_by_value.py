"""Samples go into the split that their value names."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset
from tests.core.split_sets import a_video_dataset, split_by_rule, splits_of
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import index
from wdsctl.core.split.report import show_splits
from wdsctl.core.split.request import SplitOptions, parse_split_request
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.rule import SplitRule

BY_SPLIT = SplitRule({}, by_value="json:split")


def a_lines_dataset(root: Path, *values: Any, name: str = "a.jsonl") -> str:
    """An indexed file of lines with these values of `split`; ... for a line without the field."""
    root.mkdir(exist_ok=True)
    lines = [{"n": n} if value is ... else {"n": n, "split": value} for n, value in enumerate(values)]
    (root / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    index(str(root))
    return str(root)


def split_names(root: str) -> list[str]:
    with Catalog.open(locate(root).catalog_path) as catalog:
        return [split.name for split in catalog.splits()]


def test_value_names_split_of_sample_in_usual_spelling(tmp_path: Path) -> None:
    root = a_lines_dataset(tmp_path / "data", " Train", "test", "extra A", "train", "VALIDATION", 7)
    report = split_by_rule(root, BY_SPLIT)

    assert {key.rpartition("/")[2]: name for key, name in splits_of(root).items()} == {
        "0": "train",
        "1": "test",
        "2": "extra A",
        "3": "train",
        "4": "val",
        "5": "7",
    }
    assert split_names(root) == ["train", "val", "test", "7", "extra A"]
    assert (report.by, report.rule, report.findings) == ("value", "by json:split", ())


def test_samples_without_usable_value_are_in_no_split_and_counted(tmp_path: Path) -> None:
    values = ("train", ..., None, "", "a/b", ["train"], {"a": 1}, "\n", "val")
    root = a_lines_dataset(tmp_path / "data", *values)
    report = split_by_rule(root, BY_SPLIT)

    assert Counter(splits_of(root).values()) == {"train": 1, "val": 1}
    assert [(each.code, each.severity, each.count) for each in report.findings] == [("WDS215", "warning", 7)]
    assert "7 samples have no json:split that names a split: a.jsonl/a/1" in report.findings[0].message
    assert show_splits(root).sets[0].without == 7


@pytest.mark.parametrize(("rest", "counts"), [("none", {"train": 2}), ("other", {"train": 2, "other": 1})])
def test_rest_of_values_is_split_or_none(tmp_path: Path, rest: str, counts: dict[str, int]) -> None:
    root = a_lines_dataset(tmp_path / "data", "train", ..., "train")
    report = split_by_rule(root, SplitRule({}, by_value="json:split", rest=rest))

    assert Counter(splits_of(root).values()) == counts
    assert report.findings == ()


def test_rest_that_no_sample_is_in_makes_no_split(tmp_path: Path) -> None:
    root = a_lines_dataset(tmp_path / "data", "train", "val")
    split_by_rule(root, SplitRule({}, by_value="json:split", rest="other"))
    a_lines_dataset(tmp_path / "data", "val", name="b.jsonl")
    assert split_names(root) == ["train", "val"]


def test_value_that_no_sample_has_is_refused(tmp_path: Path) -> None:
    root = a_lines_dataset(tmp_path / "data", "train", "val")
    with pytest.raises(UsageError, match="no sample has json:splt that names a split") as caught:
        split_by_rule(root, SplitRule({}, by_value="json:splt", rest="train"))
    assert caught.value.code == "WDS215"


@pytest.mark.parametrize("files", [1, 2])
def test_more_values_than_splits_are_refused(tmp_path: Path, files: int) -> None:
    values = [f"s{n}" for n in range(64)]
    for i in range(files):
        root = a_lines_dataset(tmp_path / "data", *values[i::files], name=f"{i}.jsonl")
    with pytest.raises(UsageError, match="json:split has more than 62 values"):
        split_by_rule(root, BY_SPLIT)
    assert splits_of(root) == {}


def test_later_samples_join_the_split_of_their_value_and_make_new_ones(tmp_path: Path) -> None:
    root = a_lines_dataset(tmp_path / "data", "train", "val")
    split_by_rule(root, BY_SPLIT)
    split_by_rule(root, BY_SPLIT, split_set="named")
    a_lines_dataset(tmp_path / "data", "val", "extra", "train", ..., name="b.jsonl")
    found = index(root)

    for split_set in ("", "named"):
        assert list(splits_of(root, split_set).values()).count("extra") == 1
        assert Counter(splits_of(root, split_set).values()) == {"train": 2, "val": 2, "extra": 1}
    assert split_names(root) == ["train", "val", "extra", "named/train", "named/val", "named/extra"]
    assert found.up_to_date


def test_index_counts_later_samples_without_usable_value(tmp_path: Path) -> None:
    root = a_lines_dataset(tmp_path / "data", "train", "val")
    split_by_rule(root, BY_SPLIT)
    (tmp_path / "data" / "b.jsonl").write_text('{"n": 1}\n')
    found = index(root).findings
    assert [(each.code, each.severity, each.count) for each in found] == [("WDS215", "warning", 1)]


def test_too_many_values_of_later_samples_are_a_finding(tmp_path: Path) -> None:
    root = a_lines_dataset(tmp_path / "data", *(f"s{n}" for n in range(40)))
    split_by_rule(root, BY_SPLIT)
    (tmp_path / "data" / "b.jsonl").write_text("".join(f'{{"split": "t{n}"}}\n' for n in range(40)))
    found = index(root).findings

    assert [each.severity for each in found] == ["error"]
    assert "more than 62 values" in found[0].message
    assert len(split_names(root)) == 40


def test_value_rule_is_stored_and_applied_again(tmp_path: Path) -> None:
    root = a_lines_dataset(tmp_path / "data", "train", "val", "test")
    place = locate(root)
    Path(place.config_path).write_text("version: 1\nsample_type: CrudeSample\n")
    split_by_rule(root, BY_SPLIT)
    split_by_rule(root, SplitRule({}, by_value="json:split", rest="none"), split_set="papers")
    before = splits_of(root)
    config = load_config(place.config_path)
    assert (config.split, config.split_sets["papers"].rest) == (BY_SPLIT, "none")

    Path(place.catalog_path).unlink()
    index(root)
    assert splits_of(root) == splits_of(root, "papers") == before
    split_by_rule(root, None, again=True)
    assert splits_of(root) == before


def test_excluded_samples_return_to_the_split_of_their_value(tmp_path: Path) -> None:
    root = a_lines_dataset(tmp_path / "data", "train", "val", "val", "test")
    split_by_rule(root, BY_SPLIT)
    before = splits_of(root)
    split_by_rule(root, None, excludes=Excludes(keys=("a/1",)))
    assert Counter(splits_of(root).values()) == {"train": 1, "val": 1, "test": 1}
    split_by_rule(root, BY_SPLIT)
    assert Counter(splits_of(root).values()) == {"train": 1, "val": 1, "test": 1}
    split_by_rule(root, None, replace_excludes=True)
    assert splits_of(root) == before


def test_dry_run_of_values_changes_nothing(tmp_path: Path) -> None:
    root = a_lines_dataset(tmp_path / "data", "train", "val")
    report = split_by_rule(root, BY_SPLIT, dry_run=True)
    assert [(split.name, split.samples) for split in report.splits] == [("train", 1), ("val", 1)]
    assert splits_of(root) == {}


def test_splits_by_value_are_independent_of_workers(tmp_path: Path) -> None:
    root = a_video_dataset(tmp_path)
    found = []
    for workers in (1, 3):
        split_by_rule(root, SplitRule({}, by_value="json:label"), workers=workers)
        found.append((split_names(root), splits_of(root)))
    assert found[0] == found[1]
    assert found[0][0] == ["cat", "dog", "eel", "rare"]


@pytest.mark.parametrize("value", ["part:cls", "key:(.)$", "column:bytes"])
def test_split_is_named_by_part_key_or_column(tmp_path: Path, value: str) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"k/1.cls": b"1", "k/2.cls": b"2\n"}})
    index(root, columns={"bytes": "size:cls"})
    split_by_rule(root, SplitRule({}, by_value=value))
    assert splits_of(root) == {"a.tar/k/1": "1", "a.tar/k/2": "2"}


@pytest.mark.parametrize("other", [{"ratios": "8,1"}, {"folds": 2}, {"pattern": ["a=b"]}, {"group_by": "json:a"}])
def test_by_value_excludes_other_rules(other: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        parse_split_request(SplitOptions(by_value="json:split", **other))
