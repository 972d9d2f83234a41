"""The weights of a blend over a whole job, as a text in the plan: which weights apply from which batch on.

"0: 5 3 1x998 | 400: 1 1 0x998" means the weights 5, 3 and 998 times 1 from batch 0 of the job on, and 1, 1 and 998
times 0 from batch 400 on. Such a text describes a blend file. If a job is resumed with other weights, the plan gets an
edit, [batch, text]: the text applies from this batch on, and earlier weights before it.

Weights in tokens are converted to weights in samples by the mean length of the samples of each component. The means are
exact fractions of integers, so that every machine computes the same weights.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any

import numpy as np

from wdsctl.core.blend import BlendPlan
from wdsctl.core.errors import InputError, StateMismatch, UsageError, WdsctlError
from wdsctl.core.text import short_repr
from wdsctl.loader.lanes.mixture import Mixture, integer_weights
from wdsctl.loader.plan.components import SourceRange
from wdsctl.loader.plan.plan import ADOPT_WEIGHTS_HINT

TOKENS_COLUMN = "tokens"  # the column of weights in tokens
SUM_CHUNK_SAMPLES = 1 << 20  # samples whose lengths are summed at a time


def mean_lengths(components: Sequence[Sequence[SourceRange]], locations: Sequence[str]) -> tuple[Fraction, ...]:
    """The mean length of the samples of each component, by the column of tokens. `components`: the ranges of each;
    `locations`: their lines in the blend file.

    Raises what `SplitSource.column` raises, InputError WDS211 if the lengths of a component are 0 or less, each with
    its line in the blend file. Cost: some 10 ns a sample.
    """
    return tuple(_mean_length(ranges, where) for ranges, where in zip(components, locations, strict=True))


def _mean_length(source_ranges: Sequence[SourceRange], where: str) -> Fraction:
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
            f"the column {TOKENS_COLUMN!r} has no lengths above 0",
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
    lengths = source_range.source.column(TOKENS_COLUMN)
    total, end = 0, source_range.first_position + count
    for first in range(source_range.first_position, end, SUM_CHUNK_SAMPLES):
        positions = np.arange(first, min(first + SUM_CHUNK_SAMPLES, end))
        total += int(lengths[source_range.source.selection.rows(positions)].sum())
    return total


MAX_ENTRIES = 1 << 24  # of a blend in a state: a damaged text may have longer runs
_RUN = re.compile(r"(\d{1,19})(?:x(\d{1,9}))?")
MIN_RUN_LENGTH = 4  # equal weights in a row that are written as a run
IntegerWeights = tuple[int, ...]
IntegerWeightSchedule = tuple[
    tuple[int, IntegerWeights], ...
]  # (first batch of the job, weights of all entries of the blend)
ScheduleEdits = list[
    tuple[int, IntegerWeightSchedule]
]  # (first batch of the job, its schedule), ascending; the first edit is at batch 0


def format_schedule(schedule: IntegerWeightSchedule) -> str:
    return " | ".join(f"{begin}: {run_length_encode(weights)}" for begin, weights in schedule)


def parse_weight_schedule(text: str) -> IntegerWeightSchedule:
    """The schedule of a text. Raises StateMismatch WDS502 for a text that `format_schedule` has not written."""
    try:
        return tuple(
            (int(begin), run_length_decode(rest)) for begin, rest in (each.split(": ") for each in text.split(" | "))
        )
    except ValueError as error:
        raise StateMismatch(
            f"the state is damaged: {text[:60]!r} are not the weights of a blend",
            hint="pass the unchanged value that save_state_rank() or state_dict() returned",
            code="WDS502",
        ) from error


def edits_from_facts(order_facts: dict[str, Any] | None) -> ScheduleEdits:
    """The edits in the facts of a plan; none where a single component needs no weights."""
    if order_facts is None or not order_facts.get("weights"):
        return []
    return [
        (0, parse_weight_schedule(order_facts["weights"])),
        *((batch, parse_weight_schedule(text)) for batch, text in order_facts.get("weight_edits", [])),
    ]


def edits_to_facts(edits: ScheduleEdits) -> dict[str, Any]:
    """The facts of a plan with these edits."""
    facts: dict[str, Any] = {"weights": format_schedule(edits[0][1])}
    return (
        {**facts, "weight_edits": [[batch, format_schedule(each)] for batch, each in edits[1:]]} if edits[1:] else facts
    )


def extend_edits(edits: ScheduleEdits, schedule: IntegerWeightSchedule, batch: int | None) -> ScheduleEdits:
    """The edits of a job, and one more from this batch on if the blend's schedule has changed. Drops edits that would
    begin at or after this batch. Without a batch, only the blend's schedule."""
    if edits and edits[-1][1] == schedule:
        return edits
    if batch is None:
        return [(0, schedule)]
    kept = [edit for edit in edits if edit[0] < batch]
    return [*kept, (batch if kept else 0, schedule)]


