"""The state of a job: saved by each rank for the lanes it ran, merged for any other number of ranks.

A state is JSON: `version`, `kind` ("rank" or "world"), `rank`, `world`, `plan`, `generation`, `drawn` (batches that the
world has drawn), `base` and `lanes` (the geometry), `cursors` (a lane's number -> where it stands), `pass` (finite
passes only).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wdsctl.core.errors import StateMismatch
from wdsctl.loader.plan import differences

VERSION = 1

State = dict[str, Any]


def merge_states(states: Sequence[State]) -> State:
    """The state of the whole job from the states of all its ranks, saved at the same step; any ranks resume from it.

    Raises StateMismatch WDS502, naming the ranks, where steps differ or lanes are missing.
    """
    if not states:
        raise _misfit("there are no states to merge")
    for state in states:
        check_version(state)
    first = states[0]
    if len(states) == 1 and first["kind"] == "world":
        return first
    for state in states[1:]:
        for key in ("kind", "world", "generation", "base", "lanes", "pass"):
            if state[key] != first[key]:
                raise _misfit(f"ranks {first['rank']} and {state['rank']} differ in {key!r}")
        lines = differences(first["plan"]["order"], state["plan"]["order"])
        if lines:
            raise _misfit(f"ranks {first['rank']} and {state['rank']} have different plans: {'; '.join(lines)}")
    ranks = sorted(state["rank"] for state in states)
    if ranks != list(range(first["world"])):
        missing = sorted(set(range(first["world"])) - set(ranks))
        words = f"ranks {missing} are missing" if missing else f"some ranks come twice: {ranks}"
        raise _misfit(f"{words}: the job had {first['world']}")
    steps = {state["rank"]: state["drawn"] for state in states}
    if len(set(steps.values())) > 1:
        raise _misfit(f"the ranks were saved at different steps (rank: batches of the world): {steps}")
    cursors = {lane: cursor for state in states for lane, cursor in state["cursors"].items()}
    return {**first, "kind": "world", "rank": -1, "cursors": dict(sorted(cursors.items(), key=_number))}


def for_rank(state: State | Sequence[State], rank: int, world: int) -> State:
    """The state that a rank resumes from: its own, where the world is as large as it was, else that of the world."""
    if not isinstance(state, dict):
        state = merge_states(state)
    check_version(state)
    if state["kind"] == "rank" and (state["rank"], state["world"]) != (rank, world):
        raise _misfit(
            f"this is the state of rank {state['rank']} of {state['world']}, and this is rank {rank} of {world}: "
            "give the states of all ranks"
        )
    return state


def check_version(state: State) -> None:
    version = state.get("version")
    if version != VERSION:
        raise StateMismatch(
            f"the state has version {version}, this wdsctl reads version {VERSION}"
            if version is not None
            else "this is no state of a wdsctl loader",
            hint="give what save_state_rank() or state_dict() returned",
            code="WDS502",
        )


def _number(item: tuple[str, State]) -> int:
    return int(item[0])


def _misfit(words: str) -> StateMismatch:
    return StateMismatch(words, hint="give the states of all ranks, saved at the same step", code="WDS502")
