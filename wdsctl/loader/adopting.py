"""A job goes over to what a dataset has become: each arm of its blend at the end of the epoch that it is in.

Lanes do not stand at the same place of an arm, and all of them must go over at the same draw, or samples of an epoch
would come twice or not at all. So the draw is the end of the last epoch that any lane has begun: that takes the places
of all lanes, which a merged state has. It is written into the plan, and from then on it is arithmetic: see
`wdsctl.loader.order.eras`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wdsctl.core.errors import StateMismatch
from wdsctl.loader.blend_history import edits_of
from wdsctl.loader.dataset import Dataset
from wdsctl.loader.eras import Past, is_whole, pasts_of, to_plan
from wdsctl.loader.order.eras import Eras, Order
from wdsctl.loader.order.geometry import Geometry
from wdsctl.loader.order.lane_order import LaneOrder
from wdsctl.loader.order.mixing import Mixing
from wdsctl.loader.order.shuffle import WITH_REPLACEMENT, Shuffled
from wdsctl.loader.plan import OF_WEIGHTS
from wdsctl.loader.stages.refs import RefStage
from wdsctl.loader.streams import Streams, open_streams

AS_IT_WAS = "leave adopt out to go on with the dataset as it was"


def newest(dataset: Dataset, streams: Streams) -> list[int] | None:
    """The present generations of the datasets, where one of them is another one than in `streams`."""
    now = _now(dataset, streams)
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

    Raises StateMismatch where some lane has no state, where old data is not there as it was, where weights in tokens
    may not become others, and for an arm that is drawn from with replacement: it has no epochs.
    """
    now = _now(dataset, streams)
    if now.generations == streams.generations:
        return streams
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
    order = {**streams.order, "eras": to_plan(pasts), "seeds": _kept_seeds(streams, now, grown)}
    made = open_streams(dataset, {"generation": now.generations, "plan": {"order": order}}, edit_at=drawn)
    _check_growth(made, grown)
    _check_weights(dataset, streams, made, has_grown=bool(grown))
    streams.close()
    return made


def _now(dataset: Dataset, streams: Streams) -> Streams:
    """What is there now, closed: as if no arm had grown since the last era of `streams` began."""
    order = {key: value for key, value in streams.order.items() if key != "seeds"}
    now = open_streams(dataset, {"generation": None, "plan": {"order": order}})
    now.close()
    if now.order.get("views") != streams.order.get("views"):
        raise StateMismatch(
            "a view that the job reads has been made anew, of other samples",
            where=", ".join(streams.names),
            hint="begin a new run; or make the view what it was, or another one under another name",
        )
    return now


def _kept_seeds(streams: Streams, now: Streams, grown: Sequence[int]) -> list[Any]:
    """Of arms that go on as they are, the seeds that would be other ones now: [arm, seed]. Where two arms have the same
    data, their places in the blend tell them apart, and one that has grown has other data."""
    pairs = zip(streams.arms, now.arms, strict=True)
    seeds = [(_present(was.order).seed, _present(here.order).seed) for was, here in pairs]
    return [[arm, was] for arm, (was, here) in enumerate(seeds) if was != here and arm not in grown]


def _check_growth(made: Streams, grown: Sequence[int]) -> None:
    """Raise StateMismatch where what an arm was before it has grown is not there any more as it was."""
    for arm in grown:
        if not is_whole(made.arms[arm]):
            raise StateMismatch(
                "the dataset has not only grown: shards that the job has samples of to come were changed or removed",
                where=made.names[arm],
                hint=AS_IT_WAS,
            )


def _check_weights(dataset: Dataset, streams: Streams, made: Streams, *, has_grown: bool) -> None:
    """Raise StateMismatch where weights in tokens become others and may not: nothing has grown that they are of, or the
    state does not know those of before, by which samples of an arm are counted."""
    of_before, of_now = ([each.order.get(key) for key in OF_WEIGHTS] for each in (streams, made))
    may_change = has_grown or getattr(dataset, "adopt_weights", False)
    if of_before != of_now and not (may_change and edits_of(streams.order)):
        raise StateMismatch(
            "the mean lengths of samples are not what they were, and so the blend has other weights in samples",
            hint=AS_IT_WAS,
        )


def _present(order: Order) -> Shuffled:
    """What an order is from its last era on."""
    return order.latest if isinstance(order, Eras) else order


def _with_end(pasts: list[Past], streams: Streams, arm: int, end: int) -> list[Past]:
    """With one more era of this arm; where nobody has begun the present one, it is as if it had never been."""
    if end == max((past.end for past in pasts if past.arm == arm), default=0):
        return pasts
    present = _present(streams.arms[arm].order)
    last = tuple(max(shard.id for shard in source.offsets.shards) for source in streams.datasets[arm])
    return [*pasts, Past(arm, end, present.n, present.seed, streams.order["sources"][arm], last)]


def _end(
    streams: Streams, refs: RefStage, geometry: Geometry, states: Mapping[int, Mapping[str, Any]], arm: int
) -> int:
    """The draw of the job where the last epoch of an arm ends that any lane has begun."""
    order = streams.arms[arm].order
    if order.passes == WITH_REPLACEMENT:
        raise StateMismatch(
            "the dataset has grown, and what is drawn with replacement has no epoch at whose end to adopt that",
            where=streams.names[arm],
            hint=AS_IT_WAS,
        )
    begun = 0
    for number, state in states.items():
        lane = geometry.lanes[number]
        mixing = Mixing(refs.blends, refs.key, lane, state["mix"])
        taken = mixing.count(arm, state["picks"])
        begun = max(begun, LaneOrder(order, lane, mixing.taken(arm)).begun(taken))
    return max(begun, order.eras[-1].begin) if isinstance(order, Eras) else begun
