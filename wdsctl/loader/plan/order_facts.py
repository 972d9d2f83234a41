"""The facts of a plan's first tier, which states keep and compare: all that determines the position of every sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wdsctl.loader.order.shuffle import ORDER_VERSION, UNSHUFFLED
from wdsctl.loader.plan.component_orders import OrderSizes
from wdsctl.loader.plan.components import Component, component_digest
from wdsctl.loader.plan.weights import run_length_encode
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.recipe.dataset import BaseDataset, ValDataset
from wdsctl.loader.runtime.identity import value_digest


def order_facts(
    dataset: BaseDataset,
    components: Sequence[Component],
    sources: Sequence[SplitSource],
    sizes: OrderSizes,
    weights: Mapping[str, Any],
) -> dict[str, Any]:
    """The facts of current components, without past versions; `weights`: their facts. JSON.

    Raises what `SplitSource.column_digest` raises, if packs or buckets use columns.
    """
    facts = {
        "order_version": ORDER_VERSION,
        "split": dataset.split_part,
        "samples": sum(component.order.n for component in components),
        "sources": [component_digest(component.source_ranges, number) for number, component in enumerate(components)],
        **weights,
        "shuffle_over_epochs_multiplier": _multiplier(components),
        "seed": dataset.seed,
        "seed_offset": dataset.worker_config.seed_offset,
        "lanes": sizes.lanes,
        "max_samples_per_sequence": sizes.slice_samples,
        "shuffle_buffer_size": sizes.window_samples,
        "parallel_shard_iters": sizes.min_window_slices,
        "max_batch_samples": sizes.max_batch_samples,
        "turn_samples": run_length_encode(sizes.turn_samples),
    }
    if isinstance(dataset, ValDataset):
        facts["validation"] = True  # its lanes are never split, and every pass is the same
    if views := {str(source.number): source.view_hash for source in sources if source.view_hash}:
        facts["views"] = views
    if columns := _order_columns(dataset):
        digests = [source.column_digest(name) for source in sources if not source.is_member for name in columns]
        facts["columns"] = value_digest(digests)[:16]
    return facts


def _multiplier(components: Sequence[Component]) -> Any:
    """The shuffle_over_epochs_multiplier of all components; a digest if they differ."""
    each = [None if component.order.passes == UNSHUFFLED else component.order.passes for component in components]
    return each[0] if len(set(each)) == 1 else value_digest(each)[:8]


def _order_columns(dataset: BaseDataset) -> list[str]:
    """The columns that packs or buckets use: with other values, other samples would be combined."""
    lengths = dataset.packing.lengths.values() if dataset.packing is not None else ()
    of_packs = [length for length in lengths if isinstance(length, str)]  # other budgets may use functions
    of_buckets = [dataset.buckets.column] if dataset.buckets is not None and dataset.buckets.column else []
    return of_packs + of_buckets
