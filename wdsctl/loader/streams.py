"""A blend, opened: datasets, orders and weights, from which every lane of every rank can be run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

from wdsctl.core.blend_file import Arm as ArmPlan
from wdsctl.core.errors import StateMismatch, UsageError, several
from wdsctl.core.job_state import differences
from wdsctl.loader.arm_orders import Sizes, orders_of, sizes_of, tell_of_neighbours
from wdsctl.loader.arm_pieces import pieces_of
from wdsctl.loader.arms import Arm, Piece
from wdsctl.loader.blend_weights import edits_for, sample_weights, used_entries, weights_of
from wdsctl.loader.dataset import Dataset, TrainDataset, plan_of
from wdsctl.loader.eras import over_eras, pasts_of, to_plan
from wdsctl.loader.logs import log
from wdsctl.loader.opening import Opener
from wdsctl.loader.order.blend import Blend
from wdsctl.loader.order.eras import Eras
from wdsctl.loader.order_facts import order_facts
from wdsctl.loader.source import Source

NAMED = 3  # datasets that a message names


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """`blends`: one for each segment of the weights' history, which begin at the batches `begins` of the job.

    `sources`: in the order in which they were opened, members of joins too, with the `generations` that they are read
    in. `datasets`: the sources of each arm. `befores`: sources as they were before they grew, of which arms still read.
    `order`: the facts of the plan's first tier. `stores`: generations of auxiliary stores, by reference. `begun_arms`:
    how many arms the job began with; the others were raised from the weight 0 since. `known`: what a state knows of
    all this, where it is less.
    """

    arms: tuple[Arm, ...]
    begun_arms: int
    blends: tuple[Blend, ...]
    begins: tuple[int, ...]
    sources: tuple[Source, ...]
    datasets: tuple[tuple[Source, ...], ...]
    befores: tuple[Source, ...]
    sizes: Sizes
    generations: list[int]
    order: dict[str, Any]
    stores: dict[str, int] = field(default_factory=dict)
    known: Streams | None = None

    @property
    def samples(self) -> int:
        """Of all arms, in one pass over each."""
        return sum(arm.order.n for arm in self.arms)

    @property
    def least_samples(self) -> int:
        """The same when the job began: what windows of packs were cut by, which must not change under them."""
        orders = [arm.order for arm in self.arms[: self.begun_arms]]
        return sum(order.eras[0].order.n if isinstance(order, Eras) else order.n for order in orders)

    @property
    def names(self) -> tuple[str, ...]:
        """What each arm reads, for people."""
        return tuple(", ".join(source.dataset_path for source in sources) for sources in self.datasets)

    def close(self) -> None:
        """Close all sources. What is read next opens them again."""
        for source in (*self.sources, *self.befores):
            source.close()


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
    Raises what the blend file, the catalogs and the subsets are wrong in; see `read_blend` and `Opener`.
    """
    plan = plan_of(dataset)
    was = None if saved is None else saved["plan"]["order"]
    edits = edits_for(was, len(plan.arms))
    used, known = used_entries(plan, edits, was, may_raise=edit_at is not None)
    arm_entries = [i for each in used for i in each]
    entries = [plan.arms[i] for i in arm_entries]
    _check_passes(dataset, entries)
    opener = Opener(dataset, None if saved is None else saved["generation"], stores)
    pieces: list[list[Piece]] = []
    datasets: list[tuple[Source, ...]] = []
    for number, entry in enumerate(entries):
        before = len(opener.sources)
        if number == known:
            opener.go_on_with_new_ones()
        pieces.append(pieces_of(entry, opener.open))
        datasets.append(tuple(each for each in opener.sources[before:] if not each.is_member))
    chosen = sample_weights(plan, arm_entries, pieces)
    first = dict(zip(arm_entries, chosen[0], strict=True))
    of_entries = [first.get(i, Fraction(0)) for i in range(len(plan.arms))]
    as_they_lie = {i for i, arm in enumerate(plan.arms) if arm.multiplier is None}
    sizes = sizes_of(dataset, opener.sources, was, of_entries, as_they_lie)
    pasts = pasts_of(was)
    seeds = dict((was or {}).get("seeds", []))
    grown = {past.arm: past.end for past in pasts}
    turns = [sizes.turns[i] for i in arm_entries]
    orders = orders_of(dataset, entries, pieces, sizes, turns, grown, seeds)
    if known < len(entries):  # an arm that was alone has the seed of one that is
        of_known = orders_of(dataset, entries[:known], pieces[:known], sizes, turns[:known], grown, seeds)
        seeds |= {arm: had.seed for arm, had in enumerate(of_known) if had.seed != orders[arm].seed}
        orders = orders_of(dataset, entries, pieces, sizes, turns, grown, seeds)
    if saved is None:
        tell_of_neighbours(dataset, orders)
        _tell_of_unused_parts(dataset, opener.sources)
    arms = tuple(map(Arm, orders, pieces))
    weights = weights_of(plan, used, chosen, edits, edit_at=edit_at, was=was, world=dataset.worker_config.world_size)
    facts = partial(order_facts, dataset, sizes=sizes, weights=weights.facts)
    of_growth = {"eras": to_plan(pasts)} if pasts else {}
    of_seeds = {"seeds": [list(each) for each in seeds.items()]} if seeds else {}
    order = {**facts(arms, opener.sources), **of_seeds, **of_growth}
    all_arms = over_eras(arms, pasts, entries, datasets, sizes, opener) if pasts else arms
    streams = Streams(
        arms=all_arms,
        begun_arms=len(used[0]),
        blends=weights.blends,
        begins=weights.begins,
        sources=tuple(opener.sources),
        datasets=tuple(datasets),
        befores=tuple(opener.befores),
        sizes=sizes,
        generations=opener.generations,
        order=order,
        stores=opener.store_generations,
    )
    if was is None or known == len(entries):
        return streams
    sources = tuple(opener.sources[: len(saved["generation"])]) if saved is not None else ()
    of_seeds = {"seeds": was["seeds"]} if "seeds" in was else {}
    known_order = {**facts(arms[:known], sources), **of_seeds, **of_growth}
    state_has = replace(
        streams, arms=all_arms[:known], sources=sources, datasets=streams.datasets[:known], order=known_order
    )
    return replace(streams, known=state_has)


