"""Weights that change: `schedule: [{step: 0, weights: {web: 3, code: 1}}, {step: 1000, weights: [1, 1]}]`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from wdsctl.core.blend_file.amounts import amount
from wdsctl.core.blend_file.nodes import Node
from wdsctl.core.blend_file.problems import Place, called, suggestion, unknown_key, wrong
from wdsctl.core.errors import DatasetError

_HINT = "write schedule: [{step: 0, weights: {NAME: 1}}, ...] with steps that rise"
_KEYS = ("step", "weights")


class Turn(NamedTuple):
    step: int
    weights: list[Fraction]  # of all entries of the blend


def turns_of(node: Node, place: Place, names: Sequence[str], weights: Sequence[Fraction]) -> list[Turn]:
    """The first is at step 0, with the entries' own `weights` if the file does not say. Not all weights of one are 0.

    `names`: of the entries, empty where they have none. An entry that a turn does not name keeps the weight it had.
    Raises DatasetError WDS602.
    """
    if not isinstance(node.value, list) or not node.value:
        raise _wrong(f"schedule: expected a list of steps, found {called(node.value or None)}", place)
    now = list(weights)
    turns = []
    for each in node.value:
        now = _weights(each, names, now)
        turns.append(Turn(_step(each), now))
        check_some(now, each.at("weights"))
    for (before, _), (turn, each) in pairwise(zip(turns, node.value, strict=True)):
        if turn.step <= before.step:
            raise _wrong(f"step: {turn.step} does not come after {before.step}", each.at("step"))
    if turns[0].step:
        check_some(weights, place)
        turns.insert(0, Turn(0, list(weights)))
    return turns


def check_some(weights: Sequence[Fraction], place: Place) -> None:
    """Raises DatasetError WDS602 if all weights are 0."""
    if not any(weights):
        hint = "give at least one entry a weight above 0"
        raise wrong("weight: all weights are 0, so nothing would ever come", place, hint=hint, code="WDS602")


def _step(node: Node) -> int:
    step: object = node.value["step"].value
    if type(step) is not int or step < 0:
        raise _wrong(f"step: expected a whole number from 0 up, found {called(step)}", node.at("step"))
    return step


def _weights(node: Node, names: Sequence[str], before: Sequence[Fraction]) -> list[Fraction]:
    if not isinstance(node.value, dict):
        raise _wrong(f"schedule: expected step and weights, found {called(node.value)}", node.place)
    for key in node.value:
        if key not in _KEYS:
            raise unknown_key(key, node.at(key), _KEYS)
    for key in _KEYS:
        if key not in node.value:
            raise _wrong(f"{key} is missing", node.place)
    given = node.value["weights"]
    if isinstance(given.value, list) and len(given.value) == len(before):
        return [amount(each, "weights", each.place) for each in given.value]
    if not isinstance(given.value, dict) or not given.value:
        found = f"{len(given.value)} of {len(before)}" if isinstance(given.value, list) else called(given.value)
        raise _wrong(f"weights: expected a weight an entry, or names and weights, found {found}", node.at("weights"))
    now = list(before)
    for key, value in given.value.items():
        now[_position(key, names, given.at(key))] = amount(value, key, given.at(key))
    return now


def _position(key: str, names: Sequence[str], place: Place) -> int:
    if key and key in names:
        return names.index(key)
    if key.isdecimal() and int(key) < len(names):
        return int(key)
    known = [name for name in names if name]
    hint = f"entries are named by `name:`, or 0 to {len(names) - 1}" + f"; here are {', '.join(known)}" * bool(known)
    raise wrong(f"weights: there is no entry {key!r}{suggestion(key, known)}", place, hint=hint, code="WDS602")


def _wrong(message: str, place: Place) -> DatasetError:
    return wrong(message, place, hint=_HINT, code="WDS602")
