"""A plan of so many samples without a byte of them: orders, blend, lanes and states, walked as a training walks them.

    python -m benchmarks.contenders.plans --samples N --components C

A blend of C components with N samples in all (weights 1, 2, 3, ... by turns), 8 lanes, slices of 16, windows of 1,000.
The script draws from one lane at its beginning, half way through the epoch, and a thousand epochs later. Each time it
measures as many references as a window has, after the first ones, and checks their positions and the share of each
component, within 2 draws.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median
from typing import Any

import numpy as np

from benchmarks.memory import tree_bytes
from wdsctl.core.array_types import Int64Array
from wdsctl.core.hashing import derive_seed
from wdsctl.loader.lanes.mixture import Mixture, integer_weights
from wdsctl.loader.lanes.rank_lanes import new_layout
from wdsctl.loader.order.shuffle import ShuffledOrder, slice_size
from wdsctl.loader.pipeline.references import RefCursor, RefStage
from wdsctl.loader.plan.components import Component, SourceRange

_LANES, _SLICE, _WINDOW = 8, 16, 1000
_TAKE = 1000  # references: as many as a window has
_REPEATS = 20


@dataclass(frozen=True, slots=True)
class Positions:
    """Stands for the block of references that a source with files would give."""

    rows: list[int]

    def __len__(self) -> int:
        return len(self.rows)


class NoFiles:
    """A source that has positions and nothing else."""

    is_remote = False

    def __init__(self, number: int) -> None:
        self.number = number

    def block(self, positions: Int64Array, passes: Int64Array) -> Positions:  # noqa: ARG002 - as a source has it
        return Positions(positions.tolist())

    def will_need(self, slices: Int64Array, most_bytes: int) -> None:
        """There is nothing to fetch."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--components", type=int, required=True)
    given = parser.parse_args()
    # What Python imports, and numpy sets up, when it first draws is no work of the plan's.
    plan(10_000, 2).open(new_layout(_LANES).lanes[0]).take(_TAKE)
    gc.collect()
    before = tree_bytes(os.getpid())
    begun = time.perf_counter()
    stage = plan(given.samples, given.components)
    cursors = [stage.open(lane) for lane in new_layout(_LANES).lanes]
    for cursor in cursors:
        cursor.take(1)
    seconds = time.perf_counter() - begun
    epoch = given.samples // _LANES
    places = {"begin": 0, "middle": epoch // 2, "far": 1000 * epoch}
    windows = {f"window_{name}_seconds": _window_seconds(stage, cursors[-1], picks) for name, picks in places.items()}
    held = tree_bytes(os.getpid()) - before
    print(json.dumps({"start_seconds": seconds, **windows, "held_bytes": held}))


def plan(samples: int, components: int) -> RefStage:
    """The first stage of a training over `components` datasets of equal sizes."""
    n = samples // components
    size = slice_size(n, _LANES, _SLICE)
    return RefStage(
        components=[_component(number, n, size) for number in range(components)],
        blends=(Mixture(integer_weights([Fraction(1 + number % 3) for number in range(components)])),),
        mix_seed=derive_seed("plans", samples),
    )


def _component(number: int, n: int, size: int) -> Component:
    order = ShuffledOrder(
        n=n, slice_samples=size, window_samples=_WINDOW, seed=derive_seed("plans", number), passes=1, lanes=_LANES
    )
    source: Any = NoFiles(number)
    return Component(order, [SourceRange(source, 0, n, n)])


def _window_seconds(stage: RefStage, cursor: RefCursor, picks: int) -> float:
    """Median seconds for as many references as a window has, from this pick on."""
    cursor.seek(picks)
    taken, seconds = [cursor.take(_TAKE)], []
    for _ in range(_REPEATS):
        begun = time.perf_counter()
        taken.append(cursor.take(_TAKE))
        seconds.append(time.perf_counter() - begun)
    check(stage, [ref for refs in taken for ref in refs])
    return median(seconds)


def check(stage: RefStage, refs: Sequence[tuple[Any, Any, int]]) -> None:
    """Exit with what is wrong, if anything is."""
    which = np.array([source.number for source, _, _ in refs])
    rows = np.array([block.rows[i] for _, block, i in refs])
    n = stage.components[0].order.n
    if rows.min() < 0 or rows.max() >= n:
        raise SystemExit(f"position {rows.max()} of {n}")
    weights = np.array(stage.blends[0].weights)
    shares = len(refs) * weights / weights.sum()
    # Two prefixes of a lane are each within 2 picks of their share.
    off = np.abs(np.bincount(which, minlength=len(weights)) - shares).max()
    if off > 4:
        raise SystemExit(f"an arm is {off:.1f} picks off its share")
    places = which * n + rows
    if len(np.unique(places)) != len(places) and len(refs) < stage.components[0].order.n // _LANES:
        raise SystemExit("a sample came twice within one pass")


if __name__ == "__main__":
    main()
