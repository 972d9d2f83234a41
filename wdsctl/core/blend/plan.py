"""The plan of a blend: components with weights, each one order over leaves laid end to end. Plain values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from wdsctl.core.blend.scope import Subset

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
    weights. `where`: the line of the outermost node."""

    components: tuple[BlendComponent, ...]
    weight_unit: WeightUnit = "samples"
    schedule: tuple[ScheduleSegment, ...] = ()
    where: str = field(default="", compare=False)

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
