"""Earlier versions of a dataset that grew during a job: their orders, and the draws at which they ended.

A plan's `past_versions` are [component, draw, samples, seed, digest, [shard, ...]]: the component of the blend, the
draw at which this version of its data ended, the number of its samples, the seed of their order, the digest of the
data, and the last shard of each of its datasets. Shards that are added later have higher numbers, so the current
catalog is enough to read the data of earlier versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from wdsctl.core.blend import BlendComponent
from wdsctl.core.errors import InputError, StateMismatch
from wdsctl.loader.order.growth import GrownOrder
from wdsctl.loader.order.shuffle import ShuffledOrder
from wdsctl.loader.plan.component_orders import OrderSizes, shuffled_order
from wdsctl.loader.plan.components import Component, SourceRange, component_digest, open_source_ranges
from wdsctl.loader.plan.open_sources import SourceOpener
from wdsctl.loader.reading.source import SplitSource


class PastVersion(NamedTuple):
    """A version of a component's data that has ended: see the docstring of this module."""

    component: int
    end_draw: int
    samples: int
    seed: int
    digest: str
    last_shards: tuple[int, ...]


def read_past_versions(order_facts: dict[str, Any] | None) -> list[PastVersion]:
    """The past versions in the facts of a plan, in the order in which they ended."""
    found = [] if order_facts is None else order_facts.get("past_versions", [])
    return [
        PastVersion(component, end, samples, seed, facts, tuple(shards))
        for component, end, samples, seed, facts, shards in found
    ]


def past_versions_to_facts(versions: Sequence[PastVersion]) -> list[Any]:
    """The JSON that `read_past_versions` reads."""
    return [[*past[:-1], list(past.last_shards)] for past in versions]


def add_past_versions(
    components: Sequence[Component],
    past_versions: Sequence[PastVersion],
    entries: Sequence[BlendComponent],
    datasets: Sequence[Sequence[SplitSource]],
    sizes: OrderSizes,
    opener: SourceOpener,
) -> tuple[Component, ...]:
    """Extend each current component to all its versions, the current one last; one that never grew stays as it is.

    `entries`, `datasets`: of each component, the entry of the blend and the sources that `opener` opened for it. Data
    of a past version that has changed raises StateMismatch when it is read.
    """
    each = zip(components, entries, datasets, strict=True)
    return tuple(
        _add_past_versions(
            component, [past for past in past_versions if past.component == number], entry, sources, sizes, opener
        )
        for number, (component, entry, sources) in enumerate(each)
    )


def is_complete(component: Component) -> bool:
    """Whether all past and future data of a component is unchanged."""
    return not any(isinstance(piece.source, MissingSource) for piece in component.source_ranges)


class MissingSource:
    """A placeholder for data of a past version that has changed. Reading it raises StateMismatch."""

    def __init__(self, source: SplitSource, samples: int) -> None:
        self.number, self.dataset_path = source.number, source.dataset_path
        self.is_remote = False  # there is nothing to prefetch
        self.batch_fields = ()  # nor to compare
        self._samples = samples

    def block(self, *_: Any) -> Any:
        raise StateMismatch(
            f"the job still needs samples from before the dataset grew (of its {self._samples:,} samples), but some "
            "have changed or are missing",
            where=self.dataset_path,
            hint="restore the dataset and its .wdsctl folder from an older copy, or begin a new run",
        )

    def will_need(self, *_: Any) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _add_past_versions(
    component: Component,
    past_versions: Sequence[PastVersion],
    entry: BlendComponent,
    sources: Sequence[SplitSource],
    sizes: OrderSizes,
    opener: SourceOpener,
) -> Component:
    if not past_versions:
        return component
    orders = [
        shuffled_order(past.samples, past.seed, component.order.passes, sizes, component.order.turn_samples)
        for past in past_versions
    ]
    pieces = [piece for past in past_versions for piece in _past_source_ranges(past, entry, sources, opener)]
    order = GrownOrder([*orders, cast("ShuffledOrder", component.order)], [past.end_draw for past in past_versions])
    return Component(order, [*pieces, *component.source_ranges])


def _past_source_ranges(
    version: PastVersion, entry: BlendComponent, sources: Sequence[SplitSource], opener: SourceOpener
) -> list[SourceRange]:
    """The data of a past version, or a `MissingSource` if it has changed."""
    befores = (opener.source_up_to(source, shard) for source, shard in zip(sources, version.last_shards, strict=True))
    try:
        found = open_source_ranges(entry, lambda _: next(befores))
    except InputError:  # a subset or share of the remaining data is empty
        found = []
    if found and component_digest(found, version.component) == version.digest:
        return found
    return [
        SourceRange(
            cast("SplitSource", MissingSource(sources[0], version.samples)), 0, version.samples, version.samples
        )
    ]
