"""Plans packs from the lengths of samples alone, with numpy.

A stream is planned window by window. Packs that are not full enough are held back, at most until the next window.
No pack gets two copies of a sample, which a window can have where two passes meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.errors import UsageError
from wdsctl.loader.packing.methods import ALGORITHMS, METHODS, PackingMethod, sequential


@dataclass(frozen=True, slots=True)
class PackingPlan:
    """Pack p has the samples `indices[offsets[p] : offsets[p + 1]]`, ascending.

    `indices`: int64 (packed samples,); `offsets`: int64 (packs + 1,); `too_long`: int64, the samples that fit into
    no pack; `filled`: int64 (packs, budgets), the sums over the samples of each pack; `capacity`: int64 (budgets,).
    """

    indices: Int64Array
    offsets: Int64Array
    too_long: Int64Array
    filled: Int64Array
    capacity: Int64Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def packs(self) -> list[Int64Array]:
        """The samples of each pack."""
        return np.split(self.indices, self.offsets[1:-1]) if len(self) else []

    @property
    def efficiency(self) -> float:
        """The share of the packs' capacity that is filled, by the first budget; 0 without packs."""
        room = len(self) * int(self.capacity[0])
        return int(self.filled[:, 0].sum()) / room if room else 0.0


def plan_packs(
    lengths: ArrayLike,
    capacity: int | Sequence[int],
    method: PackingMethod = "best_fit",
    *,
    ids: ArrayLike | None = None,
) -> PackingPlan:
    """Pack samples of these lengths, (n,) or (n, budgets), so that no pack has more than `capacity` of any budget.

    The same input gives the same plan on every machine. Of samples with equal lengths, the earlier one is first. Packs
    are in the order of their longest samples in the input, and the samples of a pack in input order, so that training
    does not see long samples first.

    `best_fit`: longest first, each sample into the fullest pack that has room. `first_fit_decreasing`: longest first,
    into the first pack that has room. `knapsack`: pack by pack, each time the longest sample that still fits. With
    several budgets, these three compare samples by their largest share of a budget. `sequential`: in order; a new pack
    begins if the next sample does not fit. A sample of length 0 takes 1 of the first budget, so that no pack grows
    without limit.

    `ids`: (n,), equal integers for copies of one sample. No pack gets two copies: `sequential` begins a new pack, and
    the other methods move the later copy to the first pack with room, or to a new one.

    Cost: about 1 us per sample with one budget. With several budgets, 5 to 50 us per sample at 16,000 samples, and more
    for larger numbers. Raises UsageError for lengths below 0, unequal numbers of budgets, and unknown methods.
    """
    sizes, room = as_budget_arrays(lengths, capacity)
    if method not in METHODS:
        raise UsageError(f"unknown packing method {method!r}", hint=f"there are {', '.join(METHODS)}")
    too_long = (sizes > room).any(axis=1)
    fitting = np.flatnonzero(~too_long)
    fitting_sizes = sizes[fitting]
    planned = fitting_sizes.copy()
    planned[:, 0] += ~fitting_sizes.any(axis=1)
    shares = planned[:, 0] if len(room) == 1 else (planned / room).max(axis=1)
    copies = None if ids is None else _as_ids(ids, len(sizes))[fitting]
    indices, offsets = _order_packs(_assign_packs(planned, room, shares, method, copies), shares)
    filled = (
        np.add.reduceat(fitting_sizes[indices], offsets[:-1]) if len(indices) else np.empty((0, len(room)), np.int64)
    )
    return PackingPlan(fitting[indices], offsets, np.flatnonzero(too_long), filled, room)


