"""A state has digests of its plan and its position, and a checksum of both; any change after a save is found."""

from __future__ import annotations

import json

import pytest

from tests.core.job_states import a_rank_state, job
from wdsctl.core.checkpoint.digests import add_digests, find_digest_error, seal_state
from wdsctl.core.checkpoint.state import check_state, merge_states
from wdsctl.core.errors import StateMismatch

SEALED = seal_state({**check_state(a_rank_state()), "version": 2})


def test_sealed_state_is_a_copy_with_digests() -> None:
    fields = {name: SEALED[name] for name in SEALED if name not in {"digests", "checksum"}}
    assert add_digests(fields) == SEALED
    sealed = seal_state(fields)
    sealed["cursors"]["0"]["draws"] = sealed["plan"]["order"]["seed"] = 99
    assert add_digests(fields) == SEALED, "a caller may change what it got"


def test_digests_do_not_depend_on_order_of_keys() -> None:
    assert find_digest_error(json.loads(json.dumps(SEALED, sort_keys=True))) == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"batches_drawn": 41}, "its position has changed since the state was saved"),
        ({"unknown": 1}, "its position has changed"),
        ({"plan": {**SEALED["plan"], "recipe": "0" * 32}}, "its plan has changed since the state was saved"),
        ({"checksum": "0" * 16}, "its checksum is wrong"),
        ({"digests": 7}, "'digests' is not a JSON object"),
        ({"unknown": object()}, "a value in it is not JSON"),
    ],
)
def test_changed_state_is_refused_with_the_changed_part(change: dict[str, object], words: str) -> None:
    with pytest.raises(StateMismatch, match=words) as raised:
        check_state({**SEALED, **change})
    assert raised.value.code == "WDS502"


def test_state_of_version_2_needs_its_checksum() -> None:
    with pytest.raises(StateMismatch, match="is truncated: it lacks checksum"):
        check_state({name: SEALED[name] for name in SEALED if name != "checksum"})


def test_merge_refuses_a_changed_state_of_one_rank() -> None:
    states = [add_digests({**check_state(state), "version": 2}) for state in job(4)]
    merge_states(states)
    with pytest.raises(StateMismatch, match="its position has changed"):
        merge_states([*states[:3], {**states[3], "generations": [2, 3]}])


def test_merged_state_of_versions_1_and_2_has_digests_of_its_own() -> None:
    one, two = job(2)
    merged = merge_states([one, add_digests({**check_state(two), "version": 2})])
    assert (merged["version"], find_digest_error(merged)) == (2, "")


def test_size_of_a_rank_does_not_grow_with_ranks() -> None:
    def size(ranks: int) -> int:
        state = check_state(a_rank_state(0, ranks, lanes=8 * ranks, drawn=40 * ranks))
        return len(json.dumps(state))

    assert size(1000) < 1.05 * size(10)
