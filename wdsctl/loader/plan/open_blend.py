"""A blend, opened: datasets, orders and weights, from which every lane of every rank can run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

from wdsctl.core.blend import BlendComponent
from wdsctl.core.checkpoint.state import describe_differences
from wdsctl.core.errors import StateMismatch, UsageError, WdsctlError, join_indented
from wdsctl.loader.lanes.mixture import Mixture
from wdsctl.loader.order.growth import GrownOrder
from wdsctl.loader.plan.component_orders import (
    OrderSizes,
    choose_order_sizes,
    component_orders,
    warn_about_batch_size,
    warn_about_window_size,
)
from wdsctl.loader.plan.components import Component, SourceRange, open_source_ranges
from wdsctl.loader.plan.growth import add_past_versions, past_versions_to_facts, read_past_versions
from wdsctl.loader.plan.open_sources import FileStamp, SourceOpener
from wdsctl.loader.plan.order_facts import checked_order_facts, order_facts
from wdsctl.loader.plan.weight_history import saved_edits
from wdsctl.loader.plan.weights import blend_weights, sample_weights, used_entries
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.recipe.dataset import BaseDataset, TrainDataset, read_blend_plan
from wdsctl.loader.runtime.logs import logger

MAX_DATASETS_NAMED = 3  # datasets in one message


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBlend:
    """`mixtures`: one for each segment of the weights' history; they begin at the batches `begin_batches` of the job.

    `initial_components`: how many components the job began with; the others were raised from weight 0 since. `sources`:
    in the order in which they were opened, members of joins too, with the `generations` that are read.
    `component_sources`: the sources of each component. `past_sources`: earlier versions of sources that components
    still read. `order_facts`: the first tier of the plan. `store_generations`: of auxiliary stores, by reference.
    `catalog_stamps`: of the catalogs before they were read, by path. `outgrown_datasets`: the datasets that have later
    generations. `known_to_state`: the part of these facts that a state knows, if it is less.
    """

    components: tuple[Component, ...]
    initial_components: int
    mixtures: tuple[Mixture, ...]
    begin_batches: tuple[int, ...]
    sources: tuple[SplitSource, ...]
    component_sources: tuple[tuple[SplitSource, ...], ...]
    past_sources: tuple[SplitSource, ...]
    sizes: OrderSizes
    generations: list[int]
    order_facts: dict[str, Any]
    store_generations: dict[str, int] = field(default_factory=dict)
    catalog_stamps: dict[str, FileStamp] = field(default_factory=dict)
    outgrown_datasets: tuple[str, ...] = ()
    known_to_state: OpenBlend | None = None

    @property
    def samples(self) -> int:
        """Samples of all components, in one pass over each."""
        return sum(component.order.n for component in self.components)

    @property
    def initial_samples(self) -> int:
        """Samples of all components when the job began. Windows of packs are bounded by it, and must not change during
        a job."""
        orders = [component.order for component in self.components[: self.initial_components]]
        return sum(order.versions[0].order.n if isinstance(order, GrownOrder) else order.n for order in orders)

    @property
    def component_names(self) -> tuple[str, ...]:
        """The paths that each component reads, for messages."""
        return tuple(", ".join(source.dataset_path for source in sources) for sources in self.component_sources)

    def close(self) -> None:
        """Close all sources. The next read reopens them."""
        for source in (*self.sources, *self.past_sources):
            source.close()


def open_blend(
    dataset: BaseDataset,
    saved: dict[str, Any] | None = None,
    *,
    new_weights_from: int | None = None,
    store_generations: dict[str, int] | None = None,
) -> OpenBlend:
    """Open all datasets of a plan, in their current state or in that of the state `saved`.

    `new_weights_from`: weights that differ from those of `saved` apply from this batch of the job on; without it they
    belong to another plan. `store_generations`: generations of auxiliary stores, by reference; other stores are opened
    in the current one. If a generation of `saved` is gone, the current one is opened; raises StateMismatch unless its
    data is the same. Raises what `wdsctl.core.blend.read_blend` and `SourceOpener` raise.
    """
    plan = read_blend_plan(dataset)
    saved_order = None if saved is None else checked_order_facts(saved["plan"]["order"])
    edits = saved_edits(saved_order, len(plan.components))
    used, known_count = used_entries(plan, edits, saved_order, may_add_entries=new_weights_from is not None)
    entry_numbers = [i for each in used for i in each]
    entries = [plan.components[i] for i in entry_numbers]
    _check_repeat(dataset, entries)
    opener = SourceOpener(dataset, None if saved is None else saved["generations"], store_generations)
    source_ranges: list[list[SourceRange]] = []
    component_sources: list[tuple[SplitSource, ...]] = []
    gone_errors: dict[int, StateMismatch] = {}
    for number, entry in enumerate(entries):
        before = len(opener.sources)
        if number == known_count:
            opener.use_current_generations()
        with _collect_gone_errors(opener, number, gone_errors):
            source_ranges.append(open_source_ranges(entry, opener.open))
        component_sources.append(tuple(each for each in opener.sources[before:] if not each.is_member))
    segment_weights = sample_weights(plan, entry_numbers, source_ranges)
    first = dict(zip(entry_numbers, segment_weights[0], strict=True))
    entry_weights = [first.get(i, Fraction(0)) for i in range(len(plan.components))]
    unshuffled = {i for i, component in enumerate(plan.components) if component.multiplier is None}
    sizes = choose_order_sizes(dataset, opener.sources, saved_order, entry_weights, unshuffled)
    past_versions = read_past_versions(saved_order)
    seeds = dict((saved_order or {}).get("seeds", []))
    growth_draws = {past.component: past.end_draw for past in past_versions}
    turn_samples = [sizes.turn_samples[i] for i in entry_numbers]
    orders = component_orders(dataset, entries, source_ranges, sizes, turn_samples, growth_draws, seeds)
    if known_count < len(entries):  # a component that was the only one keeps its seed
        known_orders = component_orders(
            dataset,
            entries[:known_count],
            source_ranges[:known_count],
            sizes,
            turn_samples[:known_count],
            growth_draws,
            seeds,
        )
        seeds |= {
            component: had.seed for component, had in enumerate(known_orders) if had.seed != orders[component].seed
        }
        orders = component_orders(dataset, entries, source_ranges, sizes, turn_samples, growth_draws, seeds)
    if saved is None:
        warn_about_window_size(dataset, orders)
        warn_about_batch_size(dataset, orders)
        _warn_of_unused_parts(dataset, opener.sources)
    components = tuple(map(Component, orders, source_ranges))
    weights = blend_weights(
        plan,
        used,
        segment_weights,
        edits,
        new_weights_from=new_weights_from,
        saved_order=saved_order,
        world_size=dataset.worker_config.world_size,
    )
    facts = partial(order_facts, dataset, sizes=sizes, weights=weights.facts)
    growth_facts = {"past_versions": past_versions_to_facts(past_versions)} if past_versions else {}
    seed_facts = {"seeds": [list(each) for each in seeds.items()]} if seeds else {}
    order = {**facts(components, opener.sources), **seed_facts, **growth_facts}
    _check_gone_generations(gone_errors, saved_order or {}, order)
    grown_components = (
        add_past_versions(components, past_versions, entries, component_sources, sizes, opener)
        if past_versions
        else components
    )
    streams = OpenBlend(
        components=grown_components,
        initial_components=len(used[0]),
        mixtures=weights.mixtures,
        begin_batches=weights.begin_batches,
        sources=tuple(opener.sources),
        component_sources=tuple(component_sources),
        past_sources=tuple(opener.past_sources),
        sizes=sizes,
        generations=opener.generations,
        order_facts=order,
        store_generations=opener.store_generations,
        catalog_stamps=opener.catalog_stamps,
        outgrown_datasets=opener.outgrown_datasets,
    )
    if saved_order is None or known_count == len(entries):
        return streams
    sources = tuple(opener.sources[: len(saved["generations"])]) if saved is not None else ()
    seed_facts = {"seeds": saved_order["seeds"]} if "seeds" in saved_order else {}
    known_order = {**facts(components[:known_count], sources), **seed_facts, **growth_facts}
    known_streams = replace(
        streams,
        components=grown_components[:known_count],
        sources=sources,
        component_sources=streams.component_sources[:known_count],
        order_facts=known_order,
    )
    return replace(streams, known_to_state=known_streams)


def _check_gone_generations(
    gone_errors: Mapping[int, StateMismatch], saved_order: Mapping[str, Any], order: Mapping[str, Any]
) -> None:
    """Raise the error of the first component, a generation of which is gone and whose data has changed since."""
    for component, error in gone_errors.items():
        if saved_order["sources"][component] != order["sources"][component]:
            raise error


@contextmanager
def _collect_gone_errors(opener: SourceOpener, number: int, gone_errors: dict[int, StateMismatch]) -> Iterator[None]:
    """Add the first error of a generation that is gone, of the datasets that are opened in this context for component
    `number`. Raises it if they cannot be opened: the data of the state is not that of today."""
    before = len(opener.gone_errors)
    try:
        yield
    except WdsctlError as error:
        if len(opener.gone_errors) > before:
            raise opener.gone_errors[before] from error
        raise
    if len(opener.gone_errors) > before:
        gone_errors[number] = opener.gone_errors[before]


def reopen_blend(
    dataset: BaseDataset, generations: list[int], order_facts: dict[str, Any], store_generations: dict[str, int]
) -> OpenBlend:
    """Open the same blend in a process that has only the recipe. Raises StateMismatch if the data has changed."""
    streams = open_blend(
        dataset, {"generations": generations, "plan": {"order": order_facts}}, store_generations=store_generations
    )
    lines = describe_differences(order_facts, streams.order_facts, ("when the training began", "now"))
    if lines:
        raise StateMismatch(
            join_indented("the dataset has changed during the training, so a new worker cannot continue:", *lines),
            hint="save a state and resume from it; do not change splits or columns while a training runs",
        )
    return streams


def _warn_of_unused_parts(dataset: BaseDataset, sources: Sequence[SplitSource]) -> None:
    """Warn once which parts no field takes: otherwise a batch without them would be the first sign."""
    if dataset.worker_config.rank:
        return
    found = {(source.dataset_path, source.sample_type): source.unused_parts for source in sources}
    lines = [
        f"{', '.join(parts)} of {path} ({kind})" for (path, kind), parts in sorted(found.items()) if parts
    ]  # by datasets: a blend may have one of them often
    if lines:
        more = f" and of {len(lines) - MAX_DATASETS_NAMED} more datasets" if len(lines) > MAX_DATASETS_NAMED else ""
        logger.warning(
            "WDS519: the loader ignores these parts, because no field uses them: %s%s; map them to fields in "
            "dataset.yaml, or set `sample_type: CrudeSample` there to get all parts",
            "; ".join(lines[:MAX_DATASETS_NAMED]),
            more,
        )


def _check_repeat(dataset: BaseDataset, entries: Sequence[BlendComponent]) -> None:
    """Raise UsageError for one pass over a blend that draws by weight."""
    if len(entries) > 1 and isinstance(dataset, TrainDataset) and not dataset.repeat:
        raise UsageError(
            "repeat=False needs a pass that ends, but a blend with weights never ends",
            where=entries[1].where,
            hint="write `blend_epochized` with the repetitions of each dataset in the blend file, or pass repeat=True",
        )
