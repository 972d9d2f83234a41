from __future__ import annotations

import pytest

from wdsctl.core.dataset.shard_patterns import ShardPatterns
from wdsctl.core.importers.common.folder_files import is_split_folder, partition_split, split_of_folder
from wdsctl.core.importers.common.split_paths import (
    configuration_findings,
    find_path_splits,
    path_split_findings,
    split_options_of_names,
    split_patterns,
)


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("split=train", "train"),
        ("Split=Validation", "val"),
        ("split=extra", "extra"),
        ("subset=test", "test"),
        ("partition=dev", "val"),
        ("subset=en", ""),
        ("lang=train", ""),
        ("split=", ""),
        ("split=a*", ""),
        ("split", ""),
        ("train", ""),
    ],
)
def test_hive_folder_states_split(name: str, split: str) -> None:
    assert partition_split(name) == split
    assert is_split_folder(name) == (bool(split) or name == "train")
    assert split_of_folder(name) == (split or ("train" if name == "train" else ""))


@pytest.mark.parametrize(
    ("paths", "patterns"),
    [
        (
            ["split=train/a.tar", "split=val/b.tar"],
            {"train": ("glob:split=train/**",), "val": ("glob:split=val/**",)},
        ),
        (["split=val/a.tar"], {"val": ("glob:split=val/**",)}),
        (
            ["en/train-0001.jsonl", "en/train-0002.jsonl", "en/val-0001.jsonl"],
            {"train": ("glob:en/train-[0-9]*.jsonl",), "val": ("glob:en/val-[0-9]*.jsonl",)},
        ),
        (["train.jsonl", "dev.jsonl"], {"train": ("train.jsonl",), "val": ("dev.jsonl",)}),
        (["train.jsonl", "test/0.jsonl"], {"train": ("train.jsonl",), "test": ("glob:test/**",)}),
        (
            ["train-0-of-1.jsonl", "extra-0-of-1.jsonl"],
            {"train": ("glob:train-*-of-*.jsonl",), "extra": ("glob:extra-*-of-*.jsonl",)},
        ),
        (
            ["train.a.jsonl", "test/train.jsonl", "test/b.jsonl"],
            {"train": ("train.a.jsonl", "test/train.jsonl"), "test": ("test/b.jsonl",)},
        ),
        (["val-0.tar", "test-0.tar"], {}),
        (["train.jsonl", "other.jsonl"], {}),
        (["val.jsonl", "other.jsonl"], {}),
        (["train.jsonl", "validation.jsonl", "valid.jsonl"], {}),
        (["a/cats-train-0.tar", "b/cats-val-0.tar"], {}),
        ([], {}),
    ],
)
def test_patterns_match_shards_of_split_and_later_ones(paths: list[str], patterns: dict[str, tuple[str, ...]]) -> None:
    found = find_path_splits(paths)
    assert split_patterns(found, paths) == patterns
    for path, each in zip(paths, found, strict=bool(patterns)):
        assert ShardPatterns(patterns[each.split]).find(path)


def test_configurations_with_one_split_in_common_are_named() -> None:
    paths = [
        f"{lang}/{split}-00000-of-00001.parquet" for lang in ("a b", "de", "en", "fr") for split in ("train", "test")
    ]
    [finding] = configuration_findings(find_path_splits(paths), "/data", "convert", "DEST")
    assert (finding.code, finding.severity, finding.count) == ("WDS260", "note", 4)
    assert "a b/, de/, en/ and 1 more" in finding.message
    assert "`wdsctl convert '/data/a b' DEST`" in finding.message


@pytest.mark.parametrize("paths", [["train/0.tar", "val/0.tar"], ["a/train-0.tar", "a/val-0.tar"], ["a/0.tar"]])
def test_one_configuration_is_no_finding(paths: list[str]) -> None:
    assert configuration_findings(find_path_splits(paths), "/data", "prepare") == []


@pytest.mark.parametrize(
    ("paths", "patterns"),
    [
        (["other.tar", "train.tar", "val.tar"], {"train": ("train.tar",), "val": ("val.tar",)}),
        (["extra/0.tar", "train/0.tar", "val/0.tar"], {"train": ("glob:train/**",), "val": ("glob:val/**",)}),
        (
            ["train-0.tar", "train-0a.tar", "val-0.tar"],  # the pattern of numbered files would match the second one
            {"train": ("train-0.tar",), "val": ("val-0.tar",)},
        ),
    ],
)
def test_file_without_name_of_split_is_in_no_split(paths: list[str], patterns: dict[str, tuple[str, ...]]) -> None:
    found = find_path_splits(paths)
    assert split_patterns(found, paths) == patterns
    assert [each.split for each in found].count("") == 1

    [finding] = path_split_findings(found, paths, "/data")
    assert (finding.code, finding.severity, finding.count) == ("WDS213", "warning", 1)


@pytest.mark.parametrize(
    ("paths", "options"),
    [
        (["a.tar", "val.tar"], ["--pattern", "val=val.tar", "--rest", "train"]),
        (["val/0.tar", "test_2/0.tar"], ["--pattern", "val=glob:val/**", "--pattern", "test=glob:test_2/**"]),
        (
            ["c-train-0.tar", "d-val-0.tar", "e.tar"],
            ["--pattern", "train=glob:c-train-[0-9]*.tar", "--pattern", "val=glob:d-val-[0-9]*.tar", "--rest", "none"],
        ),
        (["a.tar", "train.tar"], []),
        (["val-0.tar", "val-1.tar"], []),
        (["a.tar", "latest.tar"], []),
        ([], []),
    ],
)
def test_names_that_tell_no_splits_give_options_of_split(paths: list[str], options: list[str]) -> None:
    assert split_options_of_names(paths) == options
    codes = [finding.code for finding in path_split_findings([], paths, "/data")]
    assert codes == (["WDS258"] if options else [])
