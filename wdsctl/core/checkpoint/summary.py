"""Facts of a state for reports (progress, lanes, sizes), and the differences of two states."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wdsctl.core.checkpoint.addresses import pending_addresses
from wdsctl.core.checkpoint.state import (
    END_PASSED,
    LoaderState,
    damaged_state_error,
    describe_differences,
    lane_origin,
    state_lanes,
)

BASE_BYTES, LANE_BYTES, SOURCE_BYTES, PENDING_BYTES = 1024, 256, 16, 8  # the size budget of a state


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFacts:
    """Facts of one state. `rank`: -1 for a merged state. `pass_number`: None in an endless training. `is_over`: the
    pass has ended on the ranks of the state.

    `draws`: samples drawn by the lanes of the state. `epochs`: draws / samples of the dataset, if the state has all
    lanes and one dataset. `pending`: samples whose addresses the state has, as they wait in groups or for the next
    window. `size_bytes`: as JSON without whitespace.
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
    draws: int
    epochs: float | None
    pending: int
    bans: int
    size_bytes: int
    budget_bytes: int
    order: dict[str, Any]
    recipe: str
    stages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneDifference:
    """A lane's draws in two states; None if a state lacks the lane."""

    lane: int
    draws: int | None
    other: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDifference:
    """Differences of two states by tier, one line each. `steps`: batches from the first to the second. `lanes`: lanes
    at different positions."""

    order: tuple[str, ...]
    recipe: tuple[str, ...]
    place: tuple[str, ...]
    bans: tuple[str, ...]
    steps: int
    lanes: tuple[LaneDifference, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.order or self.recipe or self.place or self.bans or self.steps or self.lanes)


def summarize_state(state: LoaderState) -> StateFacts:
    """The facts of a state that passed `check_state`. Raises StateMismatch WDS502 for damaged addresses."""
    order, cursors = state["plan"]["order"], state["cursors"]
    sources = len(order["sources"]) if isinstance(order.get("sources"), list) else len(state["generations"])
    draws = sum(cursor.get("draws", 0) for cursor in cursors.values())
    pending = sum(_count_pending(lane, cursor.get("stream")) for lane, cursor in cursors.items())
    lanes = state["lanes"]
    samples, epochs = order.get("samples"), None
    if len(cursors) == lanes and sources == 1 and isinstance(samples, int) and samples and draws:
        epochs = draws / samples
    return StateFacts(
        rank=state["rank"],
        world=state["world"],
        step=state["batches_drawn"],
        pass_number=state["pass"],
        is_over=state["end"] == END_PASSED,
        lanes=lanes,
        roots=len({lane_origin(state, lane)[0] for lane in state_lanes(state)}),
        sources=sources,
        generations=tuple(state["generations"]),
        draws=draws,
        epochs=epochs,
        pending=pending,
        bans=sum(map(len, state["bans"])),
        size_bytes=len(json.dumps(state, separators=(",", ":")).encode()),
        budget_bytes=BASE_BYTES + LANE_BYTES * len(cursors) + SOURCE_BYTES * sources + PENDING_BYTES * pending,
        order=dict(order),
        recipe=state["plan"]["recipe"],
        stages=tuple(state["plan"]["stages"]),
    )


def _recipe(plan: dict[str, Any]) -> dict[str, Any]:
    stores = {f"store {name}": digest for name, digest in plan.get("aux", {}).items()}
    return {"recipe": plan["recipe"], "stages": " ".join(plan["stages"]) or "none", **stores}


def can_split_lanes(state: LoaderState) -> bool:
    """Whether lanes are split if the number of ranks does not divide them. Lanes of a validation are never split."""
    return not state["plan"]["order"].get("validation", False)


def compare_states(one: LoaderState, other: LoaderState) -> StateDifference:
    """The differences of two states that passed `check_state`."""
    labels = "in the first", "in the second"
    plan, plan_2 = one["plan"], other["plan"]
    recipe, recipe_2 = _recipe(plan), _recipe(plan_2)
    return StateDifference(
        order=tuple(describe_differences(plan["order"], plan_2["order"], labels)),
        recipe=tuple(describe_differences(recipe, recipe_2, labels)),
        place=tuple(describe_differences(_run_facts(one), _run_facts(other), labels)),
        bans=tuple(describe_differences({"bans": one["bans"]}, {"bans": other["bans"]}, labels)),
        steps=other["batches_drawn"] - one["batches_drawn"],
        lanes=_lane_differences(one, other),
    )


def _run_facts(state: LoaderState) -> dict[str, Any]:
    """Facts that may differ between states of one job: rank, generations, position, lanes."""
    return {
        "kind": state["kind"],
        "rank": state["rank"],
        "world": state["world"],
        "generations": state["generations"],
        "pass": state["pass"],
        "batches_handed_out": state["batches_handed_out"],
        "end": state["end"],
        "first_batch": state["first_batch"],
        "lanes": state["lanes"],
        "origins": [json.dumps(lane_origin(state, lane)) for lane in state_lanes(state)],
    }


def _lane_differences(one: LoaderState, other: LoaderState) -> tuple[LaneDifference, ...]:
    """The lanes with different cursors; none if the lanes of the two states are not the same."""
    if one["lanes"] != other["lanes"]:
        return ()
    names = sorted({*one["cursors"], *other["cursors"]}, key=int)
    pairs = [(int(name), one["cursors"].get(name), other["cursors"].get(name)) for name in names]
    return tuple(
        LaneDifference(lane=lane, draws=_draws(first), other=_draws(second))
        for lane, first, second in pairs
        if first != second
    )


def _draws(cursor: Mapping[str, Any] | None) -> int | None:
    """Draws of a lane; for a batch of a finite pass, the number of its outputs that were returned."""
    if cursor is None:
        return None
    value = cursor.get("draws", cursor.get("emitted"))
    return value if isinstance(value, int) else None


def _count_pending(lane: str, stream: Any) -> int:
    """The number of samples whose addresses the stages of a lane have."""
    try:
        return len(pending_addresses(stream))
    except ValueError as error:
        raise damaged_state_error(f"lane {lane}: {error}") from error
