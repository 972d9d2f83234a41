from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.dataset.config import DatasetConfig, dump_config, parse_config, update_all_split_sections
from wdsctl.core.dataset.split_rules import (
    Excludes,
    SplitRule,
    check_set_name,
    check_split_name,
    dump_split_rules,
    load_split_rules,
    qualified_split_name,
    split_set_and_name,
)
from wdsctl.core.errors import DatasetError, UsageError

names = st.from_regex(r"[A-Za-z0-9_.-]{1,8}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(str.strip)
#: Names of files beside dataset.yaml.
beside = texts.filter(lambda text: "/" not in text and text != "..")
shares = st.dictionaries(names, st.integers(1, 9), min_size=1, max_size=3)
rules = st.one_of(
    st.builds(SplitRule, shares, st.sampled_from(["auto", "shard", "sample", "key"]), st.integers(-9, 9)),
    st.builds(SplitRule, shares, seed=st.integers(0, 9), group_by=texts, rest=names),
    st.builds(SplitRule, shares, stratify=texts, allow_empty=st.booleans()),
    st.builds(
        SplitRule,
        st.just({}),
        patterns=st.dictionaries(names, st.lists(texts, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3),
        rest=names | st.just(""),
    ),
    st.builds(SplitRule, st.just({}), keys=st.dictionaries(names, beside, min_size=1, max_size=3)),
    st.builds(SplitRule, shares, st.just("key"), fold=st.just((1, 3))),
)
lists = st.lists(texts, max_size=3).map(tuple)
key_files = st.lists(beside, max_size=3).map(tuple)
excludes = st.builds(Excludes, shards=lists, samples=lists, keys=lists, key_files=key_files, codes=lists)


@settings(max_examples=40)
@given(st.dictionaries(names | st.just(""), rules, max_size=4))
def test_rules_are_kept_by_the_catalog_as_they_are(kept: dict[str, SplitRule]) -> None:
    assert load_split_rules(dump_split_rules(kept)) == kept


@settings(max_examples=40)
@given(st.none() | rules, st.dictionaries(names, rules, max_size=3), excludes)
def test_rules_are_kept_by_dataset_yaml_as_they_are(
    split: SplitRule | None, sets: dict[str, SplitRule], left_out: Excludes
) -> None:
    config = DatasetConfig(split=split, split_sets=sets, exclude=left_out)
    assert parse_config(dump_config(config)) == config
    text = "# mine\nsample_type: CrudeSample\nsubflavors: {a: 1} # too\n"
    new = update_all_split_sections(text, split, sets, left_out)
    assert new.startswith(text)
    assert parse_config(new) == replace(config, subflavors={"a": 1})
    assert update_all_split_sections(new, split, sets, left_out) == new
    assert parse_config(update_all_split_sections(new, None, {}, Excludes())) == DatasetConfig(subflavors={"a": 1})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("split_sets: {a/b: {shares: {x: 1}}}", "is not a valid name of a split set"),
        ("split_sets: {a: {shares: {x/y: 1}}}", "is not a valid split name"),
        ("split_sets: {a: {}}", "missing ratios"),
        ("split: {shares: {x: 1}, patterns: {y: [a.tar]}}", "exclude each other"),
        ("split: {patterns: {y: [1]}}", "expected text or a list of text"),
        ("split: {shares: {x: 1}, fold: [3, 2]}", r"such as \[0, 5\]"),
        ("split: {shares: {x: 1}, group_by: 3}", "expected text"),
        ("exclude: {key: [a]}", "unknown key 'key'"),
        ("exclude: [a]", "expected `name: value` pairs"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, words: str) -> None:
    with pytest.raises(DatasetError, match=words) as caught:
        parse_config(f"sample_type: CrudeSample\n{text}\n", "d.yaml")
    assert (caught.value.code, caught.value.where) == ("WDS220", "d.yaml:2")


def test_a_set_and_a_split_have_one_name_together() -> None:
    assert (qualified_split_name("folds", "val"), qualified_split_name("", "val")) == ("folds/val", "val")
    assert (split_set_and_name("folds/val"), split_set_and_name("val")) == (("folds", "val"), ("", "val"))
    for name in ("a/b", "a b", "ä"):
        with pytest.raises(UsageError):
            check_set_name(name)
        with pytest.raises(UsageError):
            check_split_name(name)


def test_excludes_add_up_once() -> None:
    assert Excludes(keys=("a", "b")).merged_with(Excludes(keys=("b", "c"))) == Excludes(keys=("a", "b", "c"))
    assert not Excludes()
