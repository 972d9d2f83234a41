"""Packing a stream window by window. What would go out half empty waits for the next window, and no longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wdsctl.loader.packing.plan import Method, Plan, as_budgets, plan_packs

Ints = NDArray[np.int64]

TARGET = 0.998  # of capacity: packs are held back until those that go out reach it
MOST = 4  # at most one in so many candidates waits for the next window


@dataclass(frozen=True, slots=True)
class Window:
    """Places among the carried samples and the new ones after them, which are numbered together from 0.

    `packs`: an int64 array of places a pack, in the order they go out. `carry`: what waits for the next window, in
    order. `too_long`: what fits into no pack.
    """

    packs: list[Ints]
    carry: Ints
    too_long: Ints


def plan_window(
    carried: ArrayLike,
    new: ArrayLike,
    capacity: int | Sequence[int],
    method: Method = "best_fit",
    *,
    is_last: bool = False,
) -> Window:
    """Plan one window. Lengths are (n,) or (n, budgets), as `plan_packs` takes them.

    A carried sample goes out now, and with the last window everything does. Otherwise the emptiest packs are held back,
    as many as it takes until the others are filled to 99.8 % on average. Where a quarter of the candidates would not
    do, holding back does not help, and only the emptiest one waits. `sequential` holds back the pack that is not full
    yet, which is its last: with it, windows leave no trace.
    """
    sizes = np.concatenate((as_budgets(carried, capacity)[0], as_budgets(new, capacity)[0]))
    waited = len(np.asarray(carried))
    plan = plan_packs(sizes, np.atleast_1d(np.asarray(capacity)).tolist(), method)
    held = np.zeros(len(plan), bool)
    if not is_last and len(plan):
        may = plan.indices[plan.offsets[:-1]] >= waited  # places ascend: the first is a carried one, or none is
        held[_held_back(plan, may, method)] = True
    packs = plan.packs
    carry = np.sort(np.concatenate([packs[i] for i in np.flatnonzero(held)] or [np.empty(0, np.int64)]))
    return Window([packs[i] for i in np.flatnonzero(~held)], carry, plan.too_long)


def _held_back(plan: Plan, may: NDArray[np.bool_], method: Method) -> Ints:
    """The packs that are held back, of those that may be."""
    fill = (plan.filled / plan.capacity).max(axis=1)
    if method == "sequential":
        last = len(plan) - 1
        return np.flatnonzero(may[last:] & (fill[last:] < 1)) + last
    candidates = np.flatnonzero(may)
    emptiest = candidates[np.argsort(fill[candidates], kind="stable")][: len(plan) - 1]
    samples = np.cumsum(np.diff(plan.offsets)[emptiest])
    emptiest = emptiest[samples <= max(1, len(plan.indices) // MOST)]
    held = np.arange(len(emptiest) + 1)
    rest = (fill.sum() - np.concatenate(([0.0], np.cumsum(fill[emptiest])))) / (len(plan) - held)
    enough = np.flatnonzero(rest >= TARGET)
    return emptiest[: int(enough[0]) if len(enough) else 1]