def effective_schedule(edits: ScheduleEdits) -> IntegerWeightSchedule:
    """The weights and the batches from which they apply, over all edits. Segments that have begun never change."""
    found = []
    for i, (begin, schedule) in enumerate(edits):
        end = edits[i + 1][0] if i + 1 < len(edits) else None
        for j, (starts, weights) in enumerate(schedule):
            stops = schedule[j + 1][0] if j + 1 < len(schedule) else None
            first = max(begin, starts)
            if (stops is None or first < stops) and (end is None or first < end):
                found.append((first, weights))
    return tuple(found)


def run_length_encode(numbers: Sequence[int]) -> str:
    """Integers as a text with runs of equal ones shortened: "5 3 1x998"."""
    runs = ((str(weight), len(list(run))) for weight, run in groupby(numbers))
    return " ".join(
        f"{weight}x{count}" if count >= MIN_RUN_LENGTH else " ".join([weight] * count) for weight, count in runs
    )


def run_length_decode(text: str) -> IntegerWeights:
    """The integers that `run_length_encode` wrote. Raises ValueError for any other text."""
    if not is_run_length_text(text):
        raise ValueError(f"{short_repr(text)} is not a list of counts")
    runs = (each.split("x") for each in text.split())
    return tuple(int(run[0]) for run in runs for _ in range(int(run[1]) if run[1:] else 1))


def is_run_length_text(text: Any, least: int = 0) -> bool:
    """Whether `run_length_encode` may have written a text, of integers from `least` up."""
    if not isinstance(text, str) or not text.isascii():
        return False
    runs = [_RUN.fullmatch(each) for each in text.split()]
    lengths = [int(run[2] or 1) if run and int(run[1]) >= least else 0 for run in runs]
    return all(lengths) and 0 < sum(lengths) <= MAX_ENTRIES


def saved_edits(saved_order: dict[str, Any] | None, entry_count: int) -> ScheduleEdits:
    """The weights in the order facts of a state, for a blend of `entry_count` entries.

    Raises StateMismatch if they are of another number of entries, WDS502 if they are damaged.
    """
    edits = edits_from_facts(saved_order)
    had = len(edits[0][1][0][1]) if edits else entry_count
    if had != entry_count:
        raise StateMismatch(
            f"the blend of the state has {had} entries, but this blend has {entry_count}",
            hint="resume with the entries of the run that saved the state; set the weight of entries to 0 to stop "
            "reading them",
        )
    return edits


def sample_weights(
    plan: BlendPlan, entries: Sequence[int], source_ranges: Sequence[Sequence[SourceRange]]
) -> list[tuple[Fraction, ...]]:
    """The weights of these entries, in samples, a tuple for each segment of the plan's schedule. `source_ranges`: what
    each reads. Raises what `mean_lengths` raises, if weights count tokens."""
    chosen = [tuple(segment[i] for i in entries) for segment in _weight_fractions(plan)]
    if plan.weight_unit != "tokens":
        return chosen
    means = mean_lengths(source_ranges, [plan.components[i].where for i in entries])
    # The weights in samples with which the tokens of the components have these shares.
    return [tuple(weight / mean for weight, mean in zip(segment, means, strict=True)) for segment in chosen]


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


def blend_weights(
    plan: BlendPlan,
    entries: Sequence[Sequence[int]],
    current_weights: Sequence[Sequence[Fraction]],
    edits: ScheduleEdits,
    *,
    new_weights_from: int | None,
    saved_order: Mapping[str, Any] | None,
    world_size: int,
) -> tuple[tuple[Mixture, ...], tuple[int, ...], dict[str, Any]]:
    """The weights of the components, which are the `entries` of the plan (see `used_entries`), over the whole job: a
    mixture for each segment of their history, the batches of the job at which the segments begin, and the facts of the
    plan.

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
    return mixtures, tuple(begin for begin, _ in in_force), facts


def _weight_fractions(plan: BlendPlan) -> list[tuple[Fraction, ...]]:
    """The weights of all entries, a tuple for each segment of the plan's schedule."""
    if plan.schedule:
        return [segment.weights for segment in plan.schedule]
    return [tuple(component.weight for component in plan.components)]


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
