"""What a blend file comes to: arms with weights, each one order over leaves laid end to end. Plain values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from wdsctl.core.blend_file.subset import Subset

Unit = Literal["samples", "tokens"]
Nonmatch = Literal["error", "skip", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One reference to a dataset. `where` is `file.yaml:12`, and makes no difference between two leaves."""

    path: str  # absolute, or a URL
    split_part: str
    subflavors: dict[str, Any] = field(default_factory=dict)  # outer over inner; those of dataset.yaml lie below
    multiplier: int | None = 1  # passes shuffled together; None: no shuffling; -1: drawn with replacement
    dataset_config: str | None = None  # another name than dataset.yaml
    split_config: str | None = None
    aux: dict[str, str] = field(default_factory=dict)  # name: absolute path, URL, or filesystem://
    subsets: tuple[Subset, ...] = ()  # inner first
    where: str = field(default="", compare=False)
    join: Join | None = None  # what it is the primary of


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """What is joined to a leaf by key. `nonmatch`: of each member, what becomes of a sample without a partner there.

    `names`: of all, the primary first; empty where they go by position. `joiner`: `module:name`, or what was given in
    code; None: a dict is made of them.
    """

    members: tuple[Leaf, ...]
    nonmatch: tuple[Nonmatch, ...]
    names: tuple[str, ...] = ()
    joiner: str | Callable[..., Any] | None = None
    joiner_where: str = field(default="", compare=False)  # the line that names it


@dataclass(frozen=True, slots=True)
class Stretch:
    """A leaf in an order, so many times: 3/2 is all of it, and then its first half. 0 means never."""

    leaf: Leaf
    repetitions: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class Arm:
    """One entry of the flat blend. Weights of all arms sum to 1; 0 means never."""

    weight: Fraction
    stretches: tuple[Stretch, ...]
    multiplier: int | None  # that of all its leaves
    where: str = field(default="", compare=False)


class Segment(NamedTuple):
    step: int  # the first step that these weights hold for
    weights: tuple[Fraction, ...]  # one an arm, in the order of the arms; they sum to 1


@dataclass(frozen=True, slots=True)
class BlendPlan:
    """`schedule`: empty where weights never change; else its first segment is at step 0 and has the arms' weights."""

    arms: tuple[Arm, ...]
    weight_unit: Unit = "samples"
    schedule: tuple[Segment, ...] = ()

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves in the order of the file; one that is referred to twice stands twice."""
        return tuple(stretch.leaf for arm in self.arms for stretch in arm.stretches)


class Reference(NamedTuple):
    path: str
    split_part: str
    aux: dict[str, str]
    subflavors: dict[str, Any]


def traverse(plan: BlendPlan) -> list[Reference]:
    """The references of all leaves, flat and in order, as Energon's `traverse_metadataset` gives them.

    The members of a join stand one after the other, the primary first.
    """
    leaves = (each for leaf in plan.leaves for each in (leaf, *(leaf.join.members if leaf.join else ())))
    return [Reference(leaf.path, leaf.split_part, leaf.aux, leaf.subflavors) for leaf in leaves]
