"""The weights of a blend over a whole job, as texts that a plan keeps: what is in force from which batch on.

"0: 5 3 1x998 | 400: 1 1 0x998": from batch 0 of the job 5, 3 and 998 times 1, from batch 400 on 1, 1 and never. That
is what a blend file says. Where a job was resumed with other weights, each time is an edit, [batch, text]: until that
batch what was before it holds, from there on the text does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from wdsctl.core.errors import StateMismatch

RUN = 4  # equal weights in a row that are written as one
Weights = tuple[int, ...]
Schedule = tuple[tuple[int, Weights], ...]  # (the batch of the job from which, weights of all entries of the blend)
Edits = list[tuple[int, Schedule]]  # (the batch from which, what then holds), ascending; the first one from batch 0


def written(schedule: Schedule) -> str:
    return " | ".join(f"{begin}: {packed(weights)}" for begin, weights in schedule)


def read(text: str) -> Schedule:
    """Raises StateMismatch WDS502 for what `written` has not written."""
    try:
        return tuple((int(begin), unpacked(rest)) for begin, rest in (each.split(": ") for each in text.split(" | ")))
    except ValueError as error:
        raise StateMismatch(
            f"the state is damaged: {text[:60]!r} are no weights of a blend",
            hint="give what save_state_rank() or state_dict() returned",
            code="WDS502",
        ) from error


def edits_of(order: dict[str, Any] | None) -> Edits:
    """What the facts of a plan say; nothing where they say nothing, or only a digest (as those of early states)."""
    if order is None or ":" not in order.get("weights", ""):
        return []
    return [(0, read(order["weights"])), *((batch, read(text)) for batch, text in order.get("edits", []))]


def to_facts(edits: Edits) -> dict[str, Any]:
    """What a plan keeps of them."""
    facts: dict[str, Any] = {"weights": written(edits[0][1])}
    return {**facts, "edits": [[batch, written(each)] for batch, each in edits[1:]]} if edits[1:] else facts


def continued(edits: Edits, schedule: Schedule, batch: int | None) -> Edits:
    """What a blend says now, after what a job knows: the same, or one more edit from this batch on, before which all
    others began. Without a batch, what the blend says is all that there is."""
    if edits and edits[-1][1] == schedule:
        return edits
    if batch is None:
        return [(0, schedule)]
    kept = [edit for edit in edits if edit[0] < batch]
    return [*kept, (batch if kept else 0, schedule)]


def segments(edits: Edits) -> Schedule:
    """What is in force from which batch on, over all edits. Segments that have begun keep their places for ever."""
    found = []
    for i, (begin, schedule) in enumerate(edits):
        end = edits[i + 1][0] if i + 1 < len(edits) else None
        for j, (starts, weights) in enumerate(schedule):
            stops = schedule[j + 1][0] if j + 1 < len(schedule) else None
            first = max(begin, starts)
            if (stops is None or first < stops) and (end is None or first < end):
                found.append((first, weights))
    return tuple(found)


def packed(weights: Sequence[int]) -> str:
    """Whole numbers as a text, equal ones in a row as one: "5 3 1x998"."""
    runs = ((str(weight), len(list(run))) for weight, run in groupby(weights))
    return " ".join(f"{weight}x{count}" if count >= RUN else " ".join([weight] * count) for weight, count in runs)


def unpacked(text: str) -> Weights:
    """What `packed` has written. Raises ValueError for anything else."""
    runs = (each.split("x") for each in text.split())
    return tuple(int(run[0]) for run in runs for _ in range(int(run[1]) if run[1:] else 1))
