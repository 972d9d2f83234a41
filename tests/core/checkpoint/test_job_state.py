"""States are taken only where they are whole, and merged only where they are of one job at one step."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.job_states import a_cursor, a_pass_state, a_rank_state, job
from wdsctl.core.checkpoint.state import (
    STATE_FIELDS,
    check_state,
    copy_json,
    describe_differences,
    merge_states,
    missing_ranks,
    state_lanes,
)
from wdsctl.core.errors import StateMismatch
from wdsctl.loader.order.rank_lanes import Lane, LaneLayout, rank_turns


def refusal(states: Any) -> StateMismatch:
    before = copy.deepcopy(states)
    with pytest.raises(StateMismatch) as raised:
        merge_states(states)
    assert raised.value.code == "WDS502"
    assert raised.value.hint
    assert states == before, "what is refused is left as it was"
    return raised.value


def malformed(state: Any) -> str:
    with pytest.raises(StateMismatch) as raised:
        check_state(state)
    assert raised.value.code == "WDS502"
    return raised.value.message


def changed(path: str, value: Any) -> dict[str, Any]:
    """A state with one thing in it changed; the path is `cursors.0.draws`."""
    state: dict[str, Any] = a_rank_state()
    place: Any = state
    *inner, last = path.split(".")
    for key in inner:
        place = place[int(key) if isinstance(place, list) else key]
    place[int(last) if isinstance(place, list) else last] = value
    return state


def test_a_state_is_returned_as_it_is() -> None:
    for state in (a_rank_state(), a_pass_state(), merge_states(job())):
        assert check_state(state) is state


def test_a_state_is_looked_at_with_few_calls() -> None:
    """It is looked at wherever one is saved or loaded: that is to take some 40 µs, and no milliseconds."""
    state, calls = a_rank_state(), list[str]()
    before = sys.getprofile()
    sys.setprofile(lambda _frame, what, _argument: calls.append(what))
    try:
        check_state(state)
    finally:
        sys.setprofile(before)
    assert sum(what in {"call", "c_call"} for what in calls) < 600


@pytest.mark.parametrize("state", [{}, None, 7, "state.json", [None], [{}], {"epoch": 3}, {"version": "1"}])
def test_what_is_no_state_is_refused(state: Any) -> None:
    assert malformed(state) == "not a state of a wdsctl loader"


def test_a_state_of_a_newer_wdsctl_says_so() -> None:
    assert "saved by a newer wdsctl: it has version 2, this one reads version 1" in malformed({"version": 2})


@pytest.mark.parametrize("field", STATE_FIELDS)
def test_a_truncated_state_says_what_it_lacks(field: str) -> None:
    state = a_rank_state()
    del state[field]

    assert malformed(state) == f"the state is truncated: it lacks {field}"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("batches_drawn", "40", "'batches_drawn' is '40', expected a count"),
        ("batches_drawn", True, "'batches_drawn' is True, expected a count"),
        ("world", 1.0, "'world' is 1.0"),
        ("world", 0, "'rank' is 0, of 0"),
        ("batches_handed_out", -1, "'batches_handed_out' is -1"),
        ("first_batch", None, "'first_batch' is None"),
        ("pass", "first", "'pass' is 'first', expected a count or null"),
        ("end", "soon", "'end' is 'soon', expected 'open', 'reached' or 'passed'"),
        ("end", ["open"], "'end' is ['open']"),
        ("kind", "node", "'kind' is 'node'"),
        ("kind", ["rank"], "'kind' is ['rank']"),
        ("kind", "world", "'rank' is 0, of 1 in a state of kind 'world'"),
        ("rank", 1, "'rank' is 1, of 1"),
        ("rank", -1, "'rank' is -1, of 1"),
        ("generations", 3, "'generations' is 3"),
        ("generations", ["a"], "'generations' is ['a']"),
        ("bans", [["key", [1, 2, 3]]], "'bans' is"),
        ("plan", {"order": {}}, "expected order, recipe and stages"),
        ("plan.order", [], "'order' is not a JSON object"),
        ("plan.order.seed", {1, 2}, "'order' is not a JSON object"),
        ("plan.recipe", None, "'recipe' is not text"),
        ("plan.stages", [1], "'stages' is not a list of text"),
        ("lanes", {}, "'lanes' is {}"),
        ("lanes.3", [3], "lane 3 is [3]"),
        ("lanes.3", [3, [[5, 2, 2]]], "lane 3 is [3, [[5, 2, 2]]]"),
        ("lanes.3", [3, [[5, 1, 0]]], "lane 3 is"),
        ("first_batch", 41, "its lanes begin at batch 41 of all ranks, after batch 40"),
        ("cursors", [], "'cursors' is not a JSON object whose keys are numbers"),
        ("cursors.first", {}, "whose keys are numbers"),
        ("cursors.01", {}, "whose keys are numbers"),
        ("cursors.8", {}, "lanes [8] are no lanes of rank 0 here"),
        ("cursors.2", [], "lane 2: its cursor is []"),
        ("cursors.2.draws", -3, "lane 2: 'draws' is -3"),
        ("cursors.2.stream", [0, 0], "lane 2: 'stream' is not a JSON object"),
        ("cursors.2.stream.upstream", {"upstream": object()}, "lane 2: 'stream' is not a JSON object"),
        ("cursors.2.stream", {1: 2}, "lane 2: 'stream' is not a JSON object"),
        ("cursors.2.weight_history", [[]], "lane 2: 'weight_history' is [[]]"),
        (
            "cursors.2.weight_history",
            [[[0, 0]], [[0, 0]]],
            "lane 2: 'weight_history' has 2 levels, but the lane's splits need 1",
        ),
        ("cursors.2.turns", -1, "lane 2: 'turns' is -1, expected a count"),
        ("cursors.2.handed_out", -1, "lane 2: 'handed_out' is -1, expected a count"),
        ("cursors.2.bans", [[0, 5]], "lane 2: 'bans' is [[0, 5]]"),
    ],
)
def test_a_damaged_state_says_what_is_wrong_with_it(path: str, value: Any, words: str) -> None:
    message = malformed(changed(path, value))

    assert message.startswith("the state is damaged: ")
    assert words in message


def test_a_state_that_lacks_a_lane_of_its_rank_is_refused() -> None:
    state = a_rank_state(1, 2)
    del state["cursors"]["3"]

    assert malformed(state) == "the state is damaged: lanes [3] of rank 1 are missing"


def test_a_merged_state_that_lacks_a_lane_is_refused() -> None:
    state = merge_states(job())
    del state["cursors"]["6"]

    assert malformed(state) == "the state is damaged: lanes [6] are missing"


def test_a_lane_that_was_cut_has_a_level_of_mixing_for_each_beginning() -> None:
    state = a_rank_state(lanes=2)
    state["lanes"] = [[0, [[9, 2, 0]]], [0, [[9, 2, 1]]]]
    state["cursors"] = {"0": a_cursor(30), "1": a_cursor(10, levels=2)}

    assert check_state(state) is state
    state["cursors"]["1"]["weight_history"] = [[[0, 0]]]
    assert "lane 1: 'weight_history' has 1 levels, but the lane's splits need 2" in malformed(state)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 50), st.integers(0, 50))
def test_the_lanes_of_a_state_are_those_that_the_turns_give_its_rank(world: int, k: int, base: int, after: int) -> None:
    geometry = LaneLayout(base, tuple(Lane(root) for root in range(world * k)))
    for rank in range(world):
        state = {"kind": "rank", "rank": rank, "world": world, "first_batch": base, "batches_drawn": base + after}
        assert set(state_lanes({**state, "lanes": [None] * world * k})) == set(
            rank_turns(geometry, base + after, rank, world).lanes
        )


def test_the_states_of_all_ranks_become_one_whatever_their_order() -> None:
    states = job(4)
    merged = merge_states(states)

    assert merge_states(states[::-1]) == merged
    assert merge_states([merged]) is merged
    assert (merged["kind"], merged["rank"], merged["world"], merged["batches_drawn"]) == ("world", -1, 4, 40)
    assert list(merged["cursors"]) == [str(lane) for lane in range(8)]
    assert list(merged) == list(states[0]), "the keys stay in their order"


def test_the_states_of_a_pass_are_merged_with_the_batches_that_are_half_given() -> None:
    states = [a_pass_state(0, 2), a_pass_state(1, 2, cursors={"9": {"emitted": 1}})]

    assert merge_states(states)["cursors"] == {"9": {"emitted": 1}}


def pass_states(*given: tuple[int, str]) -> list[dict[str, Any]]:
    """Of the ranks of a pass: how many batches each has given, and what its state says of the end."""
    world = len(given)
    return [
        a_pass_state(rank, world, batches_drawn=batches * world, batches_handed_out=batches, end=end)
        for rank, (batches, end) in enumerate(given)
    ]


@pytest.mark.parametrize(
    ("given", "end"),
    [
        ([(3, "open"), (3, "open")], "open"),
        ([(3, "open"), (2, "reached")], "open"),
        ([(3, "open"), (0, "passed")], "open"),
        ([(3, "reached"), (2, "passed")], "passed"),
        ([(3, "passed"), (2, "passed"), (2, "reached")], "passed"),
    ],
)
def test_a_rank_that_has_no_more_of_a_pass_is_at_the_step_of_those_that_have(given: Any, end: str) -> None:
    merged = merge_states(pass_states(*given))

    assert (merged["end"], merged["batches_handed_out"]) == (end, 3)


@pytest.mark.parametrize("given", [[(3, "open"), (2, "open")], [(3, "passed"), (2, "open")]])
def test_a_rank_that_has_more_is_at_no_other_step_than_the_others(given: Any) -> None:
    assert "saved at different steps" in refusal(pass_states(*given)).message


def test_in_a_pass_a_lane_is_always_of_the_same_rank_and_ranks_need_not_divide_the_lanes() -> None:
    state = {
        "kind": "rank",
        "rank": 1,
        "world": 3,
        "first_batch": 0,
        "batches_drawn": 7,
        "pass": 0,
        "lanes": [None] * 8,
    }

    assert list(state_lanes(state)) == [1, 4, 7]
    assert list(state_lanes({**state, "rank": 2})) == [2, 5]


def test_states_of_different_steps_are_refused_with_the_step_of_each_rank() -> None:
    states = [*job(3, drawn=42, lanes=6)[:2], a_rank_state(2, 3, drawn=45, lanes=6)]

    assert "{0: 42, 1: 42, 2: 45}" in refusal(states).message


def test_of_many_ranks_the_steps_are_told_together() -> None:
    states = job(64, lanes=64, drawn=64)
    states[17] = a_rank_state(17, 64, lanes=64, drawn=128)

    assert "step 64: ranks 0, 1, 2, 3, 4, 5, 6, 7 and 55 more; step 128: ranks 17" in refusal(states).message


def test_missing_ranks_are_named() -> None:
    assert "ranks [1] are missing: the job had 4" in refusal([*job(4)[:1], *job(4)[2:]]).message
    assert "ranks [0, 2, 3] are missing" in refusal(job(4)[1:2]).message
    assert missing_ranks(job(4)[1:2]) == [0, 2, 3]
    assert missing_ranks([merge_states(job(4))]) == missing_ranks([]) == []


def test_ranks_that_come_twice_are_named() -> None:
    assert "ranks [1] are duplicated: the job had 4" in refusal([*job(4), job(4)[1]]).message


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("order", {**a_rank_state()["plan"]["order"], "seed": 1}, "seed: 7 on rank 0, 1 on rank 2"),
        ("recipe", "0" * 32, f"recipe: 37a38053740e2180a2a425ad794af5d3 on rank 0, {'0' * 32} on rank 2"),
        ("stages", ["pack"], "stages: 2 on rank 0, 1 on rank 2"),
    ],
)
def test_states_of_other_plans_are_refused_with_what_differs(field: str, value: Any, words: str) -> None:
    states = job(4)
    states[2]["plan"][field] = value

    assert f"ranks 0 and 2 have different plans: {words}" in refusal(states).message


@pytest.mark.parametrize(("field", "value"), [("generations", [1, 4]), ("first_batch", 36), ("bans", [["key"]])])
def test_what_all_ranks_have_alike_is_alike(field: str, value: Any) -> None:
    states = job(4)
    states[3][field] = value

    assert refusal(states).message == f"ranks 0 and 3 differ in '{field}'"


def test_states_of_other_worlds_are_refused() -> None:
    assert "ranks 0 and 1 differ in 'world': 4 and 2 ranks" in refusal([job(4)[0], job(2)[1]]).message


def test_a_merged_state_stands_alone() -> None:
    assert "is a merged state, which already has all ranks" in refusal([merge_states(job(4)), job(4)[0]]).message


def test_no_states_are_refused() -> None:
    assert "no states" in refusal([]).message


def test_equal_things_do_not_differ() -> None:
    assert describe_differences({"seed": 0}, {"seed": 0}) == []


def test_a_key_that_only_one_has_differs_though_it_is_null() -> None:
    assert describe_differences({"seed": None}, {}) == ["seed: None in the state, absent here"]


def test_of_long_lists_the_first_difference_is_told() -> None:
    one, other = ["a"] * 1000, [*["a"] * 3, "b", *["a"] * 995, "c"]

    assert describe_differences({"sources": one}, {"sources": other}) == [
        "sources: 2 of 1000 differ, first number 3: a in the state, b here"
    ]
    assert describe_differences({"sources": one}, {"sources": one[1:]}) == ["sources: 1000 in the state, 999 here"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_a_copy_is_equal_and_shares_nothing(value: Any) -> None:
    copy_of = copy_json(value)

    assert json.dumps(copy_of) == json.dumps(value)
    assert not _containers(value) & _containers(copy_of)


def _containers(value: Any) -> set[int]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = {id(value)} if isinstance(value, dict | list) else set()
    return own.union(*map(_containers, inner))
