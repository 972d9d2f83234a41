"""What a job keeps of a dataset that has grown under it: the order that it had, up to the draw where it ended.

A plan's `eras` are [arm, draw, samples, seed, facts, [shard, ...]]: the arm of the blend; the draw before which its
data was what it then was; how many samples that were, and the seed of their order; the digest of that data; and of each
of its datasets the last shard. Shards that are added later have higher numbers, so data of then is read through the
catalog of now, and no older one has to be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from wdsctl.core.blend_file import Arm as ArmPlan
from wdsctl.core.errors import InputError, StateMismatch
from wdsctl.loader.arm_orders import Sizes, shuffled
from wdsctl.loader.arm_pieces import arm_digest, pieces_of
from wdsctl.loader.arms import Arm, Piece
from wdsctl.loader.opening import Opener
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
    """What `pasts_of` reads, as JSON."""
    return [[*past[:-1], list(past.shards)] for past in pasts]


def over_eras(
    arms: Sequence[Arm],
    pasts: Sequence[Past],
    entries: Sequence[ArmPlan],
    datasets: Sequence[Sequence[Source]],
    sizes: Sizes,
    opener: Opener,
) -> tuple[Arm, ...]:
    """Arms as they are now become arms over all their eras, the present one last; one that never grew stays itself.

    Of each arm: the entry of the blend that it is, and the sources that `opener` opened for it. Data of an era that is
    not there any more as it was raises StateMismatch when it is read.
    """
    each = zip(arms, entries, datasets, strict=True)
    return tuple(
        _over_eras(arm, [past for past in pasts if past.arm == number], entry, sources, sizes, opener)
        for number, (arm, entry, sources) in enumerate(each)
    )


def is_whole(arm: Arm) -> bool:
    """Whether all that an arm has read or will read is there as it was."""
    return not any(isinstance(piece.source, Gone) for piece in arm.pieces)


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


def _over_eras(
    arm: Arm, pasts: Sequence[Past], entry: ArmPlan, sources: Sequence[Source], sizes: Sizes, opener: Opener
) -> Arm:
    if not pasts:
        return arm
    orders = [shuffled(past.samples, past.seed, arm.order.passes, sizes, arm.order.turn) for past in pasts]
    pieces = [piece for past in pasts for piece in _pieces(past, entry, sources, opener)]
    order = Eras([*orders, cast("Shuffled", arm.order)], [past.end for past in pasts])
    return Arm(order, [*pieces, *arm.pieces])


def _pieces(past: Past, entry: ArmPlan, sources: Sequence[Source], opener: Opener) -> list[Piece]:
    """The data of an era that has ended, or what stands for it where it is not there any more."""
    befores = (opener.before(source, shard) for source, shard in zip(sources, past.shards, strict=True))
    try:
        found = pieces_of(entry, lambda _: next(befores))
    except InputError:  # of what is left of it, a subset or a share is nothing
        found = []
    if found and arm_digest(found, past.arm) == past.facts:
        return found
    return [Piece(cast("Source", Gone(sources[0], past.samples)), 0, past.samples, past.samples)]
