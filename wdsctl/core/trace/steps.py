"""From training steps to batches of the job, and back.

A step is one batch of every rank. A rank that began when the world had drawn `base` batches draws batch `base + rank`,
then the one `world` further, and so on: these are steps `(number - base) // world` of this stretch, after the steps
before it. Runs are taken in the order they were written; one that begins at a batch takes the place of what was counted
from there on. Before the first traced stretch, steps are counted as if the world had always been its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple


class Stretch(NamedTuple):
    base: int  # batches that the world had drawn
    world: int  # ranks


class Steps:
    def __init__(self, stretches: Iterable[Stretch]) -> None:
        kept: list[Stretch] = []
        for stretch in stretches:
            while kept and kept[-1].base >= stretch.base:
                kept.pop()
            if not kept or kept[-1].world != stretch.world or (stretch.base - kept[-1].base) % stretch.world:
                kept.append(stretch)
        self._stretches = kept
        self._bases = [stretch.base for stretch in kept]
        self._before = _before(kept)

    def step_of(self, number: int) -> int:
        """The step that this batch of the job was part of."""
        i = max(0, bisect_right(self._bases, number) - 1)
        base, world = self._stretches[i]
        return self._before[i] + (number - base) // world

    def numbers(self, step: int) -> range:
        """The batches of the job that make this step, one a rank."""
        if not self._stretches or step < 0:
            return range(0)
        i = max(0, bisect_right(self._before, step) - 1)
        base, world = self._stretches[i]
        start = base + (step - self._before[i]) * world
        return range(start, start + world)


def _before(stretches: list[Stretch]) -> list[int]:
    """The number of each stretch's first step."""
    steps = [stretch.base // stretch.world for stretch in stretches[:1]]
    for (base, world), following in pairwise(stretches):
        steps.append(steps[-1] - (base - following.base) // world)  # a step that was broken off counts as one
    return steps
