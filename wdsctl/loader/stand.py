"""How far one rank of a stream of lanes is, and what becomes of its lanes where ranks do not divide them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wdsctl.loader.order.geometry import Geometry, split
from wdsctl.loader.states import State
from wdsctl.loader.stats import Stats


@dataclass(frozen=True, slots=True)
class Stand:
    """How far a rank is: batches that the world has drawn, the lanes of the job, where each stands that has been drawn
    from, what was handed out, how many batches of the present pass or virtual epoch, and which pass that is.

    `turns`: how many each lane has had since the geometry began. `is_over`: whether the loop over the pass has ended,
    so that the next one begins the next pass.
    """

    drawn: int
    geometry: Geometry
    states: Mapping[int, State]
    stats: Stats
    given: int = 0
    ended: frozenset[int] = frozenset()
    passes: int = 0
    turns: Mapping[int, int] = field(default_factory=dict)
    is_over: bool = False


def split_over(world: int, stand: Stand, fresh: State, number: int) -> Stand:
    """More lanes, where this number of ranks does not divide the lanes there are. Needs the state of every lane.

    `fresh`: the state of a lane that has given nothing. `number`: of the batch whose turn it is.
    """
    states = [stand.states.get(i, fresh) for i in range(len(stand.geometry.lanes))]
    made = split(stand.geometry, [state["picks"] for state in states], number, world)
    children = {i: states[made.parents[i]] for i in range(made.heirs)}
    for i in range(made.heirs, len(made.geometry.lanes)):
        mix = states[made.parents[i]]["mix"]
        children[i] = {**fresh, "mix": [*mix, [[mix[-1][-1][0], 0]]]}
    return replace(stand, geometry=made.geometry, states=children, turns={})
