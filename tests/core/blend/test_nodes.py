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


def place(node: Node, *keys: str | int) -> str:
    for key in keys[:-1]:
        node = node.value[key]
    last = keys[-1]
    return str(node.location_of(last) if isinstance(last, str) else node.value[last].location)


@given(VALUES)
def test_yaml_and_a_mapping_of_the_same_values_are_the_same(value: Any) -> None:
    text = yaml.safe_dump({"x": value})

    assert node_value(from_yaml(text, "x.yaml")) == node_value(from_mapping({"x": value}, "mapping")) == {"x": value}


def test_a_place_is_the_line_of_the_key_and_of_the_entry() -> None:
    node = from_yaml("blend:\n  - path: a\n\n  -\n    path: b\n    weight: 2\n", "x.yaml")

    assert place(node, "blend") == "x.yaml:1"
    assert place(node, "blend", 0) == "x.yaml:2"
    assert place(node, "blend", 1, "weight") == "x.yaml:6"
    assert place(node, "blend", 1, "nothing") == "x.yaml:5"


def test_a_place_in_a_mapping_is_the_way_to_it() -> None:
    node = from_mapping({"blend": [{"path": Path("a")}]}, "mapping")

    assert place(node, "blend", 0, "path") == "mapping.blend[0].path"
    assert node_value(node) == {"blend": [{"path": "a"}]}


def test_aliases_and_merge_keys_are_resolved_and_nearer_keys_win() -> None:
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
    assert place(node, "one", "weight") == "x.yaml:3"
    assert place(node, "two", "weight") == "x.yaml:1"
    assert place(node, "two", "name") == "x.yaml:2"


def test_an_alias_is_the_same_node_again() -> None:
    node = from_yaml("a: &a [1]\nb: *a\n", "x.yaml")

    assert node.value["a"] is node.value["b"]


def test_keys_and_dates_are_the_texts_that_stand_there() -> None:
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
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(DatasetError, match=why) as caught:
        from_yaml(text, "x.yaml")

    assert (caught.value.code, caught.value.where) == ("WDS600", f"x.yaml:{line}")


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {<<: *a}", "&a {b: {c: *a}}"])
def test_an_anchor_that_contains_itself_is_a_circle(text: str) -> None:
    with pytest.raises(DatasetError, match="contains itself") as caught:
        from_yaml(text, "x.yaml")

    assert caught.value.code == "WDS601"


@pytest.mark.parametrize("text", ["[" * 200_000, "- " * 200_000, "{a: " * 100_000, "- 1\n" * 9 + "- " + "[" * 100_000])
def test_endless_nesting_is_an_error_and_does_not_end_the_process(text: str) -> None:
    with pytest.raises(DatasetError):
        from_yaml(text, "x.yaml")


def test_aliases_that_make_endlessly_many_values_are_refused() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 20)]
    node = from_yaml("\n".join(lines), "x.yaml")

    with pytest.raises(DatasetError, match="more than 100,000 values"):
        node_value(node)


def test_a_mapping_needs_texts_as_keys_and_an_end() -> None:
    circle: dict[str, Any] = {}
    circle["a"] = circle

    with pytest.raises(DatasetError, match="the key 1 is not text"):
        from_mapping({"a": {1: 2}}, "mapping")
    with pytest.raises(DatasetError, match="levels deep"):
        from_mapping(circle, "mapping")