def reopened(dataset: Dataset, generations: list[int], order: dict[str, Any], stores: dict[str, int]) -> Streams:
    """The same streams in a process that has only the recipe. Raises StateMismatch where the data has gone on."""
    streams = open_streams(dataset, {"generation": generations, "plan": {"order": order}}, stores=stores)
    lines = differences(order, streams.order, ("when the training began", "now"))
    if lines:
        raise StateMismatch(
            several("the dataset has changed under a training, and a new worker cannot go on:", *lines),
            hint="leave splits and columns as they are while a training runs; save, and begin again from the state",
        )
    return streams


def _tell_of_unused_parts(dataset: Dataset, sources: Sequence[Source]) -> None:
    """Say once which parts no field takes: a batch without them would otherwise be the first to tell, by an absence."""
    if dataset.worker_config.rank:
        return
    found = {(source.dataset_path, source.sample_type): source.unused_parts for source in sources}
    told = [
        f"{', '.join(parts)} of {path} ({kind})" for (path, kind), parts in sorted(found.items()) if parts
    ]  # by datasets: a blend may have one of them often
    if told:
        more = f" and of {len(told) - NAMED} more datasets" if len(told) > NAMED else ""
        log.warning(
            "WDS519: no field takes these parts, and they are not read: %s%s; dataset.yaml maps parts to fields, and "
            "`sample_type: CrudeSample` hands out all of them",
            "; ".join(told[:NAMED]),
            more,
        )


def _check_passes(dataset: Dataset, entries: Sequence[ArmPlan]) -> None:
    """Raise UsageError where one pass is wanted of what is drawn by weight."""
    if len(entries) > 1 and isinstance(dataset, TrainDataset) and not dataset.repeat:
        raise UsageError(
            "repeat=False asks for one pass, and a blend draws by weight, without end",
            where=entries[1].where,
            hint="write `blend_epochized`, which says how often each dataset comes, or leave repeat at True",
        )
