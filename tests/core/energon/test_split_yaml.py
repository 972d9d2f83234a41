from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.dataset.shard_names import expand_braces
from wdsctl.core.dataset.shard_patterns import ShardPatterns, compile_shard_pattern
from wdsctl.core.energon.split_yaml import collapse_ranges, format_split_yaml, read_split_yaml
from wdsctl.core.errors import DatasetError, InputError
from wdsctl.core.split_rules.excludes import Excludes


def write_split_yaml(tmp_path: Path, text: str) -> str:
    path = tmp_path / "split.yaml"
    path.write_text(text)
    return str(path)


def test_excluded_shards_and_samples_are_distinguished(tmp_path: Path) -> None:
    text = """
split_parts:
  train: ["parts/data-{0..7}.tar", "other[1].tar"]
  val: [parts/data-8.tar]
exclude:
- parts/data-3.tar
- parts/data-4.tar/{000001..000003}
"""
    rule, excludes = read_split_yaml(write_split_yaml(tmp_path, text))

    assert list(rule.patterns) == ["train", "val"]
    assert rule.patterns["val"] == ("parts/data-8.tar",)
    assert excludes == Excludes(shards=("parts/data-3.tar",), samples=("parts/data-4.tar/{000001..000003}",))
    matches = compile_shard_pattern(rule.patterns["train"][1])
    assert (matches("other[1].tar"), matches("other1.tar")) == (True, False)


def test_repeated_exclude_is_joined(tmp_path: Path) -> None:
    """People append it to the file that `prepare` wrote, which has `exclude: []`."""
    text = "exclude: []\nsplit_parts: {train: [a.tar, b.tar]}\nexclude: [a.tar]\nexclude:\n- b.tar/7\n"

    _, excludes = read_split_yaml(write_split_yaml(tmp_path, text))

    assert excludes == Excludes(shards=("a.tar",), samples=("b.tar/7",))
    with pytest.raises(DatasetError, match="duplicate key 'split_parts'"):
        read_split_yaml(write_split_yaml(tmp_path, f"{text}split_parts: {{}}\n"))


def test_json_split_file_is_read(tmp_path: Path) -> None:
    rule, _ = read_split_yaml(write_split_yaml(tmp_path, '{"split_parts": {"train": ["a.tar"]}, "exclude": []}'))
    assert rule.patterns == {"train": ("a.tar",)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "missing `split_parts:`"),
        ("split_parts: []", "missing `split_parts:`"),
        ("split_parts: {}", "has no splits"),
        ("split_parts: {train: 3}", "expected a list of shards, found 3"),
        ("split_parts: {train: [a.tar]}\nexclud: []", "unknown key 'exclud'"),
        ("split_parts: [", "invalid file"),
    ],
)
def test_invalid_split_file_is_refused_with_reason(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DatasetError, match=words) as caught:
        read_split_yaml(write_split_yaml(tmp_path, text))
    assert caught.value.code == "WDS217"
    with pytest.raises(InputError):
        read_split_yaml(str(tmp_path / "nowhere.yaml"))


def test_collapse_ranges_joins_consecutive_names() -> None:
    names = ["a-8.tar", "a-9.tar", "a-10.tar", "a-11.tar", "b-000-of-002.tar", "b-001-of-002.tar", "c.tar", "a-7.tar"]
    assert collapse_ranges(names) == ["a-{8..9}.tar", "a-{10..11}.tar", "b-{000..001}-of-002.tar", "c.tar", "a-7.tar"]


def test_collapse_ranges_counts_only_one_number_of_names() -> None:
    assert collapse_ranges(["a-1-1.tar", "a-1-2.tar", "a-2-2.tar"]) == ["a-1-{1..2}.tar", "a-2-2.tar"]


@settings(max_examples=40)
@given(st.lists(st.from_regex(r"[ab]/[0-9]{1,3}(-[0-9]{1,2})?\.tar", fullmatch=True), max_size=20))
def test_collapsed_ranges_expand_to_names_in_order(names: list[str]) -> None:
    assert [name for each in collapse_ranges(names) for name in expand_braces(each)] == names


@settings(max_examples=20)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,5}", fullmatch=True),
        st.lists(st.from_regex(r"[a-z:# ']{1,3}/s-[0-9]{2}\.tar", fullmatch=True), unique=True, max_size=6),
        min_size=1,
    )
)
def test_split_yaml_round_trips(tmp_path_factory: pytest.TempPathFactory, splits: dict[str, list[str]]) -> None:
    text = format_split_yaml(splits, ["gone.tar"], ["a.tar/k 1"])
    rule, excludes = read_split_yaml(write_split_yaml(tmp_path_factory.mktemp("one"), text))

    paths = {path for names in splits.values() for path in names}
    restored = {}
    for name, patterns in rule.patterns.items():
        table = ShardPatterns(patterns)
        restored[name] = {path for path in paths if table.find(path)}
    assert restored == {name: set(names) for name, names in splits.items()}
    assert excludes == Excludes(shards=("gone.tar",), samples=("a.tar/k 1",))


def test_names_with_braces_are_refused() -> None:
    with pytest.raises(DatasetError, match="braces"):
        format_split_yaml({"train": ["a{1}.tar"]}, [], [])
