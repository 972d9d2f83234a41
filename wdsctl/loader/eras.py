"""What a job keeps of a dataset that has grown under it: the order that it had, up to the slot where it ended.

A plan's `eras` are [arm, slot, samples, seed, facts, [shard, ...]]: the arm of the blend; the slot before which its
data was what it then was; how many samples that were, and the seed of their order; the digest of that data; and of each
of its datasets the last shard. Shards that are added later have higher numbers, so data of then is read through the
catalog of now, and no older one has to be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from wdsctl.core.errors import StateMismatch
from wdsctl.loader.arms import Arm, Piece
from wdsctl.loader.order.eras import Eras
from wdsctl.loader.order.shuffle import Shuffled
from wdsctl.loader.source import Source


class Past(NamedTuple):
    """An era that has ended: see the head of this module."""

    arm: int
    end: int
    samples: int
    seed: int
    facts: str
    shards: tuple[int, ...]


def pasts_of(order: dict[str, Any] | None) -> list[Past]:
    """The eras in the facts of a plan, in the order in which they ended."""
    found = [] if order is None else order.get("eras", [])
    return [Past(arm, end, samples, seed, facts, tuple(shards)) for arm, end, samples, seed, facts, shards in found]


def to_plan(pasts: Sequence[Past]) -> list[Any]:
    return [[*past[:-1], list(past.shards)] for past in pasts]


def over_eras(orders: Sequence[Shuffled], pasts: Sequence[Past], pieces: Sequence[Sequence[Piece]]) -> Arm:
    """An arm over all its eras, the present one last; `pasts` are those that have ended."""
    return Arm(Eras(orders, [past.end for past in pasts]), [piece for each in pieces for piece in each])


def is_whole(arm: Arm) -> bool:
    """Whether all that an arm has read or will read is there as it was."""
    return not any(isinstance(piece.source, Gone) for piece in arm.pieces)


def gone(past: Past, like: Source) -> list[Piece]:
    """What stands for the data of an era that is not there any more."""
    return [Piece(cast("Source", Gone(like, past.samples)), 0, past.samples, past.samples)]


class Gone:
    """Stands for data of an era that is not there any more as it was. Only who reads it finds out."""

    def __init__(self, like: Source, samples: int) -> None:
        self.number, self.dataset_path = like.number, like.dataset_path
        self._samples = samples

    def block(self, *_: Any) -> Any:
        raise StateMismatch(
            f"the job has samples to come of the dataset as it was before it grew ({self._samples:,} samples), "
            "and they have changed or are gone",
            where=self.dataset_path,
            hint="resume with the shards and the split of that time, or begin a new run",
        )

    def will_need(self, *_: Any) -> None:
        """There is nothing to ask for."""

    def close(self) -> None:
        """There is nothing open."""
