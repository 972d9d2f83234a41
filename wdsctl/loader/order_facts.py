"""The facts of a plan's first tier: all that decides which sample comes where, as a state keeps and compares it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wdsctl.loader.arm_orders import Sizes
from wdsctl.loader.arm_pieces import arm_digest
from wdsctl.loader.arms import Arm
from wdsctl.loader.blend_history import packed
from wdsctl.loader.dataset import Dataset, ValDataset
from wdsctl.loader.order.shuffle import AS_THEY_LIE, ORDER_VERSION
from wdsctl.loader.source import Source
from wdsctl.loader.value_digest import value_digest


def order_facts(
    dataset: Dataset, arms: Sequence[Arm], sources: Sequence[Source], sizes: Sizes, weights: Mapping[str, Any]
) -> dict[str, Any]:
    """Of arms as they are now, without what they were; `weights`: the facts of these. JSON.

    Raises what `Source.column_digest` raises, where packs or buckets go by columns.
    """
    facts = {
        "order_version": ORDER_VERSION,
        "split": dataset.split_part,
        "samples": sum(arm.order.n for arm in arms),
        "sources": [arm_digest(arm.pieces, number) for number, arm in enumerate(arms)],
        **weights,
        "shuffle_over_epochs_multiplier": _multiplier(arms),
        "seed": dataset.seed,
        "seed_offset": dataset.worker_config.seed_offset,
        "lanes": sizes.lanes,
        "slice": sizes.slice_samples,
        "window": sizes.window_samples,
        "parallel": sizes.parallel,
        "apart": sizes.apart,
        "turns": packed(sizes.turns),
    }
    if isinstance(dataset, ValDataset):
        facts["validation"] = True  # its lanes are never split, and every pass is the same
    if views := {str(source.number): source.view for source in sources if source.view}:
        facts["views"] = views
    if columns := _columns(dataset):
        digests = [source.column_digest(name) for source in sources if not source.is_member for name in columns]
        facts["columns"] = value_digest(digests)[:16]
    return facts


def _multiplier(arms: Sequence[Arm]) -> Any:
    """How all arms are shuffled, in the words of `get_train_dataset`; a digest where they differ."""
    each = [None if arm.order.passes == AS_THEY_LIE else arm.order.passes for arm in arms]
    return each[0] if len(set(each)) == 1 else value_digest(each)[:8]


def _columns(dataset: Dataset) -> list[str]:
    """The columns that packs or buckets are made by: with other values, other samples would come together."""
    of_packs = list(dataset.packing.columns or ()) if dataset.packing is not None else []
    of_buckets = [dataset.buckets.column] if dataset.buckets is not None and dataset.buckets.column else []
    return of_packs + of_buckets
