"""A blend, opened: datasets, orders and weights, from which every lane of every rank can be run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from typing import Any, cast

from wdsctl.core.blend_file import Arm as ArmPlan
from wdsctl.core.blend_file import Blender, BlendPlan, Leaf, read_blend, resolve
from wdsctl.core.errors import InputError, StateMismatch, UsageError
from wdsctl.core.job_state import differences
from wdsctl.core.keys import derive
from wdsctl.core.storage import is_any_remote
from wdsctl.loader.arms import Arm, Piece
from wdsctl.loader.blend_history import Edits, Schedule, continued, edits_of, segments, to_facts
from wdsctl.loader.dataset import LANES_A_RANK, Dataset, TrainDataset
from wdsctl.loader.eras import Past, gone, over_eras, pasts_of, to_plan
from wdsctl.loader.opening import Opener
from wdsctl.loader.order.blend import Blend, integer_weights
from wdsctl.loader.order.eras import Eras
from wdsctl.loader.order.shuffle import AS_THEY_LIE, ORDER_VERSION, Shuffled, slice_size
from wdsctl.loader.source import Source
from wdsctl.loader.token_weights import by_tokens, mean_lengths

SLICE_LOCAL, SLICE_REMOTE = 16, 128  # samples read together, where nobody says otherwise


@dataclass(frozen=True, slots=True)
class Sizes:
    """What was chosen where the recipe left it open: part of the order, and taken from the state on a resume."""

    lanes: int
    slice_samples: int
    window_samples: int
    parallel: int  # slices that are shuffled together at least


@dataclass(frozen=True, slots=True)
class Streams:
    """`blends`: one for each segment of the weights' history, which begin at the batches `begins` of the job.

    `datasets`: the sources of each arm. `befores`: sources as they were before they grew, of which arms still read.
    `order`: the facts of the plan's first tier. `stores`: generations of auxiliary stores, by reference.
    """

    arms: tuple[Arm, ...]
    blends: tuple[Blend, ...]
    begins: tuple[int, ...]
    sources: tuple[Source, ...]
    datasets: tuple[tuple[Source, ...], ...]
    befores: tuple[Source, ...]
    sizes: Sizes
    generations: list[int]
    order: dict[str, Any]
    stores: dict[str, int] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """Of all arms, in one pass over each."""
        return sum(arm.order.n for arm in self.arms)

    @property
    def least_samples(self) -> int:
        """The same when the job began: what windows of packs were cut by, which must not change under them."""
        return sum(arm.order.eras[0].order.n if isinstance(arm.order, Eras) else arm.order.n for arm in self.arms)

    @property
    def names(self) -> tuple[str, ...]:
        """What each arm reads, for people."""
        return tuple(", ".join(source.dataset_path for source in sources) for sources in self.datasets)

    def close(self) -> None:
        for source in (*self.sources, *self.befores):
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


def open_streams(
    dataset: Dataset,
    saved: dict[str, Any] | None = None,
    *,
    edit_at: int | None = None,
    stores: dict[str, int] | None = None,
) -> Streams:
    """Open everything that a plan names, as it is now or as it was when `saved` was saved.

    `edit_at`: weights that are not those of `saved` hold from this batch of the job on; without it they count as those
    of another plan. `stores`: generations of auxiliary stores, by reference, which are otherwise taken as they are now.
    Raises what the blend file, the catalogs and the subsets are wrong in; see `read_blend` and
    `Opener`.
    """
    plan = plan_of(dataset)
    weights = _weights(plan)
    was = None if saved is None else saved["plan"]["order"]
    edits = _edits(was, len(plan.arms))
    # An arm whose weight is never more than 0 is not even opened.
    past = [each for _, schedule in edits for _, each in schedule]
    used = [i for i in range(len(plan.arms)) if any(segment[i] for segment in (*weights, *past))]
    if not used:
        raise UsageError("nothing is to be read", hint="give at least one dataset a weight above 0")
    if len(used) > 1 and isinstance(dataset, TrainDataset) and not dataset.repeat:
        raise UsageError(
            "repeat=False asks for one pass, and a blend draws by weight, without end",
            where=plan.arms[used[1]].where,
            hint="write `blend_epochized`, which says how often each dataset comes, or leave repeat at True",
        )
    opener = Opener(dataset, None if saved is None else saved["generation"], stores)
    pieces: list[list[Piece]] = []
    datasets: list[tuple[Source, ...]] = []
    for i in used:
        before = len(opener.sources)
        pieces.append(_pieces(plan.arms[i], opener.open))
        datasets.append(tuple(each for each in opener.sources[before:] if not each.is_member))
    sizes = _sizes(dataset, opener.sources, was)
    pasts = pasts_of(was)
    orders = _orders(dataset, [plan.arms[i] for i in used], pieces, sizes, pasts)
    arms = tuple(Arm(order, piece) for order, piece in zip(orders, pieces, strict=True))
    chosen = [tuple(segment[i] for i in used) for segment in weights]
    if plan.weight_unit == "tokens":
        means = mean_lengths(arms, [plan.arms[i].where for i in used])
        chosen = [by_tokens(segment, means) for segment in chosen]
    steps = tuple(segment.step for segment in plan.schedule) or (0,)
    world = dataset.worker_config.world_size if was is None else was.get("world", dataset.worker_config.world_size)
    schedule = _schedule([step * world for step in steps], chosen, used, len(plan.arms))
    edits = continued(edits, schedule, edit_at)
    in_force = segments(edits)
    blends = tuple(Blend(tuple(weights[i] for i in used)) for _, weights in in_force)
    order = {
        "order_version": ORDER_VERSION,
        "split": dataset.split_part,
        "samples": sum(arm.order.n for arm in arms),
        "sources": [_facts(arm.pieces, i) for i, arm in enumerate(arms)],
        **(to_facts(edits) if len(used) > 1 else {"weights": ""}),
        "shuffle_over_epochs_multiplier": _multiplier(arms),
        "seed": dataset.seed,
        "seed_offset": dataset.worker_config.seed_offset,
        "lanes": sizes.lanes,
        "slice": sizes.slice_samples,
        "window": sizes.window_samples,
        "parallel": sizes.parallel,
    }
    if views := {str(source.number): source.view for source in opener.sources if source.view}:
        order["views"] = views
    if columns := _columns(dataset):
        digests = [source.column_digest(name) for source in opener.sources if not source.is_member for name in columns]
        order["columns"] = _digest(digests)[:16]
    digest = _digest([[[weights[i] for i in used] for _, weights in schedule], steps])
    if was is not None and was["weights"] == digest:
        order["weights"] = digest  # of a state that has no more of them
    if len(steps) > 1:
        order["world"] = world
    if pasts:
        order["eras"] = to_plan(pasts)
        each = zip(arms, used, datasets, strict=True)
        arms = tuple(
            _over_eras(arm, number, plan.arms[i], of_arm, [past for past in pasts if past.arm == number], sizes, opener)
            for number, (arm, i, of_arm) in enumerate(each)
        )
    begins = tuple(begin for begin, _ in in_force)
    befores = tuple(opener.befores)
    return Streams(
        arms,
        blends,
        begins,
        tuple(opener.sources),
        tuple(datasets),
        befores,
        sizes,
        opener.generations,
        order,
        opener.store_generations,
    )


def reopened(dataset: Dataset, generations: list[int], order: dict[str, Any], stores: dict[str, int]) -> Streams:
    """The same streams in a process that has only the recipe. Raises StateMismatch where the data has gone on."""
    streams = open_streams(dataset, {"generation": generations, "plan": {"order": order}}, stores=stores)
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


def _edits(was: dict[str, Any] | None, entries: int) -> Edits:
    """The weights that a state knows of, for a blend of so many entries."""
    edits = edits_of(was)
    had = len(edits[0][1][0][1]) if edits else entries
    if had != entries:
        raise StateMismatch(
            f"the blend of the state has {had} entries, and this one has {entries}",
            hint="resume with the entries of the run that saved the state; one with the weight 0 never comes",
        )
    return edits


def _schedule(begins: Sequence[int], chosen: Sequence[Sequence[Fraction]], used: list[int], entries: int) -> Schedule:
    """Whole weights of all entries, from the fractions of those that are used."""
    found = []
    for begin, segment in zip(begins, chosen, strict=True):
        weights = [0] * entries
        for i, weight in zip(used, integer_weights(segment), strict=True):
            weights[i] = weight
        found.append((begin, tuple(weights)))
    return tuple(found)


def _over_eras(
    arm: Arm,
    number: int,
    plan: ArmPlan,
    datasets: Sequence[Source],
    pasts: Sequence[Past],
    sizes: Sizes,
    opener: Opener,
) -> Arm:
    """An arm with what it was before it grew."""
    if not pasts:
        return arm
    orders = [_shuffled(past.samples, past.seed, arm.order.passes, sizes) for past in pasts]
    pieces = []
    for past in pasts:
        shards = dict(zip((source.number for source in datasets), past.shards, strict=True))
        there = iter(datasets)
        try:
            found = _pieces(plan, lambda _: opener.before(each := next(there), shards[each.number]))  # noqa: B023
        except InputError:  # of what is left of it, a subset or a share is nothing
            found = []
        is_same = bool(found) and _facts(found, number) == past.facts
        pieces.append(found if is_same else gone(past, datasets[0]))
    return over_eras([*orders, cast("Shuffled", arm.order)], pasts, [*pieces, arm.pieces])


def _pieces(arm: ArmPlan, opened: Callable[[Leaf], Source]) -> list[Piece]:
    pieces = []
    for stretch in arm.stretches:
        if not stretch.repetitions:
            continue
        source = opened(stretch.leaf)
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
    return SLICE_REMOTE if is_any_remote({source.root for source in sources}) else SLICE_LOCAL


def _orders(
    dataset: Dataset,
    plans: Sequence[ArmPlan],
    pieces: Sequence[Sequence[Piece]],
    sizes: Sizes,
    pasts: Sequence[Past],
) -> list[Shuffled]:
    """The order of each arm, of what it is now. Where the same data stands twice in a blend, each time has an order of
    its own, and so has what is there since a dataset has grown."""
    orders = []
    seen: dict[str, int] = {}
    begun = {past.arm: past.end for past in pasts}
    for number, (plan, arm) in enumerate(zip(plans, pieces, strict=True)):
        n = sum(piece.samples for piece in arm)
        data = _digest([_piece_facts(piece) for piece in arm])
        occurrence = seen[data] = seen.get(data, -1) + 1
        key = derive("order", dataset.seed, dataset.worker_config.seed_offset, occurrence)
        seed = key if len(plans) == 1 else derive("arm", key, data)
        seed = derive("era", seed, begun[number]) if number in begun else seed
        orders.append(_shuffled(n, seed, AS_THEY_LIE if plan.multiplier is None else plan.multiplier, sizes))
    return orders


def _shuffled(n: int, seed: int, passes: int, sizes: Sizes) -> Shuffled:
    size = slice_size(n, sizes.lanes, sizes.slice_samples)
    window = max(sizes.window_samples, sizes.parallel * size)
    return Shuffled(n=n, slice_samples=size, window_samples=window, seed=seed, passes=passes)


def _facts(pieces: Sequence[Piece], number: int) -> str:
    """What of an arm decides its order, in 8 hex digits: states have them all, and tell which one differs."""
    return _digest([number, [_piece_facts(piece) for piece in pieces]])[:8]


def _multiplier(arms: Sequence[Arm]) -> Any:
    """How all arms are shuffled, in the words of `get_train_dataset`; a digest where they differ."""
    each = [None if arm.order.passes == AS_THEY_LIE else arm.order.passes for arm in arms]
    return each[0] if len(set(each)) == 1 else _digest(each)[:8]


def _piece_facts(piece: Piece) -> list[Any]:
    return [piece.source.digest, piece.first, piece.n, piece.samples]


def _digest(value: Any) -> str:
    return blake2b(repr(value).encode(), digest_size=16).hexdigest()
