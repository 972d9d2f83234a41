"""The facts of a plan's first tier, which states keep and compare: all that determines the position of every sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wdsctl.core.checkpoint.state import damaged_state_error, is_count
from wdsctl.core.text import short_repr
from wdsctl.loader.order.shuffle import ORDER_VERSION, UNSHUFFLED
from wdsctl.loader.plan.component_orders import OrderSizes
from wdsctl.loader.plan.components import Component, component_digest
from wdsctl.loader.plan.run_lengths import is_run_length_text, run_length_encode
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


def checked_order_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a state, from which the loader takes sizes, seeds, weights and past versions. Raises StateMismatch
    WDS502 for facts that no plan has."""
    sources = facts.get("sources")
    found = [name for name in _SIZE_FACTS if name in facts and not is_count(facts[name], 1)]
    found += [name for name, is_valid in _FACT_CHECKS.items() if name in facts and not is_valid(facts[name])]
    if not isinstance(sources, list) or not all(isinstance(each, str) for each in sources):
        found.append("sources")
    elif any(
        each[0] >= len(sources)
        for name in ("past_versions", "seeds")
        if name not in found
        for each in facts.get(name, [])
    ):
        found.append("past_versions or seeds")
    missing = [name for name in (*_SIZE_FACTS, "turn_samples") if name not in facts]
    if found or missing:
        name = (found or missing)[0]
        problem = f"{name!r} is {short_repr(facts.get(name))}" if name in facts else f"it lacks {name!r}"
        raise damaged_state_error(f"the plan's order is invalid: {problem}")
    return facts


def _are_rows(value: Any, is_valid: Callable[[list[Any]], bool], width: int) -> bool:
    """Whether a value is a list of lists of this width that are valid."""
    return isinstance(value, list) and all(type(row) is list and len(row) == width and is_valid(row) for row in value)


def _is_past_version(row: list[Any]) -> bool:
    component, end, samples, seed, digest, shards = row
    is_valid = is_count(component) and is_count(end, 1) and is_count(samples, 1) and type(seed) is int
    return is_valid and isinstance(digest, str) and isinstance(shards, list) and all(map(is_count, shards))


_SIZE_FACTS = ("lanes", "max_samples_per_sequence", "max_batch_samples")
_FACT_CHECKS: dict[str, Callable[[Any], bool]] = {
    "turn_samples": lambda value: is_run_length_text(value, 1),
    "weights": lambda value: isinstance(value, str),
    "weight_edits": lambda value: _are_rows(value, lambda row: is_count(row[0]) and isinstance(row[1], str), 2),
    "schedule_world_size": lambda value: is_count(value, 1),
    "seeds": lambda value: _are_rows(value, lambda row: is_count(row[0]) and type(row[1]) is int, 2),
    "past_versions": lambda value: _are_rows(value, _is_past_version, 6),
}


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
