"""The orders of the arms of a blend: the sizes that a recipe left open are chosen, and every arm gets its seed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from wdsctl.core.blend_file import Arm as ArmPlan
from wdsctl.core.keys import derive
from wdsctl.core.storage import is_any_remote
from wdsctl.loader.arm_pieces import data_digest
from wdsctl.loader.arms import Piece
from wdsctl.loader.blend_history import unpacked
from wdsctl.loader.dataset import (
    LANES_A_RANK,
    LANES_OF_VALIDATION,
    Dataset,
    TrainDataset,
    is_count_preserving,
)
from wdsctl.loader.logs import log
from wdsctl.loader.order.shuffle import AS_THEY_LIE, Shuffled, slice_size
from wdsctl.loader.source import Source

SLICE_LOCAL, SLICE_REMOTE = 16, 128  # samples read together, where nobody says otherwise
FEW = 4  # slices in a window, below which a batch is hardly mixed


@dataclass(frozen=True, slots=True)
class Sizes:
    """What was chosen where the recipe left it open: part of the order, and taken from the state on a resume."""

    lanes: int
    slice_samples: int
    window_samples: int
    parallel: int  # slices that are shuffled together at least
    apart: int  # at most so many samples of a source are in one batch
    turns: tuple[int, ...]  # of each entry of the blend: samples that a lane draws of it in its turn, which is a batch


def sizes_of(
    dataset: Dataset,
    sources: Sequence[Source],
    was: Mapping[str, Any] | None,
    weights: Sequence[Fraction],
    as_they_lie: Collection[int] = (),
) -> Sizes:
    """What the recipe says. Where it says nothing, what was chosen when the run began, whatever ranks and disks it has
    now, and however large its batches: `was` are the facts of the order that a state has. `weights`: those of the
    entries of the blend, to begin with. `as_they_lie`: the numbers of those that are not shuffled."""
    of_ranks = LANES_A_RANK * dataset.worker_config.world_size
    chosen = of_ranks if isinstance(dataset, TrainDataset) else LANES_OF_VALIDATION
    lanes = dataset.lanes or (was["lanes"] if was is not None else chosen)
    if not isinstance(dataset, TrainDataset):
        return Sizes(lanes, 1, 1, 1, 1, (1,) * len(weights))
    wanted = dataset.max_samples_per_sequence or (was["slice"] if was is not None else _slice_for(sources))
    if was is not None:
        turns, apart = unpacked(was["turns"]), was["apart"]
    else:
        is_counted = is_count_preserving(dataset)
        apart = dataset.batch_size or 1 if is_counted else 1
        # A batch is no number of samples where hooks decide: as they lie, neighbours are read together then.
        turns = tuple(
            wanted if i in as_they_lie and not is_counted else max(1, round(apart * weight / sum(weights)))
            for i, weight in enumerate(weights)
        )
    return Sizes(lanes, wanted, dataset.shuffle_buffer_size or 1, dataset.parallel_shard_iters, apart, turns)


def orders_of(
    dataset: Dataset,
    plans: Sequence[ArmPlan],
    pieces: Sequence[Sequence[Piece]],
    sizes: Sizes,
    turns: Sequence[int],
    grown: Mapping[int, int],
    kept: Mapping[int, int],
) -> list[Shuffled]:
    """The order of each arm, of what it is now.

    `turns`: samples that a lane draws of each in its turn. `grown`: of arms whose data has grown under the job, by
    their number, the draw that this begins at. `kept`: of arms that are the same while others have grown, seeds that a
    state keeps.

    Where the same data stands twice in a blend, each time has an order of its own, and so has what is there since a
    dataset has grown. Raises UsageError for what `Shuffled` refuses.
    """
    orders = []
    seen: dict[str, int] = {}
    for number, (plan, arm, turn) in enumerate(zip(plans, pieces, turns, strict=True)):
        data = data_digest(arm)
        occurrence = seen[data] = seen.get(data, -1) + 1
        key = derive("order", dataset.seed, dataset.worker_config.seed_offset, occurrence)
        seed = key if len(plans) == 1 else derive("arm", key, data)
        seed = derive("era", seed, grown[number]) if number in grown else seed
        seed = kept.get(number, seed)
        passes = AS_THEY_LIE if plan.multiplier is None else plan.multiplier
        orders.append(shuffled(sum(piece.samples for piece in arm), seed, passes, sizes, turn))
    return orders


def tell_of_neighbours(dataset: Dataset, orders: Sequence[Shuffled]) -> None:
    """Say so where sizes that somebody chose shuffle so little that batches are of neighbours.

    Energon's guides give 100 for both, and there 16 slices are open at once.
    """
    if not isinstance(dataset, TrainDataset) or not dataset.max_samples_per_sequence:
        return
    if (dataset.shuffle_buffer_size or 1) == 1:  # neighbours were asked for
        return
    for each in orders:
        if each.passes != AS_THEY_LIE and each.window_samples < min(FEW * each.slice_samples, each.n):
            log.warning(
                "windows of %d samples hold %d slices of %d: batches are of neighbours in the shards; "
                "parallel_shard_iters=16, or a larger shuffle_buffer_size, mixes more of them",
                each.window_samples,
                each.window_samples // each.slice_samples,
                each.slice_samples,
            )
            return


def shuffled(n: int, seed: int, passes: int, sizes: Sizes, turn: int) -> Shuffled:
    """The order of n samples, in slices and windows of these sizes."""
    size = slice_size(n, sizes.lanes, sizes.slice_samples)
    window = max(sizes.window_samples, sizes.parallel * size)
    return Shuffled(
        n=n,
        slice_samples=size,
        window_samples=window,
        seed=seed,
        passes=passes,
        lanes=sizes.lanes,
        turn=turn,
        apart=sizes.apart,
    )


def _slice_for(sources: Sequence[Source]) -> int:
    """One answer for the whole blend: the far stores decide, where there are any."""
    return SLICE_REMOTE if is_any_remote({source.root for source in sources}) else SLICE_LOCAL
