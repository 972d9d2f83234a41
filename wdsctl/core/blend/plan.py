"""The plan of a blend: components with weights, each one order over leaves laid end to end. Plain values.

While nodes are parsed, a `LeafSequence` is one order over leaves, and a `LeafMixture` is sequences with shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from wdsctl.core.blend.scope import Subset, format_multiplier
from wdsctl.core.blend.yaml_tree import NodeLocation, blend_error

WeightUnit = Literal["samples", "tokens"]
NonmatchMode = Literal["error", "skip", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One reference to a dataset. `where` is `file.yaml:12`, and does not distinguish two leaves."""

    path: str  # absolute, or a URL
    split_part: str
    subflavors: dict[str, Any] = field(default_factory=dict)  # outer over inner, over those of dataset.yaml
    multiplier: int | None = 1  # passes shuffled together; None: no shuffling; -1: drawn with replacement
    dataset_config: str | None = None  # another name than dataset.yaml
    split_config: str | None = None
    aux: dict[str, str] = field(default_factory=dict)  # name: absolute path, URL, or filesystem://
    subsets: tuple[Subset, ...] = ()  # inner first
    where: str = field(default="", compare=False)
    join: Join | None = None  # the join whose primary it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """The members that are joined to a leaf by key. `nonmatch`: per member, what happens to a sample without a partner
    there.

    `names`: of all members, the primary first; empty if they go by position. `joiner`: `module:name`, or an object
    given in code; None: the join makes a dict.
    """

    members: tuple[Leaf, ...]
    nonmatch: tuple[NonmatchMode, ...]
    names: tuple[str, ...] = ()
    joiner: str | Callable[..., Any] | None = None
    joiner_where: str = field(default="", compare=False)  # the line that names it


@dataclass(frozen=True, slots=True)
class RepeatedLeaf:
    """A leaf with repetitions: 3/2 is the whole leaf, then its first half. 0 excludes the leaf."""

    leaf: Leaf
    repetitions: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class BlendComponent:
    """One entry of the flat blend. The weights of all components sum to 1; a component of weight 0 is never drawn."""

    weight: Fraction
    repeated_leaves: tuple[RepeatedLeaf, ...]
    multiplier: int | None  # that of all its leaves
    where: str = field(default="", compare=False)


class ScheduleSegment(NamedTuple):
    """Weights from step `step` on: one per component, in their order; they sum to 1."""

    step: int  # the first step that these weights hold for
    weights: tuple[Fraction, ...]  # one per component


@dataclass(frozen=True, slots=True)
class BlendPlan:
    """`schedule`: empty if weights never change; otherwise its first segment is at step 0 and has the components'
    weights."""

    components: tuple[BlendComponent, ...]
    weight_unit: WeightUnit = "samples"
    schedule: tuple[ScheduleSegment, ...] = ()

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves in the order of the file, with one entry per reference."""
        return tuple(stretch.leaf for component in self.components for stretch in component.repeated_leaves)


class DatasetReference(NamedTuple):
    path: str
    split_part: str
    aux: dict[str, str]
    subflavors: dict[str, Any]


def traverse(plan: BlendPlan) -> list[DatasetReference]:
    """The references of all leaves, flat and in order, as Energon's `traverse_metadataset` returns them.

    The members of a join follow one another, the primary first.
    """
    leaves = (each for leaf in plan.leaves for each in (leaf, *(leaf.join.members if leaf.join else ())))
    return [DatasetReference(leaf.path, leaf.split_part, leaf.aux, leaf.subflavors) for leaf in leaves]


@dataclass(frozen=True, slots=True)
class LeafSequence:
    """Leaves laid end to end."""

    repeated_leaves: tuple[RepeatedLeaf, ...]
    location: NodeLocation


@dataclass(frozen=True, slots=True)
class LeafMixture:
    """Sequences with their shares, which sum to 1."""

    components: tuple[tuple[Fraction, LeafSequence], ...]
    location: NodeLocation
    weight_unit: WeightUnit = "samples"
    schedule: tuple[ScheduleSegment, ...] = ()


def merge_mixtures(
    children: Sequence[LeafSequence | LeafMixture], weights: Sequence[Fraction], location: NodeLocation
) -> LeafMixture:
    """Flatten a mixture of mixtures into one. At least one of `weights` is above 0."""
    total = sum(weights)
    components = (
        (weight / total * share, run)
        for weight, part in zip(weights, children, strict=True)
        for share, run in _components(part)
    )
    return LeafMixture(tuple(components), location)


def component_weights(
    children: Sequence[LeafSequence | LeafMixture], weights: Sequence[Fraction]
) -> tuple[Fraction, ...]:
    """The weights of the flat components alone."""
    total = sum(weights)
    return tuple(
        weight / total * share for weight, part in zip(weights, children, strict=True) for share, _ in _components(part)
    )


def concatenate(children: Iterable[tuple[Fraction, LeafSequence]], location: NodeLocation) -> LeafSequence:
    """Sequences laid end to end: repetitions multiply down."""
    stretches = (
        replace(stretch, repetitions=times * stretch.repetitions)
        for times, run in children
        for stretch in run.repeated_leaves
    )
    return LeafSequence(tuple(stretches), location)


def training_plan(root: LeafSequence | LeafMixture) -> BlendPlan:
    """The plan of a training. Raises DatasetError WDS600 if the leaves of one order have different multipliers."""
    mix = root if isinstance(root, LeafMixture) else LeafMixture(((Fraction(1), root),), root.location)
    components = tuple(
        BlendComponent(share, run.repeated_leaves, _common_multiplier(run), str(run.location))
        for share, run in mix.components
    )
    return BlendPlan(components, mix.weight_unit, mix.schedule)


def validation_plan(root: LeafSequence | LeafMixture) -> BlendPlan:
    """One pass over all leaves in order; weights and repetitions do not matter."""
    leaves = (stretch.leaf for _, run in _components(root) for stretch in run.repeated_leaves)
    return BlendPlan((BlendComponent(Fraction(1), tuple(map(RepeatedLeaf, leaves)), None, str(root.location)),))


def _components(node: LeafSequence | LeafMixture) -> tuple[tuple[Fraction, LeafSequence], ...]:
    return node.components if isinstance(node, LeafMixture) else ((Fraction(1), node),)


def _common_multiplier(sequence: LeafSequence) -> int | None:
    first = sequence.repeated_leaves[0].leaf
    for stretch in sequence.repeated_leaves:
        leaf = stretch.leaf
        if leaf.multiplier != first.multiplier:
            one, other = (f"{format_multiplier(each.multiplier)} ({each.where})" for each in (first, leaf))
            raise blend_error(
                f"shuffle_over_epochs_multiplier: one order must be shuffled in one way, found {one} and {other}",
                sequence.location,
                hint="write the key at the blend_epochized or concat, or the same at each of its entries",
            )
    return first.multiplier
