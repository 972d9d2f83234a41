"""The state of a job: saved by each rank for the lanes it ran, merged for any other number of ranks.

A state is JSON: `version`, `kind` ("rank" or "world"), `rank`, `world`, `plan`, `generation`, `drawn` (batches that the
world has drawn), `base` and `lanes` (the geometry), `cursors` (a lane's number -> where it stands), `pass` (None). In
finite passes there are no lanes, `pass` counts them, and `cursors` has batches that are not drawn to their end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal

from wdsctl.core.errors import StateMismatch
from wdsctl.loader.order.geometry import Geometry
from wdsctl.loader.plan import differences
from wdsctl.loader.worker_config import WorkerConfig

VERSION = 1

State = dict[str, Any]
RunKind = Literal["training", "validation"]

_FIELDS = frozenset({"kind", "rank", "world", "plan", "generation", "drawn", "base", "lanes", "cursors", "pass"})


def rank_state(
    workers: WorkerConfig,
    plan: State,
    generation: int,
    *,
    drawn: int,
    passes: int | None,
    geometry: Geometry,
    cursors: Mapping[int, State],
) -> State:
    """The state of one rank. Made of copies: what the caller does with it is no business of ours."""
    return {
        "version": VERSION,
        "kind": "rank",
        "rank": workers.rank,
        "world": workers.world_size,
        "plan": deepcopy(plan),
        "generation": generation,
        "drawn": drawn,
        "pass": passes,
        "base": geometry.base,
        "lanes": [[lane.root, lane.first, lane.stride] for lane in geometry.lanes],
        "cursors": {str(number): deepcopy(cursor) for number, cursor in cursors.items()},
    }


def merge_states(states: Sequence[State]) -> State:
    """The state of the whole job from the states of all its ranks, saved at the same step; any ranks resume from it.

    Raises StateMismatch WDS502, naming the ranks, where steps differ or lanes are missing.
    """
    if not states:
        raise _misfit("there are no states to merge")
    for state in states:
        check_form(state)
    first = states[0]
    if len(states) == 1 and first["kind"] == "world":
        return first
    if any(state["kind"] == "world" for state in states):
        raise _misfit("a merged state is among them: it has all ranks already")
    for state in states[1:]:
        for key in ("world", "generation", "base", "lanes", "pass"):
            if state[key] != first[key]:
                raise _misfit(f"ranks {first['rank']} and {state['rank']} differ in {key!r}")
        places = f"on rank {first['rank']}", f"on rank {state['rank']}"
        lines = differences(first["plan"]["order"], state["plan"]["order"], places)
        if lines:
            raise _misfit(f"ranks {first['rank']} and {state['rank']} have different plans: {'; '.join(lines)}")
    ranks = sorted(state["rank"] for state in states)
    if ranks != list(range(first["world"])):
        missing = sorted(set(range(first["world"])) - set(ranks))
        words = f"ranks {missing} are missing" if missing else f"some ranks come twice: {ranks}"
        raise _misfit(f"{words}: the job had {first['world']}")
    steps = {state["rank"]: state["drawn"] for state in sorted(states, key=lambda state: state["rank"])}
    if len(set(steps.values())) > 1:
        raise _misfit(f"the ranks were saved at different steps (rank: batches of the world): {steps}")
    cursors = {lane: cursor for state in states for lane, cursor in state["cursors"].items()}
    return {**first, "kind": "world", "rank": -1, "cursors": dict(sorted(cursors.items(), key=_number))}


def for_rank(state: State | Sequence[State], rank: int, world: int, run: RunKind) -> State:
    """The state that a rank resumes from: its own, where the world is as large as it was, else that of the world."""
    if isinstance(state, (list, tuple)):
        state = merge_states(state)
    state = check_form(state)
    if (state["pass"] is None) != (run == "training"):
        was = "training" if state["pass"] is None else "validation"
        raise StateMismatch(
            f"this is the state of a {was}, and this is a {run}",
            hint=f"give it to the loader of the {was}",
        )
    if state["kind"] == "rank" and (state["rank"], state["world"]) != (rank, world):
        raise _misfit(
            f"this is the state of rank {state['rank']} of {state['world']}, and this is rank {rank} of {world}: "
            "give the states of all ranks"
        )
    return state


def check_form(state: Any) -> State:
    """The state, if it is one. Raises StateMismatch WDS502."""
    version = state.get("version") if isinstance(state, dict) else None
    if version is not None and version != VERSION:
        words = f"the state has version {version}, this wdsctl reads version {VERSION}"
    elif version is None or not state.keys() >= _FIELDS:
        words = "this is no state of a wdsctl loader"
    else:
        found: State = state
        return found
    raise StateMismatch(words, hint="give what save_state_rank() or state_dict() returned", code="WDS502")


def _number(item: tuple[str, State]) -> int:
    return int(item[0])


def _misfit(words: str) -> StateMismatch:
    return StateMismatch(words, hint="give the states of all ranks, saved at the same step", code="WDS502")
