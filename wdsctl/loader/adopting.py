"""A job goes over to what a dataset has become: each arm of its blend at the end of the epoch that it is in.

Lanes do not stand at the same place of an arm, and all of them must go over at the same slot, or samples of an epoch
would come twice or not at all. So the slot is the end of the last epoch that any lane has begun: that takes the places
of all lanes, which a merged state has. It is written into the plan, and from then on it is arithmetic: see
`wdsctl.loader.order.eras`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wdsctl.core.errors import StateMismatch
from wdsctl.loader.dataset import Dataset
from wdsctl.loader.eras import Past, is_whole, pasts_of, to_plan
from wdsctl.loader.order.eras import Eras
from wdsctl.loader.order.geometry import Geometry
from wdsctl.loader.order.legs import Order, legs, place
from wdsctl.loader.order.mixing import Mixing
from wdsctl.loader.order.shuffle import WITH_REPLACEMENT
from wdsctl.loader.stages.refs import RefStage
from wdsctl.loader.streams import Streams, open_streams


def newest(dataset: Dataset, streams: Streams) -> list[int] | None:
    """The present generations of the datasets, where one of them is another one than in `streams`."""
    order = {key: value for key, value in streams.order.items() if key != "eras"}
    now = open_streams(dataset, {"generation": None, "plan": {"order": order}})
    now.close()
    if now.order.get("views") != streams.order.get("views"):
        raise StateMismatch(
            "a view that the job reads has been made anew, of other samples",
            where=", ".join(streams.names),
            hint="begin a new run; or make the view what it was, or another one under another name",
        )
    return None if now.generations == streams.generations else now.generations


def next_pass(dataset: Dataset, streams: Streams, generations: list[int] | None) -> Streams:
    """What the next pass of a finite training reads: these generations, where it is to go over to them."""
    if generations is None:
        return streams
    return open_streams(dataset, {"generation": generations, "plan": {"order": streams.order}})


def adopted(
    dataset: Dataset,
    streams: Streams,
    refs: RefStage,
    geometry: Geometry,
    states: Mapping[int, Mapping[str, Any]],
    drawn: int,
) -> Streams:
    """The streams that go over to what is there now; `streams` where nothing has grown. `states`: where the lanes stand
    after `drawn` batches of the world.

    Raises StateMismatch where some lane has no state, where old data is not there as it was, and for an arm that is
    drawn from with replacement: it has no epochs.
    """
    generations = newest(dataset, streams)
    if generations is None:
        return streams
    order = {key: value for key, value in streams.order.items() if key != "eras"}
    now = open_streams(dataset, {"generation": generations, "plan": {"order": order}}, edit_at=drawn)
    now.close()
    pairs = zip(now.order["sources"], streams.order["sources"], strict=True)
    grown = [arm for arm, (here, was) in enumerate(pairs) if here != was]
    if grown and len(states) < len(geometry.lanes):
        raise StateMismatch(
            "the dataset has grown, and where all ranks go over to what it is now takes the states of all of them",
            hint="give the states of all ranks, as a list or merged by merge_states; or leave adopt out",
            code="WDS502",
        )
    pasts = pasts_of(streams.order)
    for arm in grown:
        pasts = _with_end(pasts, streams, arm, _end(streams, refs, geometry, states, arm))
    given = {**order, "eras": to_plan(pasts)} if pasts else order
    made = open_streams(dataset, {"generation": generations, "plan": {"order": given}}, edit_at=drawn)
    for arm in grown:
        if not is_whole(made.arms[arm]):
            raise StateMismatch(
                "the dataset has not only grown: shards that the job has samples of to come were changed or removed",
                where=made.names[arm],
                hint="leave adopt out to go on with the dataset as it was",
            )
    streams.close()
    return made


def _with_end(pasts: list[Past], streams: Streams, arm: int, end: int) -> list[Past]:
    """With one more era of this arm; where nobody has begun the present one, it is as if it had never been."""
    if end == max((past.end for past in pasts if past.arm == arm), default=0):
        return pasts
    order = streams.arms[arm].order
    present = order.latest if isinstance(order, Eras) else order
    last = tuple(max(shard.id for shard in source.offsets.shards) for source in streams.datasets[arm])
    return [*pasts, Past(arm, end, present.n, present.seed, streams.order["sources"][arm], last)]


def _end(
    streams: Streams, refs: RefStage, geometry: Geometry, states: Mapping[int, Mapping[str, Any]], arm: int
) -> int:
    """The slot where the last epoch of an arm ends that any lane has begun."""
    order = streams.arms[arm].order
    if order.passes == WITH_REPLACEMENT:
        raise StateMismatch(
            "the dataset has grown, and what is drawn with replacement has no epoch at whose end to adopt that",
            where=streams.names[arm],
            hint="leave adopt out to go on with the dataset as it was",
        )
    begun = 0
    for number, state in states.items():
        lane = geometry.lanes[number]
        mixing = Mixing(refs.blends, refs.key, lane, state["mix"])
        mine = legs(order, lane, refs.lanes, mixing.taken(arm))
        begun = max(begun, _begun(order, mine, mixing.count(arm, state["picks"])))
    if isinstance(order, Eras):
        return order.epoch_end(begun)
    return -(-begun // order.epoch_slices) * order.epoch_slices


def _begun(order: Order, mine: Any, taken: int) -> int:
    """A slot that is past all that a lane has opened, and not past the epoch of the last one of them."""
    leg, start, at = place(order, mine, taken)
    while leg and not start and not at:
        leg -= 1
        start = _slices(order, mine[leg])
    strand = mine[leg].strand
    opened = order.end_of(strand, start) if at else start
    return int(strand.first + (opened - 1) * strand.step + 1) if opened else 0


def _slices(order: Order, leg: Any) -> int:
    """How many slices of its strand a finite leg has."""
    start, at = order.find(leg.strand, leg.samples)
    return order.end_of(leg.strand, start) if at else start
