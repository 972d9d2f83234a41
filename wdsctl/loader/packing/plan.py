"""Which samples go into which pack, by their lengths alone: numpy, and no samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wdsctl.core.errors import UsageError
from wdsctl.loader.packing.best_fit import best_fit
from wdsctl.loader.packing.budgets import greedy, knapsacks
from wdsctl.loader.packing.first_fit import first_fit
from wdsctl.loader.packing.knapsack import knapsack
from wdsctl.loader.packing.sequential import sequential

Ints = NDArray[np.int64]
Method = Literal["best_fit", "first_fit_decreasing", "sequential", "knapsack"]

METHODS: tuple[str, ...] = get_args(Method)
ONE_BUDGET = {"best_fit": best_fit, "first_fit_decreasing": first_fit, "knapsack": knapsack}


@dataclass(frozen=True, slots=True)
class Plan:
    """Pack p has the samples `indices[offsets[p] : offsets[p + 1]]`, ascending.

    `indices`: int64 (packed samples,); `offsets`: int64 (packs + 1,); `too_long`: int64, the samples that fit into no
    pack; `filled`: int64 (packs, budgets), what the samples of each pack add up to; `capacity`: int64 (budgets,).
    """

    indices: Ints
    offsets: Ints
    too_long: Ints
    filled: Ints
    capacity: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def packs(self) -> list[Ints]:
        """The samples of each pack."""
        return np.split(self.indices, self.offsets[1:-1]) if len(self) else []

    @property
    def efficiency(self) -> float:
        """The share of the packs' capacity that is filled, by the first budget; 0 where there are no packs."""
        room = len(self) * int(self.capacity[0])
        return int(self.filled[:, 0].sum()) / room if room else 0.0


def plan_packs(lengths: ArrayLike, capacity: int | Sequence[int], method: Method = "best_fit") -> Plan:
    """Pack samples of these lengths, (n,) or (n, budgets), so that no pack has more than `capacity` of any budget.

    The same input gives the same plan everywhere. Of equal lengths the earlier comes first. Packs come in the order in
    which their longest samples came, and samples in a pack as they came, so that long ones are not seen first.

    `best_fit`: longest first, each into the fullest pack that has room for it. `first_fit_decreasing`: into the first
    such pack. `knapsack`: pack by pack, the longest that still fits, again and again. These three take the length with
    several budgets as the largest share of a budget. `sequential`: in order, a new pack where the next does not fit;
    neighbours stay neighbours. A sample without length takes 1 of the first budget, so that no pack grows without end.

    About 1 us a sample with one budget. With several it is 5 to 50 us at 16,000 samples, and grows with their number.
    Raises UsageError for lengths below 0, unlike numbers of budgets, and unknown methods.
    """
    sizes, room = as_budgets(lengths, capacity)
    if method not in METHODS:
        raise UsageError(f"no packing method is called {method!r}", hint=f"there are {', '.join(METHODS)}")
    too_long = (sizes > room).any(axis=1)
    places = np.flatnonzero(~too_long)
    mine = sizes[places]
    planned = mine.copy()
    planned[:, 0] += ~mine.any(axis=1)
    shares = planned[:, 0] if len(room) == 1 else (planned / room).max(axis=1)
    indices, offsets = _in_order(_assign(planned, room, shares, method), shares)
    filled = np.add.reduceat(mine[indices], offsets[:-1]) if len(indices) else np.empty((0, len(room)), np.int64)
    return Plan(places[indices], offsets, np.flatnonzero(too_long), filled, room)


def as_budgets(lengths: ArrayLike, capacity: int | Sequence[int]) -> tuple[Ints, Ints]:
    """Lengths as int64 (n, budgets) and capacities as int64 (budgets,). Raises UsageError where they do not fit."""
    given: NDArray[Any] = np.asarray(lengths)
    room = np.atleast_1d(np.asarray(capacity, np.int64))
    if given.size and given.dtype.kind not in "iu":
        raise UsageError(f"lengths are {given.dtype}", hint="give whole numbers")
    if given.ndim not in {1, 2} or room.ndim != 1 or (given.ndim == 1 and len(room) != 1):
        raise UsageError(
            f"lengths of shape {given.shape} and a capacity of shape {room.shape} do not fit",
            hint="give lengths (n,) and one capacity, or lengths (n, budgets) and a capacity for each budget",
        )
    sizes = given.astype(np.int64).reshape(-1, 1) if given.ndim == 1 else given.astype(np.int64)
    if sizes.shape[1] != len(room):
        raise UsageError(
            f"lengths have {sizes.shape[1]} budgets and the capacity {len(room)}", hint="give a capacity for each"
        )
    if (room < 1).any():
        raise UsageError(f"the capacity is {room.min()}", hint="give 1 or more")
    if sizes.size and sizes.min() < 0:
        raise UsageError(f"a length is {sizes.min()}", hint="lengths are 0 or more")
    return sizes, room


def _assign(sizes: Ints, room: Ints, shares: NDArray[Any], method: str) -> Ints:
    """The number of each sample's pack, (n,)."""
    if method == "sequential":
        return sequential(sizes, room)
    if len(room) == 1:
        return ONE_BUDGET[method](sizes[:, 0], int(room[0]))
    order = np.argsort(-shares, kind="stable")
    pack = np.empty(len(sizes), np.int64)
    if method == "knapsack":
        pack[order] = knapsacks(sizes[order], room)
    else:
        pack[order] = greedy(sizes[order], room, is_best=method == "best_fit")
    return pack


def _in_order(pack: Ints, shares: NDArray[Any]) -> tuple[Ints, Ints]:
    """Samples pack by pack, and where each pack begins; packs by the position of their longest sample."""
    if not len(pack):
        return pack, np.zeros(1, np.int64)
    shortest_first = np.argsort(-shares, kind="stable")[::-1]
    anchor = np.empty(int(pack.max()) + 1, np.int64)
    anchor[pack[shortest_first]] = shortest_first  # the last one written stays: the longest, and of those the earliest
    rank = np.empty_like(anchor)
    rank[np.argsort(anchor)] = np.arange(len(anchor))
    ranked = rank[pack]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(ranked, minlength=len(rank)))))
    return np.argsort(ranked, kind="stable"), offsets.astype(np.int64)
