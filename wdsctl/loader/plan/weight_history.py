"""The weights of a blend over a whole job, as texts in the plan: which weights apply from which batch on.

"0: 5 3 1x998 | 400: 1 1 0x998" means the weights 5, 3 and 998 times 1 from batch 0 of the job on, and 1, 1 and 998
times 0 from batch 400 on. Such a text describes a blend file. If a job is resumed with other weights, the plan gets an
edit, [batch, text]: the text applies from this batch on, and earlier weights before it.
"""

from __future__ import annotations

from typing import Any

from wdsctl.core.errors import StateMismatch
from wdsctl.loader.plan.run_lengths import run_length_decode, run_length_encode

IntegerWeights = tuple[int, ...]
#: (first batch of the job, weights of all entries of the blend), ascending.
IntegerWeightSchedule = tuple[tuple[int, IntegerWeights], ...]
#: (first batch of the job, its schedule), ascending; the first edit is at batch 0.
ScheduleEdits = list[tuple[int, IntegerWeightSchedule]]


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
    (_, first), *later = edits
    facts: dict[str, Any] = {"weights": format_schedule(first)}
    if later:
        facts["weight_edits"] = [[batch, format_schedule(each)] for batch, each in later]
    return facts


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
