from __future__ import annotations

import json

import pytest

from tests.core.job_states import a_pass_state, a_rank_state, job
from wdsctl.core.checkpoint.state import check_state, merge_states
from wdsctl.core.checkpoint.summary import LaneDifference, compare_states, summarize_state
from wdsctl.core.errors import StateMismatch


def test_summary_of_merged_state_covers_all_lanes() -> None:
    facts = summarize_state(merge_states(job(4)))

    assert (facts.rank, facts.world, facts.step, facts.lanes, facts.roots, facts.sources) == (-1, 4, 40, 8, 8, 3)
    assert facts.draws == sum(160 + lane for lane in range(8))
    assert facts.epochs is None, "a blend has shares of its own"


def test_pending_samples_are_counted_in_packs_and_groups() -> None:
    assert summarize_state(check_state(a_rank_state())).pending == 8 * 2 * 2, "8 lanes with 2 packs of 2 samples each"


def test_damaged_pending_addresses_are_refused_with_lane() -> None:
    state = a_rank_state()
    state["cursors"]["3"]["stream"]["upstream"]["waiting"] += "g"

    with pytest.raises(StateMismatch, match="lane 3: ") as raised:
        summarize_state(check_state(state))

    assert raised.value.code == "WDS502"


def test_epochs_are_reported_for_single_source() -> None:
    state = a_rank_state()
    state["plan"]["order"]["sources"] = ["0a0a0a0a"]

    assert summarize_state(check_state(state)).epochs == sum(160 + lane for lane in range(8)) / 1000


def test_size_is_that_of_json_and_budget_follows_formula() -> None:
    facts = summarize_state(check_state(a_rank_state()))

    assert facts.size_bytes == len(json.dumps(check_state(a_rank_state()), separators=(",", ":")))
    assert facts.budget_bytes == 1024 + 8 * 256 + 3 * 16 + 32 * 8


def test_pass_without_lanes_has_summary() -> None:
    facts = summarize_state(check_state(a_pass_state(cursors={"9": {"emitted": 1}})))

    assert (facts.pass_number, facts.lanes, facts.draws, facts.epochs) == (0, 0, 0, None)


def test_equal_states_do_not_differ() -> None:
    assert compare_states(check_state(a_rank_state()), check_state(a_rank_state())).is_empty


def test_differences_are_grouped_by_tier() -> None:
    other = a_rank_state(batches_handed_out=9, bans=[["key"]])
    other["plan"]["order"]["seed"] = 8
    other["plan"]["recipe"] = "f" * 32

    difference = compare_states(check_state(a_rank_state()), check_state(other))

    assert difference.order == ("seed: 7 in the first, 8 in the second",)
    assert difference.recipe == (f"recipe: 37a38053740e2180a2a425ad794af5d3 in the first, {'f' * 32} in the second",)
    assert difference.place == ("batches_handed_out: 5 in the first, 9 in the second",)
    assert len(difference.bans) == 1
    assert (difference.steps, difference.lanes) == (0, ())


def test_advanced_lanes_are_reported() -> None:
    later = a_rank_state(drawn=41)
    later["cursors"] = {**a_rank_state()["cursors"], "0": later["cursors"]["0"]}

    difference = compare_states(check_state(a_rank_state()), check_state(later))

    assert difference.steps == 1
    assert difference.lanes == (LaneDifference(lane=0, draws=160, other=164),)


def test_lanes_of_different_layouts_are_not_compared() -> None:
    difference = compare_states(check_state(a_rank_state()), check_state(a_rank_state(lanes=16)))

    assert difference.place == (
        "lanes: 8 in the first, 16 in the second",
        "origins: 8 in the first, 16 in the second",
    )
    assert difference.lanes == ()
