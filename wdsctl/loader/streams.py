"""A blend, opened: datasets, orders and weights, from which every lane of every rank can be run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from wdsctl.core.blend_file import Arm as ArmPlan
from wdsctl.core.blend_file import Blender, BlendPlan, Leaf, read_blend, resolve
from wdsctl.core.errors import InputError, StateMismatch, UsageError
from wdsctl.core.job_state import differences
from wdsctl.core.keys import derive
from wdsctl.core.storage import is_remote
from wdsctl.core.urls import is_url
from wdsctl.loader.arms import Arm, Piece
from wdsctl.loader.dataset import LANES_A_RANK, Dataset, TrainDataset
from wdsctl.loader.opening import Opener
from wdsctl.loader.order.blend import Blend, integer_weights
from wdsctl.loader.order.shuffle import AS_THEY_LIE, ORDER_VERSION, Shuffled, slice_size
from wdsctl.loader.source import Source

SLICE_LOCAL, SLICE_REMOTE = 16, 128  # samples read together, where nobody says otherwise
TOKENS = "tokens"  # the column that weights in tokens go by


@dataclass(frozen=True, slots=True)
class Sizes:
    """What was chosen where the recipe left it open: part of the order, and taken from the state on a resume."""

    lanes: int
    slice_samples: int
    window_samples: int
    parallel: int  # slices that are shuffled together at least


@dataclass(frozen=True, slots=True)
class Streams:
    """`blends`: one for each segment of the schedule, which begin at the training steps `steps`.

    `order`: the facts of the plan's first tier.
    """

    arms: tuple[Arm, ...]
    blends: tuple[Blend, ...]
    steps: tuple[int, ...]
    sources: tuple[Source, ...]
    sizes: Sizes
    generations: list[int]
    order: dict[str, Any]

    @property
    def samples(self) -> int:
        """Of all arms, in one pass over each."""
        return sum(arm.order.n for arm in self.arms)

    @property
    def names(self) -> tuple[str, ...]:
        """What each arm reads, for people."""
        return tuple(", ".join(piece.source.dataset_path for piece in arm.pieces) for arm in self.arms)

    def close(self) -> None:
        for source in self.sources:
            source.close()


def plan_of(dataset: Dataset) -> BlendPlan:
    """The flat plan of what a dataset names: a prepared dataset, a blend file, a mapping, a Blender or a plan."""
    path = dataset.path
    if isinstance(path, BlendPlan):
        return path
    mode: Any = "train" if isinstance(dataset, TrainDataset) else "val"
    multiplier = dataset.shuffle_over_epochs_multiplier if isinstance(dataset, TrainDataset) else None
    read = path.plan if isinstance(path, Blender) else partial(read_blend, path)
    plan: BlendPlan = read(split_part=dataset.split_part, mode=mode, multiplier=multiplier)
    return plan


def open_streams(dataset: Dataset, saved: dict[str, Any] | None = None) -> Streams:
    """Open everything that a plan names, as it is now or as it was when `saved` was saved.

    Raises what the blend file, the catalogs and the subsets are wrong in; see `read_blend` and `Opener`.
    """
    plan = plan_of(dataset)
    weights = _weights(plan)
    # An arm whose weight is never more than 0 is not even opened.
    used = [i for i in range(len(plan.arms)) if any(segment[i] for segment in weights)]
    if not used:
        raise UsageError("nothing is to be read", hint="give at least one dataset a weight above 0")
    if len(used) > 1 and isinstance(dataset, TrainDataset) and not dataset.repeat:
        raise UsageError(
            "repeat=False asks for one pass, and a blend draws by weight, without end",
            where=plan.arms[used[1]].where,
            hint="write `blend_epochized`, which says how often each dataset comes, or leave repeat at True",
        )
    opener = Opener(dataset, None if saved is None else saved["generation"])
    pieces = [_pieces(plan.arms[i], opener) for i in used]
    sizes = _sizes(dataset, opener.sources, None if saved is None else saved["plan"]["order"])
    orders = _orders(dataset, [plan.arms[i] for i in used], pieces, sizes)
    arms = tuple(Arm(order, piece) for order, piece in zip(orders, pieces, strict=True))
    chosen = [tuple(segment[i] for i in used) for segment in weights]
    if plan.weight_unit == "tokens":
        chosen = [_by_tokens(segment, arms) for segment in chosen]
    blends = tuple(Blend(integer_weights(segment)) for segment in chosen)
    steps = tuple(segment.step for segment in plan.schedule) or (0,)
    order = {
        "order_version": ORDER_VERSION,
        "split": dataset.split_part,
        "samples": sum(arm.order.n for arm in arms),
        "sources": [_facts(arm, i) for i, arm in enumerate(arms)],
        "weights": _digest([[list(blend.weights) for blend in blends], steps]) if len(arms) > 1 else "",
        "shuffle_over_epochs_multiplier": _multiplier(arms),
        "seed": dataset.seed,
        "seed_offset": dataset.worker_config.seed_offset,
        "lanes": sizes.lanes,
        "slice": sizes.slice_samples,
        "window": sizes.window_samples,
        "parallel": sizes.parallel,
    }
    if columns := _columns(dataset):
        digests = [source.column_digest(name) for source in opener.sources for name in columns]
        order["columns"] = _digest(digests)[:16]
    if len(steps) > 1:
        order["world"] = dataset.worker_config.world_size if saved is None else saved["plan"]["order"].get("world", 1)
    return Streams(arms, blends, steps, tuple(opener.sources), sizes, opener.generations, order)


def reopened(dataset: Dataset, generations: list[int], order: dict[str, Any]) -> Streams:
    """The same streams in a process that has only the recipe. Raises StateMismatch where the data has gone on."""
    streams = open_streams(dataset, {"generation": generations, "plan": {"order": order}})
    lines = differences(order, streams.order, ("when the training began", "now"))
    if lines:
        raise StateMismatch(
            "\n  ".join(["the dataset has changed under a training, and a new worker cannot go on:", *lines]),
            hint="leave splits and columns as they are while a training runs; save, and begin again from the state",
        )
    return streams


def _columns(dataset: Dataset) -> list[str]:
    """The columns that packs or buckets are made by: with other values, other samples would come together."""
    of_packs = list(dataset.packing.columns or ()) if dataset.packing is not None else []
    of_buckets = [dataset.buckets.column] if dataset.buckets is not None and dataset.buckets.column else []
    return of_packs + of_buckets


def _weights(plan: BlendPlan) -> list[tuple[Fraction, ...]]:
    if plan.schedule:
        return [segment.weights for segment in plan.schedule]
    return [tuple(arm.weight for arm in plan.arms)]


def _pieces(arm: ArmPlan, opener: Opener) -> list[Piece]:
    pieces = []
    for stretch in arm.stretches:
        if not stretch.repetitions:
            continue
        source = opener.open(stretch.leaf)
        start, stop = resolve(stretch.leaf.subsets, source.n)
        samples = int((stop - start) * stretch.repetitions)
        if samples:
            pieces.append(Piece(source, start, stop - start, samples))
    if not pieces:
        raise InputError(
            "this entry of the blend has no samples",
            where=arm.where or _named(arm),
            hint="look at its subset and its repetitions, or give it the weight 0",
            code="WDS211",
        )
    return pieces


def _named(arm: ArmPlan) -> str:
    leaves: list[Leaf] = [stretch.leaf for stretch in arm.stretches]
    return ", ".join(leaf.path for leaf in leaves)


def _sizes(dataset: Dataset, sources: Sequence[Source], saved: dict[str, Any] | None) -> Sizes:
    """Where the recipe says nothing, a resumed run goes on as it began, on whatever ranks and disks it runs now."""
    if not isinstance(dataset, TrainDataset):
        lanes = saved["lanes"] if saved is not None else LANES_A_RANK * dataset.worker_config.world_size
        return Sizes(lanes, 1, 1, 1)
    if saved is not None and dataset.lanes is None:
        lanes = saved["lanes"]
    else:
        lanes = dataset.lanes or LANES_A_RANK * dataset.worker_config.world_size
    if saved is not None and dataset.max_samples_per_sequence is None:
        wanted = saved["slice"]
    else:
        wanted = dataset.max_samples_per_sequence or _slice_for(sources)
    return Sizes(lanes, wanted, dataset.shuffle_buffer_size or 1, dataset.parallel_shard_iters)


def _slice_for(sources: Sequence[Source]) -> int:
    """One answer for the whole blend: the far stores decide, where there are any."""
    roots = {source.root for source in sources}
    return SLICE_REMOTE if any(is_url(root) or is_remote(root) for root in roots) else SLICE_LOCAL


def _orders(
    dataset: Dataset, plans: Sequence[ArmPlan], pieces: Sequence[Sequence[Piece]], sizes: Sizes
) -> list[Shuffled]:
    """The order of each arm. Where the same data stands twice in a blend, each time has an order of its own."""
    orders = []
    seen: dict[str, int] = {}
    for plan, arm in zip(plans, pieces, strict=True):
        n = sum(piece.samples for piece in arm)
        data = _digest([_piece_facts(piece) for piece in arm])
        occurrence = seen[data] = seen.get(data, -1) + 1
        size = slice_size(n, sizes.lanes, sizes.slice_samples)
        key = derive("order", dataset.seed, dataset.worker_config.seed_offset, occurrence)
        orders.append(
            Shuffled(
                n=n,
                slice_samples=size,
                window_samples=max(sizes.window_samples, sizes.parallel * size),
                seed=key if len(plans) == 1 else derive("arm", key, data),
                passes=AS_THEY_LIE if plan.multiplier is None else plan.multiplier,
            )
        )
    return orders


def _by_tokens(weights: Sequence[Fraction], arms: Sequence[Arm]) -> tuple[Fraction, ...]:
    """Weights that count tokens as weights that count samples: through the mean length of each arm."""
    means = [_mean_length(arm) if weight else 1.0 for weight, arm in zip(weights, arms, strict=True)]
    return tuple(weight / Fraction(mean) for weight, mean in zip(weights, means, strict=True))


def _mean_length(arm: Arm) -> float:
    total = 0.0
    for piece in arm.pieces:
        lengths = piece.source.column(TOKENS)
        rows = piece.source.selection.rows(np.arange(piece.first, piece.first + piece.n))
        total += float(lengths[rows].mean()) * piece.samples
    mean = total / arm.order.n
    if mean <= 0:
        raise InputError(
            f"the column {TOKENS!r} says that samples have no tokens",
            where=", ".join(piece.source.dataset_path for piece in arm.pieces),
            hint="weights in tokens need lengths above 0: look at the function of the column",
            code="WDS211",
        )
    return mean


def _facts(arm: Arm, number: int) -> str:
    """What of an arm decides its order, in 8 hex digits: states have them all, and tell which one differs."""
    pieces = [_piece_facts(piece) for piece in arm.pieces]
    return _digest([number, pieces])[:8]


def _multiplier(arms: Sequence[Arm]) -> Any:
    """How all arms are shuffled, in the words of `get_train_dataset`; a digest where they differ."""
    each = [None if arm.order.passes == AS_THEY_LIE else arm.order.passes for arm in arms]
    return each[0] if len(set(each)) == 1 else _digest(each)[:8]


def _piece_facts(piece: Piece) -> list[Any]:
    return [piece.source.digest, piece.first, piece.n, piece.samples]


def _digest(value: Any) -> str:
    return blake2b(repr(value).encode(), digest_size=16).hexdigest()
