"""The orders of a blend's components: chooses the sizes that the recipe leaves open, and gives each order its seed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from wdsctl.core.blend import BlendComponent
from wdsctl.core.errors import StateMismatch
from wdsctl.core.hashing import derive_seed
from wdsctl.core.storage.storage import is_any_remote
from wdsctl.loader.order.shuffle import UNSHUFFLED, ShuffledOrder, slice_size
from wdsctl.loader.plan.components import SourceRange, component_data_digest
from wdsctl.loader.plan.run_lengths import run_length_decode
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.recipe.dataset import (
    LANES_PER_RANK,
    VALIDATION_LANES,
    BaseDataset,
    TrainDataset,
    is_count_preserving,
)
from wdsctl.loader.runtime.logs import logger

LOCAL_SLICE_SAMPLES, REMOTE_SLICE_SAMPLES = 16, 128  # samples read together, by default
MIN_WINDOW_SLICES = 4  # slices in a window; with fewer, a batch is hardly mixed


@dataclass(frozen=True, slots=True)
class OrderSizes:
    """The sizes of an order, chosen where the recipe leaves them open. They are part of the order; a resumed run takes
    them from the state."""

    lanes: int
    slice_samples: int
    window_samples: int
    min_window_slices: int  # minimum number of slices that are shuffled together
    max_batch_samples: int  # maximum number of samples of a source in one batch
    turn_samples: tuple[
        int, ...
    ]  # of each entry of the blend: samples that a lane draws of it in its turn, which is a batch


def choose_order_sizes(
    dataset: BaseDataset,
    sources: Sequence[SplitSource],
    saved_order: Mapping[str, Any] | None,
    weights: Sequence[Fraction],
    unshuffled: Collection[int] = (),
) -> OrderSizes:
    """The sizes in the recipe, or else those chosen when the run began, for any present ranks, disks and batch size.

    `saved_order`: the facts of a state's order. `weights`: of the blend's entries at the beginning. `unshuffled`:
    numbers of the entries that are not shuffled.
    """
    of_ranks = LANES_PER_RANK * dataset.worker_config.world_size
    chosen = of_ranks if isinstance(dataset, TrainDataset) else VALIDATION_LANES
    lanes = dataset.lanes or (saved_order["lanes"] if saved_order is not None else chosen)
    if not isinstance(dataset, TrainDataset):
        return OrderSizes(lanes, 1, 1, 1, 1, (1,) * len(weights))
    if dataset.max_samples_per_sequence:
        slice_samples = dataset.max_samples_per_sequence
    elif saved_order is not None:
        slice_samples = saved_order["max_samples_per_sequence"]
    else:  # one size for the whole blend
        is_remote = is_any_remote({source.root for source in sources})
        slice_samples = REMOTE_SLICE_SAMPLES if is_remote else LOCAL_SLICE_SAMPLES
    if saved_order is not None:
        turns, max_batch_samples = run_length_decode(saved_order["turn_samples"]), saved_order["max_batch_samples"]
        if len(turns) != len(weights):
            raise StateMismatch(
                f"the blend of the state has {len(turns)} entries, but this blend has {len(weights)}",
                hint="resume with the blend of the run that saved the state",
            )
    else:
        is_counted = is_count_preserving(dataset)
        max_batch_samples = dataset.batch_size or 1 if is_counted else 1
        total = sum(weights)  # once: a sum of fractions for each entry would grow with the square of their number
        # If hooks decide how many samples are in a batch, unshuffled entries take turns of a slice.
        turns = tuple(
            slice_samples if i in unshuffled and not is_counted else max(1, round(max_batch_samples * weight / total))
            for i, weight in enumerate(weights)
        )
    return OrderSizes(
        lanes, slice_samples, dataset.shuffle_buffer_size or 1, dataset.parallel_shard_iters, max_batch_samples, turns
    )


def component_orders(
    dataset: BaseDataset,
    component_plans: Sequence[BlendComponent],
    source_ranges: Sequence[Sequence[SourceRange]],
    sizes: OrderSizes,
    turn_samples: Sequence[int],
    growth_draws: Mapping[int, int],
    saved_seeds: Mapping[int, int],
) -> list[ShuffledOrder]:
    """The current order of each component.

    `turn_samples`: samples that a lane draws of each in its turn. `growth_draws`: the draw at which the current data of
    a component begins, by the numbers of those that grew. `saved_seeds`: seeds that a state keeps for components that
    stayed the same while others grew.

    If the same data is in a blend twice, each component has a different order, and so has the data of a dataset that
    grew. Raises UsageError as `ShuffledOrder` does.
    """
    orders = []
    seen: dict[str, int] = {}
    for number, (plan, ranges, turn) in enumerate(zip(component_plans, source_ranges, turn_samples, strict=True)):
        data = component_data_digest(ranges)
        occurrence = seen[data] = seen.get(data, -1) + 1
        key = derive_seed("order", dataset.seed, dataset.worker_config.seed_offset, occurrence)
        seed = key if len(component_plans) == 1 else derive_seed("arm", key, data)
        seed = derive_seed("era", seed, growth_draws[number]) if number in growth_draws else seed
        seed = saved_seeds.get(number, seed)
        passes = UNSHUFFLED if plan.multiplier is None else plan.multiplier
        orders.append(shuffled_order(sum(piece.samples for piece in ranges), seed, passes, sizes, turn))
    return orders


def warn_about_window_size(dataset: BaseDataset, orders: Sequence[ShuffledOrder]) -> None:
    """Warn if the chosen sizes shuffle so little that batches consist of neighbours.

    Energon's guides give 100 for both sizes, but Energon reads 16 slices at once.
    """
    if not isinstance(dataset, TrainDataset) or not dataset.max_samples_per_sequence:
        return
    if (dataset.shuffle_buffer_size or 1) == 1:  # the order of the dataset is intended
        return
    for each in orders:
        if each.passes != UNSHUFFLED and each.window_samples < min(MIN_WINDOW_SLICES * each.slice_samples, each.n):
            logger.warning(
                "windows of %d samples hold %d slices of %d: batches would contain neighbouring samples of a shard; "
                "pass parallel_shard_iters=16 or a larger shuffle_buffer_size to mix more slices",
                each.window_samples,
                each.window_samples // each.slice_samples,
                each.slice_samples,
            )
            return


def warn_about_batch_size(dataset: BaseDataset, orders: Sequence[ShuffledOrder]) -> None:
    """Warn if an endless training has fewer samples than a batch, so that every batch has samples several times."""
    samples = sum(each.n for each in orders)
    if isinstance(dataset, TrainDataset) and dataset.repeat and samples < (dataset.batch_size or 0):
        logger.warning(
            "the dataset has %d samples, fewer than a batch of %d: every batch has some of them several times; pass a "
            "smaller batch_size, or repeat=False for one incomplete batch per epoch",
            samples,
            dataset.batch_size,
        )


def shuffled_order(n: int, seed: int, passes: int, sizes: OrderSizes, turn_samples: int) -> ShuffledOrder:
    """The order of n samples, in slices and windows of these sizes."""
    size = slice_size(n, sizes.lanes, sizes.slice_samples)
    window = max(sizes.window_samples, sizes.min_window_slices * size)
    return ShuffledOrder(
        n=n,
        slice_samples=size,
        window_samples=window,
        seed=seed,
        passes=passes,
        lanes=sizes.lanes,
        turn_samples=turn_samples,
        max_batch_samples=sizes.max_batch_samples,
    )
