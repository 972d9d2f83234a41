from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.blend.yaml_tree import Node, from_mapping, from_yaml, node_value
from wdsctl.core.errors import DatasetError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=8,
)


def find_location(node: Node, *keys: str | int) -> str:
    for key in keys[:-1]:
        node = node.value[key]
    last = keys[-1]
    return str(node.location_of(last) if isinstance(last, str) else node.value[last].location)


@given(VALUES)
def test_from_yaml_and_from_mapping_return_equal_values(value: Any) -> None:
    text = yaml.safe_dump({"x": value})

    assert node_value(from_yaml(text, "x.yaml")) == node_value(from_mapping({"x": value}, "mapping")) == {"x": value}


def test_yaml_location_is_line_of_key_or_entry() -> None:
    node = from_yaml("blend:\n  - path: a\n\n  -\n    path: b\n    weight: 2\n", "x.yaml")

    assert find_location(node, "blend") == "x.yaml:1"
    assert find_location(node, "blend", 0) == "x.yaml:2"
    assert find_location(node, "blend", 1, "weight") == "x.yaml:6"
    assert find_location(node, "blend", 1, "nothing") == "x.yaml:5"


def test_mapping_location_is_path_of_keys() -> None:
    node = from_mapping({"blend": [{"path": Path("a")}]}, "mapping")

    assert find_location(node, "blend", 0, "path") == "mapping.blend[0].path"
    assert node_value(node) == {"blend": [{"path": "a"}]}


def test_aliases_and_merge_keys_are_resolved_with_own_keys_first() -> None:
    text = """\
base: &base {weight: 2, subset: {range: [0, 5]}}
more: &more {weight: 9, name: n}
one: {<<: *base, weight: 3}
two:
  <<: [*base, *more]
  path: *name
name: &name x
"""
    with pytest.raises(DatasetError, match="undefined alias"):
        from_yaml(text, "x.yaml")

    node = from_yaml(text.replace("*name", "y"), "x.yaml")

    assert node_value(node)["one"] == {"weight": 3, "subset": {"range": [0, 5]}}
    assert node_value(node)["two"] == {"path": "y", "weight": 2, "subset": {"range": [0, 5]}, "name": "n"}
    assert find_location(node, "one", "weight") == "x.yaml:3"
    assert find_location(node, "two", "weight") == "x.yaml:1"
    assert find_location(node, "two", "name") == "x.yaml:2"


def test_alias_returns_same_node() -> None:
    node = from_yaml("a: &a [1]\nb: *a\n", "x.yaml")

    assert node.value["a"] is node.value["b"]


def test_yaml_keys_and_dates_are_read_as_text() -> None:
    assert node_value(from_yaml("{1: 2024-01-02, yes: '5', 2024-01-02: null, =: 1.5}", "x.yaml")) == {
        "1": "2024-01-02",
        "yes": "5",
        "2024-01-02": None,
        "=": 1.5,
    }


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a: [1, 2\nc: 3\n", 2, "not valid YAML"),
        ("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", 5, "duplicate key 'c', first in line 3"),
        ("- {x: 1, 'x': 2}\n", 1, "duplicate key 'x'"),
        ("b: 1\na: {<<: 5}\n", 2, "<<: expected a mapping to merge, found 5"),
        ("a: &a {b: 1}\nc: {<<: *a, <<: *a}\n", 2, "duplicate key '<<'"),
        ("\n? [a, b]\n: 1\n", 2, "a key must be a single value"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", 2, "the tag !python/object/apply:os.system"),
        ("a: !!set {b}\n", 1, "the tag !set"),
        ("a: !!int x\n", 1, "'x' does not fit its tag"),
        ("a: 1\n---\nb: 2\n", 2, "another document"),
        ("a: " + "[" * 100 + "]" * 100, 1, "nested more than 60 levels"),
        ("a0: &a0 {b: 1}\n" + "".join(f"a{i}: &a{i} {{<<: *a{i - 1}}}\n" for i in range(1, 70)), 61, "nested more"),
    ],
)
def test_from_yaml_refuses_invalid_text_with_line(text: str, line: int, why: str) -> None:
    with pytest.raises(DatasetError, match=why) as caught:
        from_yaml(text, "x.yaml")

    assert (caught.value.code, caught.value.where) == ("WDS600", f"x.yaml:{line}")


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {<<: *a}", "&a {b: {c: *a}}"])
def test_anchor_that_contains_itself_is_refused(text: str) -> None:
    with pytest.raises(DatasetError, match="contains itself") as caught:
        from_yaml(text, "x.yaml")

    assert caught.value.code == "WDS601"


@pytest.mark.parametrize("text", ["[" * 200_000, "- " * 200_000, "{a: " * 100_000, "- 1\n" * 9 + "- " + "[" * 100_000])
def test_extreme_nesting_raises_error(text: str) -> None:
    with pytest.raises(DatasetError):
        from_yaml(text, "x.yaml")


def test_node_value_refuses_exponential_aliases() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 20)]
    node = from_yaml("\n".join(lines), "x.yaml")

    with pytest.raises(DatasetError, match="more than 100,000 values"):
        node_value(node)


def test_from_mapping_refuses_non_text_keys_and_cycles() -> None:
    cycle: dict[str, Any] = {}
    cycle["a"] = cycle

    with pytest.raises(DatasetError, match="the key 1 is not text"):
        from_mapping({"a": {1: 2}}, "mapping")
    with pytest.raises(DatasetError, match="levels deep"):
        from_mapping(cycle, "mapping")