def as_budget_arrays(lengths: ArrayLike, capacity: int | Sequence[int]) -> tuple[Int64Array, Int64Array]:
    """Lengths as int64 (n, budgets) and capacities as int64 (budgets,). Raises UsageError if they do not match."""
    length_array: NDArray[Any] = np.asarray(lengths)
    room = np.atleast_1d(np.asarray(capacity, np.int64))
    if length_array.size and length_array.dtype.kind not in "iu":
        raise UsageError(
            f"lengths have dtype {length_array.dtype}, expected integers", hint="convert the lengths to integers"
        )
    if length_array.ndim not in {1, 2} or room.ndim != 1 or (length_array.ndim == 1 and len(room) != 1):
        raise UsageError(
            f"lengths of shape {length_array.shape} and a capacity of shape {room.shape} do not match",
            hint="pass lengths (n,) and one capacity, or lengths (n, budgets) and a capacity for each budget",
        )
    sizes = length_array.astype(np.int64).reshape(-1, 1) if length_array.ndim == 1 else length_array.astype(np.int64)
    if sizes.shape[1] != len(room):
        raise UsageError(
            f"lengths have {sizes.shape[1]} budgets, but capacity has {len(room)}",
            hint="pass one capacity for each budget",
        )
    if (room < 1).any():
        raise UsageError(f"the capacity is {room.min()}, expected 1 or more", hint="pass 1 or more")
    if sizes.size and sizes.min() < 0:
        raise UsageError(f"a length is {sizes.min()}, expected 0 or more", hint="pass lengths of 0 or more")
    return sizes, room


def _as_ids(ids: ArrayLike, samples: int) -> Int64Array:
    id_array = np.asarray(ids, np.int64)
    if id_array.shape != (samples,):
        raise UsageError(f"ids have shape {id_array.shape}, expected ({samples},)", hint="pass one id for each sample")
    return id_array


def _assign_packs(
    sizes: Int64Array, capacities: Int64Array, shares: NDArray[Any], method: str, ids: Int64Array | None
) -> Int64Array:
    """The number of each sample's pack, (n,)."""
    if method == "sequential":
        return sequential(sizes, capacities, ids)
    if len(capacities) == 1:
        pack = ALGORITHMS[method].one_budget(sizes[:, 0], int(capacities[0]))
    else:
        order = np.argsort(-shares, kind="stable")
        pack = np.empty(len(sizes), np.int64)
        pack[order] = ALGORITHMS[method].several_budgets(sizes[order], capacities)
    if ids is not None:
        _move_later_copies(pack, sizes, capacities, shares, ids)
    return pack


def _move_later_copies(
    pack: Int64Array, sizes: Int64Array, capacities: Int64Array, shares: NDArray[Any], ids: Int64Array
) -> None:
    """Move samples out of packs with an earlier copy: longest first, to the first pack with room and without a copy."""
    moved = _find_later_copies(pack, ids)
    if not len(moved):
        return
    stays = np.ones(len(pack), bool)
    stays[moved] = False
    room = np.tile(capacities, (int(pack.max()) + 1 + len(moved), 1))  # the packs, and an empty one for each
    np.subtract.at(room, pack[stays], sizes[stays])
    packs_with: dict[int, list[int]] = {copy_id: [] for copy_id in ids[moved].tolist()}
    for i in np.flatnonzero(stays & np.isin(ids, ids[moved])).tolist():
        packs_with[int(ids[i])].append(int(pack[i]))
    for i in moved[np.argsort(-shares[moved], kind="stable")].tolist():
        fits = (room >= sizes[i]).all(axis=1)
        fits[packs_with[int(ids[i])]] = False
        pack[i] = to = int(fits.argmax())
        room[to] -= sizes[i]
        packs_with[int(ids[i])].append(to)


def _find_later_copies(pack: Int64Array, ids: Int64Array) -> Int64Array:
    """The samples of which an earlier copy is in the same pack, ascending."""
    order = np.lexsort((ids, pack))  # stable: earlier copies are first
    is_copy = (np.diff(pack[order]) == 0) & (np.diff(ids[order]) == 0)
    return np.sort(order[1:][is_copy])


