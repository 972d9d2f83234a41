"""Joins in blend files: one leaf that knows its members."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.core.blend.trees import files, of
from wdsctl.core.blend import Join, Subset, read_blend, traverse
from wdsctl.core.errors import DatasetError


def join_of(node: dict[str, Any]) -> Join:
    (leaf,) = read_blend(node).leaves
    assert leaf.join is not None
    return leaf.join


def a_join(*members: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return of({"path": "/a"}, *(members or ({"path": "/b"},)), kind="join", **keys)


def test_a_join_is_a_leaf_of_its_first_member() -> None:
    (leaf,) = read_blend(a_join({"path": "/b", "split_part": "val", "dataset_config": "b.yaml"})).leaves

    assert (leaf.path, leaf.split_part) == ("/a", "train")
    assert leaf.join is not None
    (member,) = leaf.join.members
    assert (member.path, member.split_part, member.dataset_config) == ("/b", "val", "b.yaml")
    assert (leaf.join.nonmatch, leaf.join.names, leaf.join.joiner) == (("error",), (), None)


def test_a_mapping_names_the_members() -> None:
    assert join_of({"join": {"image": {"path": "/a"}, "text": {"path": "/b"}}}).names == ("image", "text")


@pytest.mark.parametrize("said", ["error", "skip", "none"])
def test_nonmatch_is_a_members_own_or_else_that_of_the_join(said: str) -> None:
    assert join_of(a_join({"path": "/b", "nonmatch": said})).nonmatch == (said,)
    both = a_join({"path": "/b"}, {"path": "/c", "nonmatch": "error"}, nonmatch=said)
    assert join_of(both).nonmatch == (said, "error")


def test_a_null_is_the_word_none(tmp_path: Any) -> None:
    path = files(tmp_path, main="join: [{path: a}, {path: b, nonmatch: null}, {path: c, nonmatch: none}]")

    assert join_of({"path": str(path)}).nonmatch == ("none", "none")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("mine.joins:Pair", "mine.joins:Pair"),
        ({"__module__": "mine.joins", "__class__": "Pair"}, "mine.joins:Pair"),
        ({"__module__": "mine", "__function__": "pair"}, "mine:pair"),
        (max, max),
    ],
)
def test_a_joiner_is_named_by_its_module_or_given_in_code(given: Any, read: Any) -> None:
    assert join_of(a_join(joiner=given)).joiner == read


def test_outer_subflavors_win_over_those_of_members() -> None:
    node = a_join({"path": "/b", "subflavors": {"lang": "en", "of": "b"}}, subflavors={"lang": "de"})
    (leaf,) = read_blend({"blend": [node], "subflavors": {"all": 1}}).leaves

    assert leaf.subflavors == {"lang": "de", "all": 1}
    assert leaf.join is not None
    assert leaf.join.members[0].subflavors == {"lang": "de", "of": "b", "all": 1}


def test_a_join_has_weights_repetitions_and_ranges_like_any_entry() -> None:
    node = {**a_join(subset={"range": [0, 10]}, shuffle_over_epochs_multiplier=3), "weight": 2}
    plan = read_blend(of(node, {"path": "/c", "weight": 1}, subset={"range": ["0%", "50%"]}))

    assert plan.components[0].weight == Fraction(2, 3)
    assert plan.components[0].multiplier == 3
    assert plan.leaves[0].subsets == (Subset(0, 10), Subset(Fraction(0), Fraction(1, 2)))
    (leaf,) = read_blend(of({**a_join(), "repetitions": 2}, kind="blend_epochized")).leaves
    assert leaf.join is not None


def test_a_join_may_lie_in_a_nested_file_and_members_beside_the_file(tmp_path: Any) -> None:
    main = files(
        tmp_path, main="blend: [{path: inner.yaml}]", inner="join: [{path: x}, {path: one.yaml}]", one="path: y"
    )
    (leaf,) = read_blend(main).leaves

    assert leaf.join is not None
    assert [leaf.path, leaf.join.members[0].path] == [str(tmp_path / "x"), str(tmp_path / "y")]


def test_the_stores_of_all_members_are_those_of_the_join() -> None:
    (leaf,) = read_blend(a_join({"path": "/b", "aux": {"media": "/m"}})).leaves

    assert leaf.aux == {"media": "/m"}


def test_traverse_gives_the_members_after_their_primary() -> None:
    assert [each.path for each in traverse(read_blend(of(a_join(), {"path": "/c"})))] == ["/a", "/b", "/c"]


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
def test_a_join_that_is_wrong_is_told(node: dict[str, Any], words: str) -> None:
    with pytest.raises(DatasetError, match=words) as raised:
        read_blend(node)

    assert raised.value.code == "WDS605"
