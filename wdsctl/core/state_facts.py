"""What a state says, in figures for people: how far the job is, on how many lanes, and how large the state is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wdsctl.core.addresses import waiting_in
from wdsctl.core.errors import StateMismatch
from wdsctl.core.job_state import OPEN, PASSED, SAVED_BY, differences
from wdsctl.core.state_form import State

BASE_BYTES, LANE_BYTES, SOURCE_BYTES, PENDING_BYTES = 1024, 256, 16, 8  # the budget of a state


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFacts:
    """`rank` is -1 of a merged state. `pass_number` is None in a training without end. `is_over`: no rank that the
    state speaks for has more of that pass, and the next one follows.

    `picks`: samples that were taken, by all lanes that the state speaks for; `epochs`: that over the samples of all
    datasets, where the state has all lanes and no blend tells other shares. `pending`: samples that wait in groups or
    for the next window, by address; what is left of a buffer is not among them. `size_bytes`: as JSON without blanks.
    """

    rank: int
    world: int
    step: int
    pass_number: int | None
    is_over: bool
    lanes: int
    roots: int
    sources: int
    generations: tuple[int, ...]
    picks: int
    epochs: float | None
    pending: int
    bans: int
    size_bytes: int
    budget_bytes: int
    order: dict[str, Any]
    recipe: str
    shape: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStep:
    """A lane's picks in two states; None where one does not have it."""

    lane: int
    picks: int | None
    other: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDifference:
    """How two states differ, by the tiers of the fingerprint: a line each. `steps`: batches from the first to the
    second. `lanes`: those that stand elsewhere."""

    order: tuple[str, ...]
    recipe: tuple[str, ...]
    place: tuple[str, ...]
    bans: tuple[str, ...]
    steps: int
    lanes: tuple[LaneStep, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.order or self.recipe or self.place or self.bans or self.steps or self.lanes)


def describe(state: State) -> StateFacts:
    """The facts of a state that has passed `check_form`."""
    order, cursors = state["plan"]["order"], state["cursors"]
    sources = len(order["sources"]) if isinstance(order.get("sources"), list) else len(state["generation"])
    picks = sum(cursor.get("picks", 0) for cursor in cursors.values())
    pending = sum(_pending(lane, cursor.get("stream")) for lane, cursor in cursors.items())
    lanes = len(state["lanes"])
    return StateFacts(
        rank=state["rank"],
        world=state["world"],
        step=state["drawn"],
        pass_number=state["pass"],
        is_over=state.get("end") == PASSED,
        lanes=lanes,
        roots=len({lane[0] for lane in state["lanes"]}),
        sources=sources,
        generations=tuple(state["generation"]),
        picks=picks,
        epochs=_epochs(picks, order, sources) if len(cursors) == lanes else None,
        pending=pending,
        bans=sum(map(len, state["bans"])),
        size_bytes=len(json.dumps(state, separators=(",", ":")).encode()),
        budget_bytes=BASE_BYTES + LANE_BYTES * lanes + SOURCE_BYTES * sources + PENDING_BYTES * pending,
        order=dict(order),
        recipe=state["plan"]["recipe"],
        shape=tuple(state["plan"]["shape"]),
    )


def _recipe(plan: dict[str, Any]) -> dict[str, Any]:
    stores = {f"store {name}": digest for name, digest in plan.get("aux", {}).items()}
    return {"recipe": plan["recipe"], "stages": " ".join(plan["shape"]) or "none", **stores}


def splits_lanes(state: State) -> bool:
    """Whether lanes are split on a number of ranks that does not divide them. Validations deal them whole."""
    return not state["plan"]["order"].get("validation", False)


def compare(one: State, other: State) -> StateDifference:
    """What has changed from one state to another, both of them whole."""
    places = "in the first", "in the second"
    plan, plan_2 = one["plan"], other["plan"]
    recipe, recipe_2 = _recipe(plan), _recipe(plan_2)
    return StateDifference(
        order=tuple(differences(plan["order"], plan_2["order"], places)),
        recipe=tuple(differences(recipe, recipe_2, places)),
        place=tuple(differences(_place(one), _place(other), places)),
        bans=tuple(differences({"bans": one["bans"]}, {"bans": other["bans"]}, places)),
        steps=other["drawn"] - one["drawn"],
        lanes=_lane_steps(one, other),
    )


def _place(state: State) -> dict[str, Any]:
    """What a run may change: who saved it, of which generations, over which lanes."""
    return {
        "kind": state["kind"],
        "rank": state["rank"],
        "world": state["world"],
        "generation": state["generation"],
        "pass": state["pass"],
        "virtual": state["virtual"],
        "end": state.get("end", OPEN),
        "base": state["base"],
        "lanes": [json.dumps(lane) for lane in state["lanes"]],
    }


def _lane_steps(one: State, other: State) -> tuple[LaneStep, ...]:
    """The lanes whose cursors are not alike. Lanes of other geometries are not compared: their numbers mean others."""
    if one["lanes"] != other["lanes"]:
        return ()
    names = sorted({*one["cursors"], *other["cursors"]}, key=int)
    pairs = [(int(name), one["cursors"].get(name), other["cursors"].get(name)) for name in names]
    return tuple(
        LaneStep(lane=lane, picks=_picks(first), other=_picks(second))
        for lane, first, second in pairs
        if first != second
    )


def _picks(cursor: Mapping[str, Any] | None) -> int | None:
    """Of a lane; of a batch of a finite pass, how much of it has left."""
    if cursor is None:
        return None
    value = cursor.get("picks", cursor.get("given"))
    return value if isinstance(value, int) else None


def _epochs(picks: int, order: Mapping[str, Any], sources: int) -> float | None:
    samples = order.get("samples")
    return picks / samples if sources == 1 and isinstance(samples, int) and samples and picks else None


def _pending(lane: str, stream: Any) -> int:
    """Samples that stages have addresses of. What is in a buffer is read again from where that began."""
    try:
        return len(waiting_in(stream))
    except ValueError as error:
        raise StateMismatch(f"the state is damaged: lane {lane}: {error}", hint=SAVED_BY, code="WDS502") from error