def _order_packs(pack: Int64Array, shares: NDArray[Any]) -> tuple[Int64Array, Int64Array]:
    """The samples pack by pack, and the offset of each pack. Packs are in the order of their longest samples."""
    if not len(pack):
        return pack, np.zeros(1, np.int64)
    shortest_first = np.argsort(-shares, kind="stable")[::-1]
    anchor = np.empty(int(pack.max()) + 1, np.int64)
    anchor[pack[shortest_first]] = shortest_first  # last written: the longest sample, the earliest of equals
    rank = np.empty_like(anchor)
    rank[np.argsort(anchor)] = np.arange(len(anchor))
    ranked = rank[pack]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(ranked, minlength=len(rank)))))
    return np.argsort(ranked, kind="stable"), offsets.astype(np.int64)


TARGET_FILL = 0.998  # of capacity: packs are held back until the others reach this mean
CANDIDATES_PER_HELD = 4  # at most one in this many candidates waits for the next window


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The plan of a window. Carried samples and the new ones after them are numbered together, from 0.

    `packs`: an int64 array of sample numbers per pack, in the order in which packs are emitted. `carry`: the samples
    that wait for the next window, in order. `too_long`: the samples that fit into no pack.
    """

    packs: list[Int64Array]
    carry: Int64Array
    too_long: Int64Array


def plan_window(
    carried: ArrayLike,
    new: ArrayLike,
    capacity: int | Sequence[int],
    method: PackingMethod = "best_fit",
    *,
    ids: ArrayLike | None = None,
    is_last: bool = False,
) -> WindowPlan:
    """Plan one window. Lengths are (n,) or (n, budgets), as `plan_packs` takes them. `ids`: of carried and new samples.

    Emits all carried samples, and all samples of the last window. Otherwise, holds back the emptiest packs until the
    others are filled to 99.8 % on average. If holding back a quarter of the candidates is not enough, it does not help,
    and only the emptiest pack waits. `sequential` holds back only its last pack if that is not full, so that its packs
    do not depend on the windows.
    """
    sizes = np.concatenate((as_budget_arrays(carried, capacity)[0], as_budget_arrays(new, capacity)[0]))
    waited = len(np.asarray(carried))
    plan = plan_packs(sizes, np.atleast_1d(np.asarray(capacity)).tolist(), method, ids=ids)
    held = np.zeros(len(plan), bool)
    if not is_last and len(plan):
        may = plan.indices[plan.offsets[:-1]] >= waited  # numbers ascend: if the first is new, all are
        held[_packs_to_hold_back(plan, may, method)] = True
    packs = plan.packs
    carry = np.sort(np.concatenate([packs[i] for i in np.flatnonzero(held)] or [np.empty(0, np.int64)]))
    return WindowPlan([packs[i] for i in np.flatnonzero(~held)], carry, plan.too_long)


def _packs_to_hold_back(plan: PackingPlan, may_wait: NDArray[np.bool_], method: PackingMethod) -> Int64Array:
    """The packs to hold back, among those that may wait."""
    fill = (plan.filled / plan.capacity).max(axis=1)
    if method == "sequential":
        last = len(plan) - 1
        return np.flatnonzero(may_wait[last:] & (fill[last:] < 1)) + last
    candidates = np.flatnonzero(may_wait)
    emptiest = candidates[np.argsort(fill[candidates], kind="stable")][: len(plan) - 1]
    samples = np.cumsum(np.diff(plan.offsets)[emptiest])
    emptiest = emptiest[samples <= max(1, len(plan.indices) // CANDIDATES_PER_HELD)]
    held = np.arange(len(emptiest) + 1)
    rest = (fill.sum() - np.concatenate(([0.0], np.cumsum(fill[emptiest])))) / (len(plan) - held)
    enough = np.flatnonzero(rest >= TARGET_FILL)
    return emptiest[: int(enough[0]) if len(enough) else 1]
