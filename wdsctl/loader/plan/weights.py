"""The weights of a blend's components: which entries have one, in samples and as integers, over the whole job.

Weights in tokens are converted to weights in samples by the mean length of the samples of each component. The means are
exact fractions of integers, so that every machine computes the same weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from wdsctl.core.blend import BlendPlan
from wdsctl.core.errors import InputError, StateMismatch, UsageError, WdsctlError
from wdsctl.core.text import short_repr
from wdsctl.loader.lanes.mixture import Mixture, integer_weights
from wdsctl.loader.plan.components import SourceRange
from wdsctl.loader.plan.plan import ADOPT_WEIGHTS_HINT
from wdsctl.loader.plan.weight_history import (
    IntegerWeightSchedule,
    ScheduleEdits,
    edits_to_facts,
    effective_schedule,
    extend_edits,
)

_TOKENS_COLUMN = "tokens"  # the column of weights in tokens
_SUM_CHUNK_SAMPLES = 1 << 20  # samples whose lengths are summed at a time


class BlendWeights(NamedTuple):
    """The weights of components over the whole job: a mixture for each segment of their history."""

    mixtures: tuple[Mixture, ...]
    begin_batches: tuple[int, ...]  # the batches of the job at which the segments begin
    facts: dict[str, Any]  # of the plan


def used_entries(
    plan: BlendPlan, edits: ScheduleEdits, saved_order: Mapping[str, Any] | None, *, may_add_entries: bool = False
) -> tuple[list[list[int]], int]:
    """The entries that have had a weight above 0 at some time, in lists: those that the job began with, and those that
    were raised from 0 at each resume since. And how many of them the state knows.

    No other entry is opened, and none of these ever changes its position, by which components and sources are numbered.
    Raises UsageError if there is none, StateMismatch if one is raised from 0 and may not be.
    """
    weighted = _weighted_entries(_weight_fractions(plan))
    if not weighted:
        raise UsageError(
            "all weights are 0, so there is nothing to read", hint="set the weight of at least one dataset above 0"
        )
    if saved_order is None:
        return [weighted], len(weighted)
    known = _known_entries(edits, saved_order, len(plan.components))
    seen = {entry for entries in known for entry in entries}
    raised = [entry for entry in weighted if entry not in seen]
    if not known:
        return [raised], len(raised)
    if raised and not may_add_entries:
        names = ", ".join(
            ", ".join(stretch.leaf.path for stretch in plan.components[entry].repeated_leaves) for entry in raised
        )
        message = f"the blend of the state did not read these entries, whose weight is above 0 now: {names}"
        raise StateMismatch(message, hint=ADOPT_WEIGHTS_HINT)
    return [*known, raised] if raised else known, len(seen)


def _known_entries(edits: ScheduleEdits, saved_order: Mapping[str, Any], entry_count: int) -> list[list[int]]:
    """The entries that a state has components of."""
    if "blend_entries" in saved_order:
        known = saved_order["blend_entries"]
        lists = isinstance(known, list) and all(isinstance(each, list) for each in known)
        flat = [entry for each in known for entry in each] if lists else []
        if not flat or any(type(entry) is not int or not 0 <= entry < entry_count for entry in flat):
            raise StateMismatch(
                f"the state is damaged: {short_repr(known)} are not entries of a blend of {entry_count}",
                hint="pass the unchanged value that save_state_rank() or state_dict() returned",
                code="WDS502",
            )
        return [list(each) for each in known]
    found = _weighted_entries([weights for _, schedule in edits for _, weights in schedule])
    return [found] if found else []


def _weighted_entries(weight_tuples: Sequence[Sequence[Fraction | int]]) -> list[int]:
    """The entries with a weight above 0 in any of these."""
    return sorted({entry for weights in weight_tuples for entry, weight in enumerate(weights) if weight})


def sample_weights(
    plan: BlendPlan, entries: Sequence[int], source_ranges: Sequence[Sequence[SourceRange]]
) -> list[tuple[Fraction, ...]]:
    """The weights of these entries, in samples, a tuple for each segment of the plan's schedule. `source_ranges`: what
    each reads.

    If weights count tokens, raises what `SplitSource.column` raises, and InputError WDS211 if the lengths of a
    component are 0 or less, each with its line in the blend file.
    """
    chosen = [tuple(segment[i] for i in entries) for segment in _weight_fractions(plan)]
    if plan.weight_unit != "tokens":
        return chosen
    means = [_mean_length(ranges, plan.components[i].where) for i, ranges in zip(entries, source_ranges, strict=True)]
    # The weights in samples with which the tokens of the components have these shares.
    return [tuple(weight / mean for weight, mean in zip(segment, means, strict=True)) for segment in chosen]


def _weight_fractions(plan: BlendPlan) -> list[tuple[Fraction, ...]]:
    """The weights of all entries, a tuple for each segment of the plan's schedule."""
    if plan.schedule:
        return [segment.weights for segment in plan.schedule]
    return [tuple(component.weight for component in plan.components)]


