"""Connects an endless training to its shard cache: which components are cached, and which lanes the rank reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wdsctl.core.hashing import json_digest
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.urls import url_identity
from wdsctl.loader.lanes.mixture import LaneMixture
from wdsctl.loader.lanes.rank_lanes import Lane
from wdsctl.loader.order.shuffle import ShuffledOrder
from wdsctl.loader.pipeline.references import RefStage
from wdsctl.loader.plan.components import Component, component_data_digest
from wdsctl.loader.plan.open_blend import OpenBlend
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.recipe.dataset import BaseDataset

if TYPE_CHECKING:
    from wdsctl.loader.stores.shard_cache import OpenShardCache

MIN_SHARE = 1e-9  # of a component that is not drawn from at first


def bind_shard_cache(dataset: BaseDataset, streams: OpenBlend) -> OpenShardCache | None:
    """Let the components of a blend read through the dataset's shard cache; None if there is nothing to cache.

    Components without windows are not cached, nor those that have grown during the job.
    """
    if dataset.shard_cache is None:
        return None
    from wdsctl.loader.stores.shard_cache import CachedOrder

    numbers = _cached_components(streams)
    if not numbers:
        return None
    shares = streams.mixtures[0].shares
    orders = []
    for number in numbers:
        component = streams.components[number]
        if isinstance(component.order, ShuffledOrder):
            orders.append(CachedOrder(component.order, _digest(component), max(MIN_SHARE, float(shares[number]))))
    cache = dataset.shard_cache.open(orders)
    if cache is not None:
        for i, number in enumerate(numbers):
            streams.components[number].cached_units = cache.component(i)
    return cache


def record_lanes(
    cache: OpenShardCache,
    streams: OpenBlend,
    refs: RefStage,
    rank: int,
    lanes: Iterable[tuple[Lane, Mapping[str, Any]]],
) -> None:
    """Tell the processes of this machine which lanes the rank reads. `lanes`: with their states, empty at first."""
    from wdsctl.loader.stores.shard_cache import LaneFacts

    numbers = _cached_components(streams)
    facts = []
    for lane, state in lanes:
        mixing = LaneMixture(refs.blends, refs.mix_seed, lane, state.get("weight_history", ()))
        taken = [list(mixing.taken_at_splits(number)) for number in numbers]
        facts.append(LaneFacts(lane.root, [list(split) for split in lane.splits], taken))
    cache.set_lanes(rank, facts)


def _cached_components(streams: OpenBlend) -> list[int]:
    return [
        number
        for number, component in enumerate(streams.components)
        if component.is_remote and isinstance(component.order, ShuffledOrder) and not component.order.is_direct
    ]


def _digest(component: Component) -> str:
    """A digest of what is read of a component: its data, which parts of it, and which versions of which objects.

    The data alone does not tell the bytes: shards with samples of equal keys and sizes have the same layout.
    """
    sources = [piece.source for piece in component.source_ranges]
    return json_digest(
        [
            component_data_digest(component.source_ranges),
            [source.parts_read for source in sources],
            [[url_identity(source.root), _shard_versions(source)] for source in sources],
        ]
    )


def _shard_versions(source: SplitSource) -> list[list[int]]:
    """(id, number of the ETag) of the shards of a source, as they were indexed."""
    if source.location is None:
        return []
    with OpenDataset(source.location) as dataset:
        versions = {row.id: row.mtime_ns for row in dataset.catalog.shards()}
    return [[shard.id, versions.get(shard.id, 0)] for shard in source.offsets.shards]
