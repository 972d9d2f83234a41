"""What a node comes to: a run is one order over leaves, a mix is arms with shares. Groups put them together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from wdsctl.core.blend_file.around import shown_multiplier
from wdsctl.core.blend_file.plan import Arm, BlendPlan, Segment, Stretch, Unit
from wdsctl.core.blend_file.problems import Place, wrong


@dataclass(frozen=True, slots=True)
class Run:
    """Leaves laid end to end."""

    stretches: tuple[Stretch, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Mix:
    """Runs with their shares, which sum to 1."""

    arms: tuple[tuple[Fraction, Run], ...]
    place: Place
    unit: Unit = "samples"
    schedule: tuple[Segment, ...] = ()


def mixed(parts: Sequence[Run | Mix], weights: Sequence[Fraction], place: Place) -> Mix:
    """A mix of mixes, flat. `weights` are not all 0."""
    total = sum(weights)
    arms = (
        (weight / total * share, run) for weight, part in zip(weights, parts, strict=True) for share, run in _arms(part)
    )
    return Mix(tuple(arms), place)


def shares(parts: Sequence[Run | Mix], weights: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """The weights of the flat arms alone."""
    total = sum(weights)
    return tuple(
        weight / total * share for weight, part in zip(weights, parts, strict=True) for share, _ in _arms(part)
    )


def laid_end_to_end(parts: Iterable[tuple[Fraction, Run]], place: Place) -> Run:
    """Repetitions multiply down."""
    stretches = (
        replace(stretch, repetitions=times * stretch.repetitions) for times, run in parts for stretch in run.stretches
    )
    return Run(tuple(stretches), place)


def training_plan(part: Run | Mix) -> BlendPlan:
    """Raises DatasetError WDS600 where the leaves of one order are to be shuffled differently."""
    mix = part if isinstance(part, Mix) else Mix(((Fraction(1), part),), part.place)
    arms = tuple(Arm(share, run.stretches, _multiplier(run), str(run.place)) for share, run in mix.arms)
    return BlendPlan(arms, mix.unit, mix.schedule)


def validation_plan(part: Run | Mix) -> BlendPlan:
    """One pass over all leaves in order; weights and repetitions do not matter."""
    leaves = (stretch.leaf for _, run in _arms(part) for stretch in run.stretches)
    return BlendPlan((Arm(Fraction(1), tuple(map(Stretch, leaves)), None, str(part.place)),))


def _arms(part: Run | Mix) -> tuple[tuple[Fraction, Run], ...]:
    return part.arms if isinstance(part, Mix) else ((Fraction(1), part),)


def _multiplier(run: Run) -> int | None:
    first = run.stretches[0].leaf
    for stretch in run.stretches:
        leaf = stretch.leaf
        if leaf.multiplier != first.multiplier:
            one, other = (f"{shown_multiplier(each.multiplier)} ({each.where})" for each in (first, leaf))
            raise wrong(
                f"shuffle_over_epochs_multiplier: one order is shuffled in one way, and here are {one} and {other}",
                run.place,
                hint="write the key at the blend_epochized or concat, or the same at each of its entries",
            )
    return first.multiplier
