"""The weights of a blend over a job: what the blend says now, after what a state knows of the time before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from wdsctl.core.blend_file import BlendPlan
from wdsctl.core.errors import StateMismatch, UsageError
from wdsctl.core.printable import short
from wdsctl.loader.arms import Piece
from wdsctl.loader.blend_history import Edits, Schedule, continued, edits_of, segments, to_facts
from wdsctl.loader.order.blend import Blend, integer_weights
from wdsctl.loader.plan import MAY_ADOPT
from wdsctl.loader.token_weights import by_tokens, mean_lengths
from wdsctl.loader.value_digest import value_digest


@dataclass(frozen=True, slots=True)
class BlendWeights:
    """`blends`: one for each segment of the weights' history, over the arms that are used; they begin at the batches
    `begins` of the job. `facts`: what a plan keeps of them."""

    blends: tuple[Blend, ...]
    begins: tuple[int, ...]
    facts: dict[str, Any]


def edits_for(was: dict[str, Any] | None, entries: int) -> Edits:
    """The weights that a state knows of, whose order has the facts `was`, for a blend of so many entries.

    Raises StateMismatch where they are of another number of entries, WDS502 where they are damaged.
    """
    edits = edits_of(was)
    had = len(edits[0][1][0][1]) if edits else entries
    if had != entries:
        raise StateMismatch(
            f"the blend of the state has {had} entries, and this one has {entries}",
            hint="resume with the entries of the run that saved the state; one with the weight 0 never comes",
        )
    return edits


def sample_weights(
    plan: BlendPlan, entries: Sequence[int], pieces: Sequence[Sequence[Piece]]
) -> list[tuple[Fraction, ...]]:
    """The weights of these entries, in samples, a tuple for each segment of the plan's schedule. `pieces`: what each
    reads. Raises what `mean_lengths` raises, where weights count tokens."""
    chosen = [tuple(segment[i] for i in entries) for segment in _fractions(plan)]
    if plan.weight_unit != "tokens":
        return chosen
    means = mean_lengths(pieces, [plan.arms[i].where for i in entries])
    return [by_tokens(segment, means) for segment in chosen]


def used_entries(
    plan: BlendPlan, edits: Edits, was: Mapping[str, Any] | None, *, may_raise: bool = False
) -> tuple[list[list[int]], int]:
    """The entries that have had a weight above 0 at some time, in lists: those that the job began with, and those that
    were raised from 0 at each resume since. And how many of them the state knows.

    No other entry is even opened, and none of these ever changes its place, by which arms and sources are numbered.
    Raises UsageError where there is none, StateMismatch where one is raised from 0 and may not be.
    """
    wanted = _weighted(_fractions(plan))
    if not wanted:
        raise UsageError("nothing is to be read", hint="give at least one dataset a weight above 0")
    if was is None:
        return [wanted], len(wanted)
    known = _known_entries(edits, was, len(plan.arms))
    seen = {entry for entries in known for entry in entries}
    raised = [entry for entry in wanted if entry not in seen]
    if not known:
        return [raised], len(raised)
    if raised and not may_raise:
        names = ", ".join(", ".join(stretch.leaf.path for stretch in plan.arms[entry].stretches) for entry in raised)
        words = f"the blend of the state never read what has a weight above 0 here: {names}"
        raise StateMismatch(words, hint=MAY_ADOPT)
    return [*known, raised] if raised else known, len(seen)


def _known_entries(edits: Edits, was: Mapping[str, Any], entries: int) -> list[list[int]]:
    """Those that a state has arms of; nothing where it does not say which entries its weights are of."""
    if "entries" in was:
        known = was["entries"]
        lists = isinstance(known, list) and all(isinstance(each, list) for each in known)
        flat = [entry for each in known for entry in each] if lists else []
        if not flat or any(type(entry) is not int or not 0 <= entry < entries for entry in flat):
            raise StateMismatch(
                f"the state is damaged: {short(known)} are no entries of a blend of {entries}",
                hint="give what save_state_rank() or state_dict() returned",
                code="WDS502",
            )
        return [list(each) for each in known]
    found = _weighted([weights for _, schedule in edits for _, weights in schedule])
    return [found] if found else []


def _weighted(segments: Sequence[Sequence[Fraction | int]]) -> list[int]:
    """The entries with a weight above 0 in any of these."""
    return sorted({entry for weights in segments for entry, weight in enumerate(weights) if weight})


def weights_of(
    plan: BlendPlan,
    entries: Sequence[Sequence[int]],
    chosen: Sequence[Sequence[Fraction]],
    edits: Edits,
    *,
    edit_at: int | None,
    was: Mapping[str, Any] | None,
    world: int,
) -> BlendWeights:
    """The weights of the arms, which are the `entries` of the plan (see `used_entries`), over the whole job. `chosen`:
    what the plan says now, see `sample_weights`.

    `edits`: those that the state knows, whose order has the facts `was`; `edit_at`: the batch from which other ones
    hold, None where they count as those of another plan. `world`: ranks now; a step of a schedule is as many batches as
    there were ranks at the first start.
    """
    used = [entry for each in entries for entry in each]
    steps = tuple(segment.step for segment in plan.schedule) or (0,)
    world = world if was is None else was.get("world", world)
    schedule = _schedule([step * world for step in steps], chosen, used, len(plan.arms))
    edits = continued(edits, schedule, edit_at)
    in_force = segments(edits)
    digest = value_digest([[[weights[i] for i in used] for _, weights in schedule], steps])
    if was is not None and was["weights"] == digest:
        facts: dict[str, Any] = {"weights": digest}  # of a state that has no more of them
    else:
        facts = to_facts(edits) if len(plan.arms) > 1 else {"weights": ""}
        if list(entries) != [_weighted([weights for _, each in edits for _, weights in each])]:
            facts["entries"] = [list(each) for each in entries]  # else the weights say so
    if len(steps) > 1:
        facts["world"] = world
    blends = tuple(Blend(tuple(weights[i] for i in used)) for _, weights in in_force)
    return BlendWeights(blends, tuple(begin for begin, _ in in_force), facts)


def _fractions(plan: BlendPlan) -> list[tuple[Fraction, ...]]:
    """The weights of all entries, a tuple for each segment of the plan's schedule."""
    if plan.schedule:
        return [segment.weights for segment in plan.schedule]
    return [tuple(arm.weight for arm in plan.arms)]


def _schedule(
    begins: Sequence[int], chosen: Sequence[Sequence[Fraction]], used: Sequence[int], entries: int
) -> Schedule:
    """Whole weights of all entries, from the fractions of those that are used."""
    found = []
    for begin, segment in zip(begins, chosen, strict=True):
        weights = [0] * entries
        for i, weight in zip(used, integer_weights(segment), strict=True):
            weights[i] = weight
        found.append((begin, tuple(weights)))
    return tuple(found)
