"""Lets a job adopt datasets that grew: each component of its blend changes at the end of the component's current epoch.

Lanes are at different positions in a component, and all of them must change at the same draw, or samples of an epoch
would be repeated or lost. So the change is at the end of the last epoch that any lane has begun. This needs the
positions of all lanes, which a merged state has. The plan keeps the draw, from which the order is computed: see
`wdsctl.loader.order.growth`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wdsctl.core.errors import StateMismatch
from wdsctl.loader.lanes.lane_order import LaneOrder
from wdsctl.loader.lanes.mixture import LaneMixture
from wdsctl.loader.lanes.rank_lanes import LaneLayout
from wdsctl.loader.order.growth import GrownOrder, SourceOrder
from wdsctl.loader.order.shuffle import WITH_REPLACEMENT, ShuffledOrder
from wdsctl.loader.pipeline.references import RefStage
from wdsctl.loader.plan.growth import PastVersion, is_complete, past_versions_to_facts, read_past_versions
from wdsctl.loader.plan.open_blend import OpenBlend, open_blend
from wdsctl.loader.plan.plan import WEIGHT_FACTS
from wdsctl.loader.plan.weight_history import edits_from_facts
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.recipe.dataset import BaseDataset

KEEP_OLD_DATASET_HINT = "omit adopt to continue with the earlier dataset"


def find_new_generations(dataset: BaseDataset, streams: OpenBlend) -> list[int] | None:
    """The current generations of the datasets, if any differs from those in `streams`. Raises StateMismatch if a range
    of a blend would have other old samples than before."""
    now = _open_current_streams(dataset, streams)
    if now.generations == streams.generations:
        return None
    for component in range(len(streams.components)):
        _check_ranges(streams, now, component)
    return now.generations


def open_next_pass(dataset: BaseDataset, streams: OpenBlend, generations: list[int] | None) -> OpenBlend:
    """The blend that the next pass of a finite training reads: in these generations, if it adopts them."""
    if generations is None:
        return streams
    return open_blend(dataset, {"generations": generations, "plan": {"order": streams.order_facts}})


def adopt_growth(
    dataset: BaseDataset,
    streams: OpenBlend,
    refs: RefStage,
    lane_layout: LaneLayout,
    lane_states: Mapping[int, Mapping[str, Any]],
    batches_drawn: int,
) -> OpenBlend:
    """The blend with the current data from the end of each component's epoch on; `streams` itself if nothing has
    changed. `lane_states`: of the lanes after `batches_drawn` batches of the world.

    Raises StateMismatch if a lane has no state, if earlier data has changed, if weights in tokens may not change, if a
    range of a blend would have other old samples than before, if a dataset has grown that is joined to another one, and
    for a component that is drawn with replacement: it has no epochs.
    """
    now = _open_current_streams(dataset, streams)
    if now.generations == streams.generations:
        return streams
    pairs = zip(now.order_facts["sources"], streams.order_facts["sources"], strict=True)
    grown = [component for component, (here, was) in enumerate(pairs) if here != was]
    if grown and len(lane_states) < len(lane_layout.lanes):
        raise StateMismatch(
            "the dataset has grown, and adopting the new samples needs the states of all ranks",
            hint="pass the states of all ranks, as a list or merged by merge_states; or omit adopt",
            code="WDS502",
        )
    past_versions = read_past_versions(streams.order_facts)
    for component in grown:
        _check_joins(streams, now, component)
        _check_ranges(streams, now, component)
        past_versions = _add_version_end(
            past_versions, streams, component, _version_end(streams, refs, lane_layout, lane_states, component)
        )
    order = {
        **streams.order_facts,
        "past_versions": past_versions_to_facts(past_versions),
        "seeds": _kept_seeds(streams, now, grown),
    }
    adopted = open_blend(
        dataset, {"generations": now.generations, "plan": {"order": order}}, new_weights_from=batches_drawn
    )
    _check_old_data_intact(adopted, grown)
    _check_weights(dataset, streams, adopted, has_grown=bool(grown))
    streams.close()
    return adopted


def _open_current_streams(dataset: BaseDataset, streams: OpenBlend) -> OpenBlend:
    """The blend with the current data, closed, as if no component had grown since its last version began."""
    order = {key: value for key, value in streams.order_facts.items() if key != "seeds"}
    now = open_blend(dataset, {"generations": None, "plan": {"order": order}})
    now.close()
    if now.order_facts.get("views") != streams.order_facts.get("views"):
        raise StateMismatch(
            "a view that the job reads now selects other samples",
            where=", ".join(streams.component_names),
            hint="create the view again with the same samples, or begin a new run",
        )
    return now


def _check_joins(streams: OpenBlend, now: OpenBlend, component: int) -> None:
    """Raise StateMismatch if another dataset of a join than the first has grown: past versions name no shards of it."""
    first = streams.component_sources[component - 1][-1].number + 1 if component else 0
    last = streams.component_sources[component][-1].number
    for before, after in zip(streams.sources[first:last], now.sources[first:last], strict=True):
        if before.is_member and before.digest != after.digest:
            raise StateMismatch(
                f"cannot adopt the new samples: {before.dataset_path} has other samples than when the job began, and "
                "of the datasets of a join, only the first one may grow",
                where=streams.component_names[component],
                hint=KEEP_OLD_DATASET_HINT,
            )


def _check_ranges(streams: OpenBlend, now: OpenBlend, component: int) -> None:
    """Raise StateMismatch if a range, such as ["0%", "50%"], would have other old samples than before: samples would
    move between a training and what is held out from it."""
    before, after = _selected_ranges(streams, component), _selected_ranges(now, component)
    for (source, (begin, end)), (grown, new_range) in zip(before, after, strict=True):
        first, stop = (min(bound, source.n) for bound in new_range)
        if (begin, end) != ((first, stop) if first < stop else (0, 0)):
            also = f", or [{begin}, end] to use the new ones, too," if end == source.n else ""
            raise StateMismatch(
                f"cannot adopt the new samples: the subset has the samples {begin} to {end} of {source.n}, and would "
                f"have those from {new_range[0]} to {new_range[1]} of {grown.n}, so that old samples move into the "
                "training or out of it",
                where=source.dataset_path,
                hint=f"write `range: [{begin}, {end}]` in the blend to keep these samples{also} and resume again; or "
                f"{KEEP_OLD_DATASET_HINT}",
            )


def _selected_ranges(streams: OpenBlend, component: int) -> list[tuple[SplitSource, tuple[int, int]]]:
    """Each current source of a component, and the range of its positions that is read."""
    pieces = streams.components[component].source_ranges
    ranges = {piece.source: (piece.first_position, piece.first_position + piece.positions) for piece in pieces}
    return [(source, ranges.get(source, (0, 0))) for source in streams.component_sources[component]]


def _kept_seeds(streams: OpenBlend, current_streams: OpenBlend, grown_components: Sequence[int]) -> list[Any]:
    """[component, seed] of components that have not grown and whose seeds would otherwise change. Two components with
    the same data have different seeds by their order in the blend, which changes if one of them has grown."""
    pairs = zip(streams.components, current_streams.components, strict=True)
    seeds = [(_latest_order(before.order).seed, _latest_order(current.order).seed) for before, current in pairs]
    return [
        [component, before]
        for component, (before, current) in enumerate(seeds)
        if before != current and component not in grown_components
    ]


def _check_old_data_intact(new_streams: OpenBlend, grown_components: Sequence[int]) -> None:
    """Raise StateMismatch if earlier data of a component that grew has changed."""
    for component in grown_components:
        if not is_complete(new_streams.components[component]):
            raise StateMismatch(
                "cannot adopt the new samples: shards that the job still needs were changed or removed",
                where=new_streams.component_names[component],
                hint=KEEP_OLD_DATASET_HINT,
            )


def _check_weights(dataset: BaseDataset, streams: OpenBlend, new_streams: OpenBlend, *, has_grown: bool) -> None:
    """Raise StateMismatch if weights in tokens change and may not: nothing that they count has grown, or the state
    lacks the earlier weights, by which samples of a component are counted."""
    before, current = ([each.order_facts.get(key) for key in WEIGHT_FACTS] for each in (streams, new_streams))
    may_change = has_grown or getattr(dataset, "adopt_weights", False)
    if before != current and not (may_change and edits_from_facts(streams.order_facts)):
        raise StateMismatch(
            "the mean sample lengths have changed, which changes the sample weights of the blend",
            hint=KEEP_OLD_DATASET_HINT,
        )


def _latest_order(order: SourceOrder) -> ShuffledOrder:
    """The order of the last version."""
    return order.latest if isinstance(order, GrownOrder) else order


def _add_version_end(
    past_versions: list[PastVersion], streams: OpenBlend, component: int, end: int
) -> list[PastVersion]:
    """The past versions with one more of this component, which ends at draw `end`. If no lane has begun the current
    version, it is left out as if it had never been."""
    if end == max((past.end_draw for past in past_versions if past.component == component), default=0):
        return past_versions
    present = _latest_order(streams.components[component].order)
    last = tuple(source.last_shard for source in streams.component_sources[component])
    return [
        *past_versions,
        PastVersion(component, end, present.n, present.seed, streams.order_facts["sources"][component], last),
    ]


def _version_end(
    streams: OpenBlend,
    refs: RefStage,
    lane_layout: LaneLayout,
    lane_states: Mapping[int, Mapping[str, Any]],
    component: int,
) -> int:
    """The draw of the job at which the last epoch of a component ends that any lane has begun."""
    order = streams.components[component].order
    if order.passes == WITH_REPLACEMENT:
        raise StateMismatch(
            "cannot adopt the new samples: sampling with replacement has no epochs, and new samples start with an "
            "epoch",
            where=streams.component_names[component],
            hint=KEEP_OLD_DATASET_HINT,
        )
    begun = 0
    for number, state in lane_states.items():
        lane = lane_layout.lanes[number]
        mixing = LaneMixture(refs.blends, refs.mix_seed, lane, state["weight_history"])
        taken = mixing.count_component(component, state["draws"])
        begun = max(begun, LaneOrder(order, lane, mixing.taken_at_splits(component)).end_of_begun_epoch(taken))
    return max(begun, order.versions[-1].begin) if isinstance(order, GrownOrder) else begun
