"""The state of a job, as JSON: saved by each rank for the lanes it runs, merged for any other number of ranks.

    version     2
    kind        "rank", or "world" once the states of all ranks are merged
    rank        0 to world - 1; -1 of a merged state
    world       how many ranks saved it
    plan        {"order": facts that are compared one by one, "recipe": a digest, "shape": the stages that have states,
                some with what their states depend on, as in "pack:12"}; with auxiliary stores, "aux": a digest by name
    generation  [int, ...]: of each dataset of the blend that was ever read, in the order in which they came in
    drawn       batches that the world has drawn, in this pass where there are passes
    pass        which pass of a finite run, from 0; null in a training without end
    virtual     batches that a rank has given in its present virtual epoch or pass; the most of any in a merged state
    end         of a pass: "open" while the rank may have more batches of it, "reached" once it has none, "passed" once
                its loop over the pass has ended, so that the next one begins the next pass; "open" where there are none
    base        `drawn` when the geometry began
    lanes       the geometry: [root, [[picks, children, child], ...]] of every lane of the job; empty where a pass is
                cut into runs of positions
    cursors     lane -> {"picks", "stream", "mix", "bans"}: where it stands; in a pass also "turns", how many it has
                had. Without lanes: batch -> how much left
    bans        [[key | [source, id], ...], ...]: what is left out, as it was given

A rank has the cursors of the lanes that are its own, a merged state those of all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from wdsctl.core.errors import StateMismatch
from wdsctl.core.state_form import State, wrong_with

VERSION = 2

FIELDS = (
    "kind",
    "rank",
    "world",
    "plan",
    "generation",
    "drawn",
    "pass",
    "virtual",
    "base",
    "lanes",
    "cursors",
    "bans",
)
OPEN, REACHED, PASSED = "open", "reached", "passed"
SHARED = ("world", "generation", "pass", "base", "lanes", "bans")  # what all ranks of a job have alike
SAVED_BY = "give what save_state_rank() or state_dict() returned"

ALL_GIVEN = {"given": 1 << 31, "bans": 0}  # of a run that a rank has drawn to its end

MOST_APART = 1_000_000  # rounds that ranks of one step may be apart: each is written down when they are merged

_NAMED = 8  # ranks, lanes or fields that a message lists


def check_form(state: Any) -> State:
    """The state, if it is one and is whole. Some 40 µs with 8 lanes. Raises StateMismatch WDS502.

    What the stages keep in `stream` is looked at as JSON: its form is the stages' own, and addresses of what waits in
    them are read (`wdsctl.core.addresses`) when the lane is opened.
    """
    if not isinstance(state, dict) or type(state.get("version")) is not int:
        raise _no_state("this is no state of a wdsctl loader", SAVED_BY)
    version = state["version"]
    if version > VERSION:
        words = f"the state was saved by a newer wdsctl: it has version {version}, this one reads version {VERSION}"
        raise _no_state(words, "update wdsctl: pip install -U wdsctl")
    if version < VERSION:
        words = f"the state has version {version}, whose order is another one; this wdsctl reads version {VERSION}"
        raise _no_state(words, "finish that run with the wdsctl that began it, or begin a new one")
    missing = [field for field in FIELDS if field not in state]
    if missing:
        raise _no_state(f"the state is truncated: it lacks {listed(missing)}", SAVED_BY)
    wrong = wrong_with(state)
    if wrong:
        raise _no_state(f"the state is damaged: {wrong}", f"{SAVED_BY} on this rank, unmixed with other ranks' states")
    return state


def merge_states(states: Sequence[State]) -> State:
    """The state of the whole job from the states of all its ranks, saved at the same step; any ranks resume from it.

    In a pass, hooks may leave out all of a batch or make several of one: ranks that have given equally many are at one
    step, however many were drawn for them. So are ranks that have no more, whatever the others have given since. Once
    no rank has any more, the pass is over. Raises StateMismatch WDS502, naming the ranks, where steps or plans differ
    or ranks or lanes are missing or double.
    """
    if not states:
        raise _misfit("there are no states to merge")
    for state in states:
        check_form(state)
    ordered = sorted(states, key=lambda state: int(state["rank"]))
    first = ordered[0]
    if len(ordered) == 1 and first["kind"] == "world":
        return first
    if first["kind"] == "world":
        raise _misfit("a merged state is among them: it has all ranks already")
    for state in ordered[1:]:
        _same_job(first, state)
    _all_ranks([state["rank"] for state in ordered], first["world"])
    _same_step(ordered)
    drawn, cursors = _lanes_of_all(ordered) if first["lanes"] else _runs_of_all(ordered)
    merged = {
        **first,
        "kind": "world",
        "rank": -1,
        "drawn": drawn,
        "virtual": max(state["virtual"] for state in ordered),
        "cursors": dict(sorted(cursors.items(), key=_number)),
    }
    if "end" in first:
        merged["end"] = OPEN if any(_is_open(state) for state in ordered) else PASSED
    return merged


def missing_ranks(states: Sequence[State]) -> list[int]:
    """Which ranks of the job have no state among these; none where a merged one is there."""
    if any(state["kind"] == "world" for state in states):
        return []
    there = {state["rank"] for state in states}
    return [rank for rank in range(max((state["world"] for state in states), default=0)) if rank not in there]


def differences(
    saved: Mapping[str, Any], here: Mapping[str, Any], places: tuple[str, str] = ("in the state", "here")
) -> list[str]:
    """A line for each key whose values differ."""
    keys = [*saved, *(key for key in here if key not in saved)]
    return [
        _difference(key, saved.get(key, "absent"), here.get(key, "absent"), places)
        for key in keys
        if saved.get(key, "absent") != here.get(key, "absent")
    ]


def copied(value: Any) -> Any:
    """A JSON value once more, sharing nothing that can change. A tenth of what `copy.deepcopy` takes."""
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [each if type(each) is int else copied(each) for each in value]
    return value


def listed(names: Collection[Any]) -> str:
    """The first of these, and how many more there are."""
    shown = ", ".join(str(name) for name in list(names)[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def _difference(key: str, saved: Any, here: Any, places: tuple[str, str]) -> str:
    """Of lists (a blend has a digest a source) only how many differ, and the first of them."""
    if isinstance(saved, list) and isinstance(here, list):
        if len(saved) != len(here):
            return f"{key}: {len(saved)} {places[0]}, {len(here)} {places[1]}"
        other = [i for i, pair in enumerate(zip(saved, here, strict=True)) if pair[0] != pair[1]]
        i = other[0]
        return (
            f"{key}: {len(other)} of {len(here)} differ, the first is number {i}: "
            f"{saved[i]} {places[0]}, {here[i]} {places[1]}"
        )
    return f"{key}: {saved} {places[0]}, {here} {places[1]}"


def _same_job(first: State, state: State) -> None:
    """Raise StateMismatch unless two ranks are of one job."""
    ranks = f"ranks {first['rank']} and {state['rank']}"
    if state["world"] != first["world"]:
        raise _misfit(f"{ranks} differ in 'world': {first['world']} and {state['world']} ranks")
    places = f"on rank {first['rank']}", f"on rank {state['rank']}"
    plan, other = first["plan"], state["plan"]
    lines = differences(plan["order"], other["order"], places)
    lines += differences({"recipe": plan["recipe"]}, {"recipe": other["recipe"]}, places)
    lines += differences({"shape": plan["shape"]}, {"shape": other["shape"]}, places)
    lines += differences({"aux": plan.get("aux")}, {"aux": other.get("aux")}, places)
    if lines:
        raise _misfit(f"{ranks} have different plans: {'; '.join(lines)}")
    for key in SHARED:
        if state[key] != first[key]:
            raise _misfit(f"{ranks} differ in {key!r}")


def _same_step(states: Sequence[State]) -> None:
    steps = {state["rank"]: state["drawn"] for state in states}
    if len(set(steps.values())) == 1:
        return
    # The world draws a round at a time: a rank that is ahead is so by whole ones.
    rounds = {state["drawn"] % len(states) for state in states}
    given = {state["virtual"] for state in states}
    are_alike = all(state["virtual"] == max(given) or not _is_open(state) for state in states)
    is_apart = max(steps.values()) - min(steps.values()) > MOST_APART * len(states)
    if states[0]["pass"] is None or len(rounds) > 1 or not are_alike or is_apart:
        raise _misfit(f"the ranks were saved at different steps (rank: batches of the world): {_shown(steps)}")


def _is_open(state: State) -> bool:
    """Whether a rank may have more batches of its pass. A training without end always has."""
    return bool(state.get("end", OPEN) == OPEN)


def _lanes_of_all(states: Sequence[State]) -> tuple[int, State]:
    """Batches that were drawn, and all cursors. Lanes know where they stand: the count may be that of any rank."""
    drawn = max(state["drawn"] for state in states)
    return drawn, {lane: cursor for state in states for lane, cursor in state["cursors"].items()}


def _runs_of_all(states: Sequence[State]) -> tuple[int, State]:
    """How many runs all ranks have drawn, and what has left of those behind them. Of a run knows the rank whose it is:
    the others have what was known when they began."""
    world = len(states)
    drawn: int = min(state["drawn"] for state in states)
    cursors: State = {}
    for state in states:
        begun = {run: cursor for run, cursor in state["cursors"].items() if _is_own(int(run), state)}
        ahead = range(drawn + state["rank"], state["drawn"] + state["rank"], world)
        cursors |= {**begun, **{str(run): dict(ALL_GIVEN) for run in ahead}}
    return drawn, cursors


def _is_own(run: int, state: State) -> bool:
    """Whether a run is one that the rank of this state is at, or comes to."""
    ahead: int = run - state["drawn"] - state["rank"]
    return ahead >= 0 and ahead % state["world"] == 0


def _all_ranks(ranks: Sequence[int], world: int) -> None:
    missing = sorted(set(range(world)) - set(ranks))
    if missing:
        raise _misfit(f"ranks [{listed(missing)}] are missing: the job had {world}")
    twice = sorted({rank for rank in ranks if ranks.count(rank) > 1}) if len(ranks) > world else []
    if twice:
        raise _misfit(f"ranks [{listed(twice)}] come twice: the job had {world}")


def _shown(steps: Mapping[int, int]) -> str:
    """All of a small world; of a large one, which ranks stand at which step."""
    if len(steps) <= _NAMED:
        return str(dict(steps))
    at: dict[int, list[int]] = {}
    for rank, step in steps.items():
        at.setdefault(step, []).append(rank)
    return "; ".join(f"step {step}: ranks {listed(ranks)}" for step, ranks in sorted(at.items()))


def _number(item: tuple[str, Any]) -> int:
    return int(item[0])


def _no_state(words: str, hint: str) -> StateMismatch:
    return StateMismatch(words, hint=hint, code="WDS502")


def _misfit(words: str) -> StateMismatch:
    return StateMismatch(words, hint="give the states of all ranks, saved at the same step", code="WDS502")
