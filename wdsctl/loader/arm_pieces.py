"""What an arm of a blend reads: the stretches of its plan as pieces of opened sources, and the names of that data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wdsctl.core.blend_file import Arm as ArmPlan
from wdsctl.core.blend_file import Leaf, resolve
from wdsctl.core.errors import InputError
from wdsctl.loader.arms import Piece
from wdsctl.loader.source import Source
from wdsctl.loader.value_digest import value_digest


def pieces_of(arm: ArmPlan, opened: Callable[[Leaf], Source]) -> list[Piece]:
    """A piece for each stretch that has samples; `opened` is asked for each that comes at all, in their order.

    Raises InputError WDS211 where nothing is left, and what `resolve` raises for a subset that cannot be.
    """
    pieces = []
    for stretch in arm.stretches:
        if not stretch.repetitions:
            continue
        source = opened(stretch.leaf)
        start, stop = resolve(stretch.leaf.subsets, source.n)
        samples = int((stop - start) * stretch.repetitions)
        if samples:
            pieces.append(Piece(source, start, stop - start, samples))
    if not pieces:
        raise InputError(
            "this entry of the blend has no samples",
            where=arm.where or ", ".join(stretch.leaf.path for stretch in arm.stretches),
            hint="look at its subset and its repetitions, or give it the weight 0",
            code="WDS211",
        )
    return pieces


def data_digest(pieces: Sequence[Piece]) -> str:
    """Names what an arm reads, wherever it stands in a blend: 32 hex digits."""
    return value_digest(_facts(pieces))


def arm_digest(pieces: Sequence[Piece], number: int) -> str:
    """Names what the arm of this number reads: 8 hex digits. States have them all, and so tell which one differs."""
    return value_digest([number, _facts(pieces)])[:8]


def _facts(pieces: Sequence[Piece]) -> list[Any]:
    return [[piece.source.digest, piece.first, piece.n, piece.samples] for piece in pieces]
