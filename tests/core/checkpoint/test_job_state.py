"""check_state accepts only complete states; merge_states accepts only states of one job at one step."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.job_states import a_cursor, a_pass_state, a_rank_state, job
from wdsctl.core.checkpoint.digests import add_digests
from wdsctl.core.checkpoint.state import (
    STATE_FIELDS,
    check_state,
    copy_json,
    describe_differences,
    is_part_of,
    merge_states,
    missing_ranks,
    state_lanes,
)
from wdsctl.core.errors import StateMismatch
from wdsctl.loader.lanes.rank_lanes import Lane, LaneLayout, rank_turns


def get_merge_error(states: Any) -> StateMismatch:
    before = copy.deepcopy(states)
    with pytest.raises(StateMismatch) as raised:
        merge_states(states)
    assert raised.value.code == "WDS502"
    assert raised.value.hint
    assert states == before, "what is refused is left as it was"
    return raised.value


def get_check_error(state: Any) -> str:
    with pytest.raises(StateMismatch) as raised:
        check_state(state)
    assert raised.value.code == "WDS502"
    return raised.value.message


def state_with(path: str, value: Any) -> dict[str, Any]:
    """A state with one changed value; the path looks like `cursors.0.draws`."""
    state: dict[str, Any] = a_rank_state()
    parent: Any = state
    *inner, last_key = path.split(".")
    for key in inner:
        parent = parent[int(key) if isinstance(parent, list) else key]
    parent[int(last_key) if isinstance(parent, list) else last_key] = value
    return state


def test_check_state_returns_same_object_or_form_of_version_2() -> None:
    state = add_digests({**check_state(a_rank_state()), "version": 2})
    for each in (state, merge_states([a_pass_state()]), merge_states(job())):
        assert check_state(each) is each
    assert check_state(a_rank_state())["lanes"] == 8


def test_check_state_makes_few_calls() -> None:
    """States are checked whenever one is saved or loaded, so the check must take about 40 µs, not milliseconds."""
    state, calls = a_rank_state(), list[str]()
    before = sys.getprofile()
    sys.setprofile(lambda _frame, what, _argument: calls.append(what))
    try:
        check_state(state)
    finally:
        sys.setprofile(before)
    assert sum(what in {"call", "c_call"} for what in calls) < 600


@pytest.mark.parametrize("state", [{}, None, 7, "state.json", [None], [{}], {"epoch": 3}, {"version": "1"}])
def test_value_that_is_no_state_is_refused(state: Any) -> None:
    assert get_check_error(state) == "not a state of a wdsctl loader"


def test_state_of_newer_version_is_refused() -> None:
    assert "saved by a newer wdsctl: it has version 3, this one reads version 2" in get_check_error({"version": 3})


@pytest.mark.parametrize("field", STATE_FIELDS)
def test_truncated_state_names_missing_field(field: str) -> None:
    state = a_rank_state()
    del state[field]

    assert get_check_error(state) == f"the state is truncated: it lacks {field}"


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
def test_damaged_state_error_describes_damage(path: str, value: Any, words: str) -> None:
    message = get_check_error(state_with(path, value))

    assert message.startswith("the state is damaged: ")
    assert words in message


def test_rank_state_without_one_of_its_lanes_is_refused() -> None:
    state = a_rank_state(1, 2)
    del state["cursors"]["3"]

    assert get_check_error(state) == "the state is damaged: lanes [3] of rank 1 are missing"


def test_merged_state_without_one_lane_is_refused() -> None:
    state = merge_states(job())
    del state["cursors"]["6"]

    assert get_check_error(state) == "the state is damaged: lanes [6] are missing"


def test_split_lane_has_one_weight_history_per_level() -> None:
    state = a_rank_state(lanes=2)
    state["lanes"] = [[0, [[9, 2, 0]]], [0, [[9, 2, 1]]]]
    state["cursors"] = {"0": a_cursor(30), "1": a_cursor(10, levels=2)}

    assert check_state(state)["cursors"]["1"]["origin"] == [0, [[9, 2, 1]]]
    state["cursors"]["1"]["weight_history"] = [[[0, 0]]]
    assert "lane 1: 'weight_history' has 1 levels, but the lane's splits need 2" in get_check_error(state)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 50), st.integers(0, 50))
def test_state_lanes_match_rank_turns(world: int, k: int, base: int, after: int) -> None:
    layout = LaneLayout(base, tuple(Lane(root) for root in range(world * k)))
    for rank in range(world):
        state = {"kind": "rank", "rank": rank, "world": world, "first_batch": base, "batches_drawn": base + after}
        assert set(state_lanes({**state, "lanes": world * k})) == set(
            rank_turns(layout, base + after, rank, world).lanes
        )


def test_merge_states_ignores_order_of_ranks() -> None:
    states = job(4)
    merged = merge_states(states)

    assert merge_states(states[::-1]) == merged
    assert merge_states([merged]) is merged
    assert (merged["kind"], merged["rank"], merged["world"], merged["batches_drawn"]) == ("world", -1, 4, 40)
    assert list(merged["cursors"]) == [str(lane) for lane in range(8)]
    assert list(merged) == [*states[0], "digests", "checksum"], "the keys stay in their order"


def test_merge_states_combines_partial_batches_of_pass() -> None:
    states = [a_pass_state(0, 2), a_pass_state(1, 2, cursors={"9": {"emitted": 1}})]

    assert merge_states(states)["cursors"] == {"9": {"emitted": 1}}


def pass_states(*given: tuple[int, str]) -> list[dict[str, Any]]:
    """States of the ranks of a pass: for each rank the number of batches handed out, and the value of `end`."""
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
def test_finished_rank_of_pass_matches_step_of_others(given: Any, end: str) -> None:
    merged = merge_states(pass_states(*given))

    assert (merged["end"], merged["batches_handed_out"]) == (end, 3)


@pytest.mark.parametrize("given", [[(3, "open"), (2, "open")], [(3, "passed"), (2, "open")]])
def test_unfinished_rank_of_pass_at_other_step_is_refused(given: Any) -> None:
    assert "saved at different steps" in get_merge_error(pass_states(*given)).message


def test_pass_lanes_stay_with_rank_if_ranks_do_not_divide_lanes() -> None:
    state = {
        "kind": "rank",
        "rank": 1,
        "world": 3,
        "first_batch": 0,
        "batches_drawn": 7,
        "pass": 0,
        "lanes": 8,
    }

    assert list(state_lanes(state)) == [1, 4, 7]
    assert list(state_lanes({**state, "rank": 2})) == [2, 5]


def test_states_of_different_steps_are_refused_with_step_per_rank() -> None:
    states = [*job(3, drawn=42, lanes=6)[:2], a_rank_state(2, 3, drawn=45, lanes=6)]

    assert "{0: 42, 1: 42, 2: 45}" in get_merge_error(states).message


def test_steps_of_many_ranks_are_summarized() -> None:
    states = job(64, lanes=64, drawn=64)
    states[17] = a_rank_state(17, 64, lanes=64, drawn=128)

    assert "step 64: ranks 0, 1, 2, 3, 4, 5, 6, 7 and 55 more; step 128: ranks 17" in get_merge_error(states).message


def test_missing_ranks_are_named() -> None:
    assert "ranks [1] are missing: the job had 4" in get_merge_error([*job(4)[:1], *job(4)[2:]]).message
    assert "ranks [0, 2, 3] are missing" in get_merge_error(job(4)[1:2]).message
    assert missing_ranks(job(4)[1:2]) == [0, 2, 3]
    assert missing_ranks([merge_states(job(4))]) == missing_ranks([]) == []


def test_duplicate_ranks_are_named() -> None:
    assert "ranks [1] are duplicated: the job had 4" in get_merge_error([*job(4), job(4)[1]]).message


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("order", {**a_rank_state()["plan"]["order"], "seed": 1}, "seed: 7 on rank 0, 1 on rank 2"),
        ("recipe", "0" * 32, f"recipe: 37a38053740e2180a2a425ad794af5d3 on rank 0, {'0' * 32} on rank 2"),
        ("stages", ["pack"], "stages: 2 on rank 0, 1 on rank 2"),
    ],
)
def test_states_of_different_plans_are_refused_with_difference(field: str, value: Any, words: str) -> None:
    states = job(4)
    states[2]["plan"][field] = value

    assert f"ranks 0 and 2 have different plans: {words}" in get_merge_error(states).message


@pytest.mark.parametrize(("field", "value"), [("first_batch", 36), ("bans", [["key"]])])
def test_fields_shared_by_all_ranks_must_be_equal(field: str, value: Any) -> None:
    states = job(4)
    states[3][field] = value

    assert get_merge_error(states).message == f"ranks 0 and 3 differ in '{field}'"


def test_merged_state_has_newest_generation_of_each_dataset() -> None:
    states = job(4)
    for state, generations in zip(states, ([1, 4], [3, 2], [2, 2], [1, 1]), strict=True):
        state["generations"] = generations

    merged = merge_states(states)

    assert merged["generations"] == [3, 4]
    assert all(is_part_of(check_state(state), merged) for state in states)


def test_states_of_different_numbers_of_datasets_are_refused() -> None:
    states = job(4)
    states[3]["generations"] = [1]

    assert "ranks 0 and 3 differ in 'generations': 2 and 1 datasets" in get_merge_error(states).message


def test_states_of_different_world_sizes_are_refused() -> None:
    assert "ranks 0 and 1 differ in 'world': 4 and 2 ranks" in get_merge_error([job(4)[0], job(2)[1]]).message


def test_merged_state_cannot_be_merged_with_others() -> None:
    assert (
        "is a merged state, which already has all ranks" in get_merge_error([merge_states(job(4)), job(4)[0]]).message
    )


def test_empty_list_of_states_is_refused() -> None:
    assert "no states" in get_merge_error([]).message


def test_describe_differences_of_equal_values_is_empty() -> None:
    assert describe_differences({"seed": 0}, {"seed": 0}) == []


def test_describe_differences_reports_null_against_absent_key() -> None:
    assert describe_differences({"seed": None}, {}) == ["seed: None in the state, absent here"]


def test_describe_differences_of_long_lists_names_first_difference() -> None:
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
def test_copy_json_is_equal_and_shares_no_containers(value: Any) -> None:
    copy_of = copy_json(value)

    assert json.dumps(copy_of) == json.dumps(value)
    assert not _containers(value) & _containers(copy_of)


def _containers(value: Any) -> set[int]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = {id(value)} if isinstance(value, dict | list) else set()
    return own.union(*map(_containers, inner))
