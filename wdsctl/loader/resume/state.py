"""The state of one rank, built and read back. `wdsctl.core.checkpoint.state` defines its fields and merges states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from wdsctl.core.checkpoint.digests import seal_state
from wdsctl.core.checkpoint.state import (
    END_OPEN,
    END_PASSED,
    END_REACHED,
    STATE_VERSION,
    LoaderState,
    check_state,
    merge_states,
)
from wdsctl.core.errors import StateMismatch
from wdsctl.loader.recipe.worker_config import WorkerConfig

__all__ = [
    "END_PASSED",
    "STATE_VERSION",
    "LoaderState",
    "StreamKind",
    "build_rank_state",
    "check_state",
    "failures_of_rank",
    "merge_states",
    "pass_end_status",
    "state_for_rank",
]

StreamKind = Literal["training", "validation"]


def build_rank_state(
    workers: WorkerConfig,
    plan: LoaderState,
    generations: Sequence[int],
    *,
    batches_drawn: int,
    pass_number: int | None,
    batches_handed_out: int,
    end: str,
    first_batch: int,
    lanes: int,
    lane_states: Mapping[int, LoaderState],
    bans: Sequence[Any],
    failures: Mapping[str, Any] | None,
) -> LoaderState:
    """The state of one rank, made of copies, so that callers may change what they get.

    `lanes`: the number of lanes of the job. `lane_states`: of the rank's own lanes, with their origins.
    """
    return seal_state(
        {
            "version": STATE_VERSION,
            "kind": "rank",
            "rank": workers.rank,
            "world": workers.world_size,
            "plan": plan,
            "generations": generations,
            "batches_drawn": batches_drawn,
            "pass": pass_number,
            "batches_handed_out": batches_handed_out,
            "end": end,
            "first_batch": first_batch,
            "lanes": lanes,
            "cursors": {str(number): cursor for number, cursor in lane_states.items()},
            "bans": bans,
            **({} if failures is None else {"failures": failures}),
        }
    )


def failures_of_rank(state: LoaderState, rank: int) -> Mapping[str, Any]:
    """The attempts and failures with which a rank continues; on another number of ranks, those of an earlier rank."""
    failures = state.get("failures") or {}
    return (failures[rank % len(failures)] or {}) if isinstance(failures, list) else failures


def pass_end_status(*, is_over: bool, has_more: bool) -> str:
    """The field `end` of a state: see `wdsctl.core.checkpoint.state`."""
    if is_over:
        return END_PASSED
    return END_OPEN if has_more else END_REACHED


def state_for_rank(
    state: LoaderState | Sequence[LoaderState], rank: int, world: int, stream_kind: StreamKind
) -> LoaderState:
    """The state from which a rank resumes: its own if the world size is unchanged, otherwise the merged state."""
    if isinstance(state, (list, tuple)):
        states, state = [check_state(each) for each in state], merge_states(state)
        # If the world size is unchanged, each rank continues at its own position in the pass of the world.
        own = [each for each in states if (each["rank"], each["world"]) == (rank, world)]
        if own:
            state = {**state, **{key: own[0][key] for key in ("batches_drawn", "batches_handed_out")}}
    else:
        state = check_state(state)
    if state["kind"] == "rank" and state["world"] == 1 and world > 1:
        state = merge_states([state])  # the state of the only rank is that of the whole job
    if (state["pass"] is None) != (stream_kind == "training"):
        finite = "validation or a training with repeat=False"
        was, here = ("training", finite) if state["pass"] is None else (finite, "training")
        raise StateMismatch(
            f"the state was saved by a {was}, but this loader is a {here}",
            hint="pass the state to a loader with the same arguments, also the same `repeat`",
        )
    if state["kind"] == "rank" and (state["rank"], state["world"]) != (rank, world):
        raise StateMismatch(
            f"the state belongs to rank {state['rank']} of {state['world']}, but this is rank {rank} of {world}: "
            "pass the states of all ranks",
            hint="save_state_global(None) returns them; store that value if a framework keeps one state for all ranks",
            code="WDS502",
        )
    return state
