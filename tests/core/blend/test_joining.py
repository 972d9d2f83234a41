"""Joins in blend files: a join is one leaf with members."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.core.blend.trees import make_node, write_files
from wdsctl.core.blend import Join, Subset, read_blend, traverse
from wdsctl.core.errors import DatasetError


def read_join(node: dict[str, Any]) -> Join:
    (leaf,) = read_blend(node).leaves
    assert leaf.join is not None
    return leaf.join


def a_join(*members: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return make_node({"path": "/a"}, *(members or ({"path": "/b"},)), kind="join", **keys)


def test_join_is_leaf_of_its_first_member() -> None:
    (leaf,) = read_blend(a_join({"path": "/b", "split_part": "val", "dataset_config": "b.yaml"})).leaves

    assert (leaf.path, leaf.split_part) == ("/a", "train")
    assert leaf.join is not None
    (member,) = leaf.join.members
    assert (member.path, member.split_part, member.dataset_config) == ("/b", "val", "b.yaml")
    assert (leaf.join.nonmatch, leaf.join.names, leaf.join.joiner) == (("error",), (), None)


def test_join_mapping_names_members() -> None:
    assert read_join({"join": {"image": {"path": "/a"}, "text": {"path": "/b"}}}).names == ("image", "text")


@pytest.mark.parametrize("policy", ["error", "skip", "none"])
def test_nonmatch_of_member_overrides_that_of_join(policy: str) -> None:
    assert read_join(a_join({"path": "/b", "nonmatch": policy})).nonmatch == (policy,)
    both = a_join({"path": "/b"}, {"path": "/c", "nonmatch": "error"}, nonmatch=policy)
    assert read_join(both).nonmatch == (policy, "error")


def test_nonmatch_null_means_none(tmp_path: Any) -> None:
    path = write_files(tmp_path, main="join: [{path: a}, {path: b, nonmatch: null}, {path: c, nonmatch: none}]")

    assert read_join({"path": str(path)}).nonmatch == ("none", "none")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("mine.joins:Pair", "mine.joins:Pair"),
        ({"__module__": "mine.joins", "__class__": "Pair"}, "mine.joins:Pair"),
        ({"__module__": "mine", "__function__": "pair"}, "mine:pair"),
        (max, max),
    ],
)
def test_joiner_is_named_by_module_or_passed_as_function(value: Any, expected: Any) -> None:
    assert read_join(a_join(joiner=value)).joiner == expected


def test_outer_subflavors_override_those_of_members() -> None:
    node = a_join({"path": "/b", "subflavors": {"lang": "en", "of": "b"}}, subflavors={"lang": "de"})
    (leaf,) = read_blend({"blend": [node], "subflavors": {"all": 1}}).leaves

    assert leaf.subflavors == {"lang": "de", "all": 1}
    assert leaf.join is not None
    assert leaf.join.members[0].subflavors == {"lang": "de", "of": "b", "all": 1}


def test_join_accepts_weight_repetitions_and_subset() -> None:
    node = {**a_join(subset={"range": [0, 10]}, shuffle_over_epochs_multiplier=3), "weight": 2}
    plan = read_blend(make_node(node, {"path": "/c", "weight": 1}, subset={"range": ["0%", "50%"]}))

    assert plan.components[0].weight == Fraction(2, 3)
    assert plan.components[0].multiplier == 3
    assert plan.leaves[0].subsets == (Subset(0, 10), Subset(Fraction(0), Fraction(1, 2)))
    (leaf,) = read_blend(make_node({**a_join(), "repetitions": 2}, kind="blend_epochized")).leaves
    assert leaf.join is not None


def test_join_in_nested_file_resolves_member_paths(tmp_path: Any) -> None:
    main = write_files(
        tmp_path, main="blend: [{path: inner.yaml}]", inner="join: [{path: x}, {path: one.yaml}]", one="path: y"
    )
    (leaf,) = read_blend(main).leaves

    assert leaf.join is not None
    assert [leaf.path, leaf.join.members[0].path] == [str(tmp_path / "x"), str(tmp_path / "y")]


def test_join_has_aux_stores_of_all_members() -> None:
    (leaf,) = read_blend(a_join({"path": "/b", "aux": {"media": "/m"}})).leaves

    assert leaf.aux == {"media": "/m"}


def test_traverse_returns_members_after_primary() -> None:
    assert [each.path for each in traverse(read_blend(make_node(a_join(), {"path": "/c"})))] == ["/a", "/b", "/c"]


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"join": []}, "expected two members or more, found nothing"),
        ({"join": [{"path": "/a"}]}, "found one member"),
        ({"join": "a"}, "found 'a'"),
        ({"join": {"__key__": {"path": "/a"}, "b": {"path": "/b"}}}, "'__key__' cannot be the name"),
        ({"join": [{"path": "/a", "nonmatch": "skip"}, {"path": "/b"}]}, "not allowed for the first member of a join"),
        (a_join({"path": "/b", "nonmatch": "skipp"}), "found 'skipp'; did you mean 'skip'"),
        (a_join({"path": "/b", "subset": {"range": [0, 5]}}), "not allowed for a member of a join"),
        (a_join({"path": "/b", "shuffle_over_epochs_multiplier": 2}), "not allowed for a member of a join, found 2"),
        (a_join({"blend": [{"path": "/b"}]}), "a member must be one dataset, found a blend"),
        (a_join({"concat": [{"path": "/b"}, {"path": "/c"}]}), "found a blend"),
        (a_join(a_join()), "a member cannot be a join"),
        (a_join(joiner="pair"), "expected a class or a function by its module, found 'pair'"),
        (a_join(joiner={"__module__": "m"}), "expected a module and a class or function"),
        ({"join": [{"path": "/a", "aux": {"m": "/x"}}, {"path": "/b", "aux": {"m": "/y"}}]}, "'m' has two meanings"),
    ],
)
def test_invalid_join_is_refused(node: dict[str, Any], words: str) -> None:
    with pytest.raises(DatasetError, match=words) as raised:
        read_blend(node)

    assert raised.value.code == "WDS605"
