"""Weights that change: `schedule: [{step: 0, weights: {web: 3, code: 1}}, {step: 1000, weights: [1, 1]}]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from wdsctl.core.blend.yaml_tree import (
    Node,
    NodeLocation,
    blend_error,
    check_keys,
    describe_node_value,
    parse_amount,
    suggestion,
)
from wdsctl.core.errors import DatasetError

_HINT = "write schedule: [{step: 0, weights: {NAME: 1}}, ...] with ascending steps"
_KEYS = ("step", "weights")
MAX_SCHEDULE_WEIGHTS = 1_000_000  # of all entries at all steps: every step has a weight of each entry


class WeightChange(NamedTuple):
    step: int
    weights: list[Fraction]  # of all entries of the blend


def parse_schedule(
    node: Node, location: NodeLocation, names: Sequence[str], weights: Sequence[Fraction]
) -> list[WeightChange]:
    """The weight changes. The first one is at step 0, with the entries' own `weights` if the file has none for step 0.

    `names`: of the entries, empty if they have none. An entry that a step does not name keeps its weight. Every change
    has a weight above 0. Raises DatasetError WDS602.
    """
    if not isinstance(node.value, list) or not node.value:
        raise _schedule_error(
            f"schedule: expected a list of steps, found {describe_node_value(node.value or None)}", location
        )
    if len(node.value) * len(weights) > MAX_SCHEDULE_WEIGHTS:
        raise _schedule_error(
            f"schedule: {len(node.value):,} steps for {len(weights):,} entries make more than "
            f"{MAX_SCHEDULE_WEIGHTS:,} weights",
            location,
        )
    now = list(weights)
    turns = []
    for each in node.value:
        now = _weights(each, names, now)
        turns.append(WeightChange(_step(each), now))
        check_any_weight(now, each.location_of("weights"))
    for (before, _), (turn, each) in pairwise(zip(turns, node.value, strict=True)):
        if turn.step <= before.step:
            raise _schedule_error(f"step: {turn.step} does not come after {before.step}", each.location_of("step"))
    if turns[0].step:
        check_any_weight(weights, location)
        turns.insert(0, WeightChange(0, list(weights)))
    return turns


def check_any_weight(weights: Sequence[Fraction], location: NodeLocation) -> None:
    """Raises DatasetError WDS602 if all weights are 0."""
    if not any(weights):
        hint = "set the weight of at least one entry above 0"
        raise blend_error("weight: all weights are 0, so there is nothing to read", location, hint=hint, code="WDS602")


def _step(node: Node) -> int:
    step: object = node.value["step"].value
    if type(step) is not int or step < 0:
        raise _schedule_error(
            f"step: expected a whole number from 0 up, found {describe_node_value(step)}", node.location_of("step")
        )
    return step


def _weights(node: Node, names: Sequence[str], before: Sequence[Fraction]) -> list[Fraction]:
    if not isinstance(node.value, dict):
        raise _schedule_error(
            f"schedule: expected step and weights, found {describe_node_value(node.value)}", node.location
        )
    check_keys(node, _KEYS)
    for key in _KEYS:
        if key not in node.value:
            raise _schedule_error(f"{key} is missing", node.location)
    weights = node.value["weights"]
    if isinstance(weights.value, list) and len(weights.value) == len(before):
        return [parse_amount(each, "weights", each.location) for each in weights.value]
    if not isinstance(weights.value, dict) or not weights.value:
        found = (
            f"{len(weights.value)} of {len(before)}"
            if isinstance(weights.value, list)
            else describe_node_value(weights.value)
        )
        raise _schedule_error(
            f"weights: expected a weight per entry, or names and weights, found {found}", node.location_of("weights")
        )
    now = list(before)
    numbers = {name: i for i, name in enumerate(names) if name}
    keys: dict[int, str] = {}  # of the entries that are named
    for key, value in weights.value.items():
        location = weights.location_of(key)
        at = _entry_index(key, numbers, len(names), location)
        if at in keys:
            raise _schedule_error(f"weights: {keys[at]!r} and {key!r} name the same entry", location)
        keys[at] = key
        now[at] = parse_amount(value, key, location)
    return now


def _entry_index(key: str, numbers: Mapping[str, int], entries: int, location: NodeLocation) -> int:
    """The number of an entry. `numbers`: of the entries that have names."""
    if key in numbers:
        return numbers[key]
    if key.isdecimal() and int(key) < entries:
        return int(key)
    named = f"; its names are {', '.join(numbers)}" if numbers else ""
    raise blend_error(
        f"weights: the blend has no entry {key!r}{suggestion(key, numbers)}",
        location,
        hint=f"use the `name:` of an entry, or a number from 0 to {entries - 1}{named}",
        code="WDS602",
    )


def _schedule_error(message: str, location: NodeLocation) -> DatasetError:
    return blend_error(message, location, hint=_HINT, code="WDS602")