def _mean_length(source_ranges: Sequence[SourceRange], where: str) -> Fraction:
    """The mean length of the samples of a component, by the column of tokens. `where`: its line in the blend file.
    Cost: some 10 ns a sample."""
    total = 0
    for piece in source_ranges:
        try:
            total += _range_tokens(piece)
        except WdsctlError as error:
            where_found = ", ".join(filter(None, (where, error.where)))
            message = f"weight_by: tokens needs the lengths of samples: {error.message}"
            raise type(error)(message, hint=error.hint, where=where_found, code=error.code) from error
    if total <= 0:
        datasets = ", ".join(piece.source.dataset_path for piece in source_ranges)
        raise InputError(
            f"the column {_TOKENS_COLUMN!r} has no lengths above 0",
            where=", ".join(filter(None, (where, datasets))),
            hint="check the function that computes the column: weight_by: tokens needs token counts above 0",
            code="WDS211",
        )
    return Fraction(total, sum(piece.samples for piece in source_ranges))


def _range_tokens(source_range: SourceRange) -> int:
    """Tokens that one pass reads of a range: all repetitions, and the first samples once more."""
    times, more = divmod(source_range.samples, source_range.positions)
    return (times * _sum_tokens(source_range, source_range.positions) if times else 0) + _sum_tokens(source_range, more)


def _sum_tokens(source_range: SourceRange, count: int) -> int:
    """Tokens of the first `count` samples of a range."""
    lengths = source_range.source.column(_TOKENS_COLUMN)
    total, end = 0, source_range.first_position + count
    for first in range(source_range.first_position, end, _SUM_CHUNK_SAMPLES):
        positions = np.arange(first, min(first + _SUM_CHUNK_SAMPLES, end))
        total += int(lengths[source_range.source.selection.rows(positions)].sum())
    return total


def blend_weights(
    plan: BlendPlan,
    entries: Sequence[Sequence[int]],
    current_weights: Sequence[Sequence[Fraction]],
    edits: ScheduleEdits,
    *,
    new_weights_from: int | None,
    saved_order: Mapping[str, Any] | None,
    world_size: int,
) -> BlendWeights:
    """The weights of the components, which are the `entries` of the plan (see `used_entries`), over the whole job.

    `current_weights`: those of the plan now, see `sample_weights`. `edits`: those in the order facts `saved_order` of a
    state; `new_weights_from`: the batch from which other weights hold, None if they belong to another plan.
    `world_size`: ranks now; a step of a schedule is as many batches as there were ranks at the first start.
    """
    used = [entry for each in entries for entry in each]
    steps = tuple(segment.step for segment in plan.schedule) or (0,)
    world_size = world_size if saved_order is None else saved_order.get("schedule_world_size", world_size)
    schedule = _integer_schedule([step * world_size for step in steps], current_weights, used, len(plan.components))
    edits = extend_edits(edits, schedule, new_weights_from)
    in_force = effective_schedule(edits)
    facts: dict[str, Any] = edits_to_facts(edits) if len(plan.components) > 1 else {"weights": ""}
    if list(entries) != [_weighted_entries([weights for _, each in edits for _, weights in each])]:
        facts["blend_entries"] = [list(each) for each in entries]  # otherwise the weights show them
    if len(steps) > 1:
        facts["schedule_world_size"] = world_size
    mixtures = tuple(Mixture(tuple(weights[i] for i in used)) for _, weights in in_force)
    return BlendWeights(mixtures, tuple(begin for begin, _ in in_force), facts)


def _integer_schedule(
    begins: Sequence[int], segment_weights: Sequence[Sequence[Fraction]], used: Sequence[int], entry_count: int
) -> IntegerWeightSchedule:
    """Integer weights of all entries, from the fractions of those that are used."""
    found = []
    for begin, segment in zip(begins, segment_weights, strict=True):
        weights = [0] * entry_count
        for i, weight in zip(used, integer_weights(segment), strict=True):
            weights[i] = weight
        found.append((begin, tuple(weights)))
    return tuple(found)
