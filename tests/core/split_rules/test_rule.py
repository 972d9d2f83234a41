from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.dataset.config import DatasetConfig, dump_config, parse_config, update_all_split_sections
from wdsctl.core.errors import DatasetError
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.rule import SplitRule, dump_split_rules, load_split_rules

names = st.from_regex(r"[A-Za-z0-9_.-]{1,8}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(str.strip)
#: Names of files next to dataset.yaml.
file_names = texts.filter(lambda text: "/" not in text and text != "..")
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
    st.builds(SplitRule, st.just({}), keys=st.dictionaries(names, file_names, min_size=1, max_size=3)),
    st.builds(SplitRule, shares, st.just("key"), fold=st.just((1, 3))),
)
lists = st.lists(texts, max_size=3).map(tuple)
key_files = st.lists(file_names, max_size=3).map(tuple)
excludes = st.builds(Excludes, shards=lists, samples=lists, keys=lists, key_files=key_files, codes=lists)


@settings(max_examples=40)
@given(st.dictionaries(names | st.just(""), rules, max_size=4))
def test_split_rules_round_trip_through_catalog(stored_rules: dict[str, SplitRule]) -> None:
    assert load_split_rules(dump_split_rules(stored_rules)) == stored_rules


@settings(max_examples=40)
@given(st.none() | rules, st.dictionaries(names, rules, max_size=3), excludes)
def test_split_rules_round_trip_through_dataset_yaml(
    split: SplitRule | None, sets: dict[str, SplitRule], excluded: Excludes
) -> None:
    config = DatasetConfig(split=split, split_sets=sets, exclude=excluded)
    assert parse_config(dump_config(config)) == config
    text = "# mine\nsample_type: CrudeSample\nsubflavors: {a: 1} # too\n"
    updated = update_all_split_sections(text, split, sets, excluded)
    assert updated.startswith(text)
    assert parse_config(updated) == replace(config, subflavors={"a": 1})
    assert update_all_split_sections(updated, split, sets, excluded) == updated
    assert parse_config(update_all_split_sections(updated, None, {}, Excludes())) == DatasetConfig(subflavors={"a": 1})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("split_sets: {a/b: {shares: {x: 1}}}", "is not a valid name of a split set"),
        ("split_sets: {a: {shares: {x/y: 1}}}", "is not a valid split name"),
        ("split_sets: {a: {}}", "missing ratios"),
        ("split: {shares: {x: 1}, patterns: {y: [a.tar]}}", "exclude each other"),
        ("split: {patterns: {y: [1]}}", "expected text or a list of text"),
        ("split: {keys: val.txt, rest: x}", "expected `name: value` pairs"),
        ("split: {keys: {1: val.txt}}", "1 is not a name; put it in quotes"),
        ("split: {shares: {x: 1}, fold: [3, 2]}", r"such as \[0, 5\]"),
        ("split: {shares: {x: 1}, group_by: 3}", "expected text"),
        ("exclude: {key: [a]}", "unknown key 'key'"),
        ("exclude: [a]", "expected `name: value` pairs"),
    ],
)
def test_invalid_split_rule_error_names_line(text: str, words: str) -> None:
    with pytest.raises(DatasetError, match=words) as caught:
        parse_config(f"sample_type: CrudeSample\n{text}\n", "d.yaml")
    assert (caught.value.code, caught.value.where) == ("WDS220", "d.yaml:2")
