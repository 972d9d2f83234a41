"""The state of one rank, made and taken back. Its form, and how states are merged, are `wdsctl.core.job_state`'s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from wdsctl.core.errors import StateMismatch
from wdsctl.core.job_state import OPEN, PASSED, REACHED, VERSION, check_form, copied, merge_states
from wdsctl.core.state_form import State
from wdsctl.loader.worker_config import WorkerConfig

__all__ = [
    "PASSED",
    "VERSION",
    "RunKind",
    "State",
    "check_form",
    "end_of_pass",
    "for_rank",
    "merge_states",
    "rank_state",
]

RunKind = Literal["training", "validation"]


def rank_state(
    workers: WorkerConfig,
    plan: State,
    generations: Sequence[int],
    *,
    drawn: int,
    passes: int | None,
    virtual: int,
    end: str,
    base: int,
    lanes: Sequence[Any],
    cursors: Mapping[int, State],
    bans: Sequence[Any],
) -> State:
    """The state of one rank. Made of copies: what the caller does with it is no business of ours.

    `lanes`: [root, [[picks, children, child], ...]] of every lane of the job. `cursors`: of the rank's own lanes.
    """
    return {
        "version": VERSION,
        "kind": "rank",
        "rank": workers.rank,
        "world": workers.world_size,
        "plan": copied(plan),
        "generation": list(generations),
        "drawn": drawn,
        "pass": passes,
        "virtual": virtual,
        "end": end,
        "base": base,
        "lanes": copied(lanes),
        "cursors": {str(number): copied(cursor) for number, cursor in cursors.items()},
        "bans": copied(bans),
    }


def end_of_pass(*, is_over: bool, has_more: bool) -> str:
    """What a state says of the end of its pass: see `wdsctl.core.job_state`."""
    if is_over:
        return PASSED
    return OPEN if has_more else REACHED


def for_rank(state: State | Sequence[State], rank: int, world: int, run: RunKind) -> State:
    """The state that a rank resumes from: its own, where the world is as large as it was, else that of the world."""
    if isinstance(state, (list, tuple)):
        given, state = state, merge_states(state)
        # Where the ranks are those that saved it, each goes on at its own place, in the pass that the world is in.
        own = [each for each in given if (each["rank"], each["world"]) == (rank, world)]
        state = {**state, "drawn": own[0]["drawn"], "virtual": own[0]["virtual"]} if own else state
    state = check_form(state)
    if state["kind"] == "rank" and state["world"] == 1 and world > 1:
        state = merge_states([state])  # the one rank that there was: all of them
    if (state["pass"] is None) != (run == "training"):
        was = "training" if state["pass"] is None else "validation"
        raise StateMismatch(
            f"this is the state of a {was}, and this is a {run}",
            hint=f"give it to the loader of the {was}",
        )
    if state["kind"] == "rank" and (state["rank"], state["world"]) != (rank, world):
        raise StateMismatch(
            f"this is the state of rank {state['rank']} of {state['world']}, and this is rank {rank} of {world}: "
            "give the states of all ranks",
            hint="save_state_global(None) gives them; a framework that keeps one state for all ranks is to keep that",
            code="WDS502",
        )
    return state
