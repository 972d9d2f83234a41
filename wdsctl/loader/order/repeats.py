"""Orders the epochs of small datasets so that no batch contains a sample twice, even if it spans two passes.

A turn of u samples may begin with the last r samples of an epoch, the *tail*, and continue with the first u - r samples
of the next epoch, which must not be in the tail. So among the first u samples of the next epoch, those in the tail are
moved to the end; at least u - r others remain. If n >= 2u, tails begin after these first u samples, so no tail depends
on what was moved. If u <= n < 2u, the tails between two epochs that end with a turn are nested, and the front is chosen
from the other samples. There are enough of them: if r' is the next tail, n - max(r, r') >= u - r, because r' is
r + n - u or r + n - 2u.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from wdsctl.core.hashing import derive_seed
from wdsctl.loader.order.permutation import permutation, permute

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wdsctl.loader.order.shuffle import ShuffledOrder


def remove_repeats(
    elements: NDArray[np.int64],
    epochs: NDArray[np.int64],
    offsets: NDArray[np.int64],
    order: ShuffledOrder,
    draws_before: int,
) -> None:
    """Replace, in `elements`, samples that a turn would contain twice. See `ShuffledOrder.direct_samples`."""
    concerned = offsets < order.turn_samples if order.n >= 2 * order.turn_samples else np.ones(offsets.shape, np.bool_)
    for epoch in np.unique(epochs[concerned]).tolist():
        own = np.flatnonzero(concerned & (epochs == epoch))
        if order.n >= 2 * order.turn_samples:
            if tail := _tail_samples(order, draws_before, epoch - 1):
                elements[own] = _first_turn(order, epoch, tail)[offsets[own]]
        else:
            elements[own] = _rearranged_epoch(order, draws_before, epoch)[offsets[own]]


def _tail_samples(order: ShuffledOrder, draws_before: int, epoch: int) -> int:
    """The number of samples at the end of an epoch whose turn continues in the next epoch."""
    return (draws_before + (epoch + 1) * order.n) % order.turn_samples if epoch >= 0 else 0


def _first_turn(order: ShuffledOrder, epoch: int, tail: int) -> NDArray[np.int64]:
    n = order.n
    first = permute(np.arange(order.turn_samples), n, derive_seed("samples", order.seed, epoch))
    last = permute(np.arange(n - tail, n), n, derive_seed("samples", order.seed, epoch - 1))
    is_late = np.isin(first, last)
    return np.concatenate([first[~is_late], first[is_late]])


def _rearranged_epoch(order: ShuffledOrder, draws_before: int, epoch: int) -> NDArray[np.int64]:
    n = order.n
    period = lcm(n, order.turn_samples) // n  # epochs between two that begin with a turn
    stretch = epoch // period if draws_before % order.turn_samples == 0 else 0
    nested = permutation(n, derive_seed("tails", order.seed, stretch))
    was, tail = _tail_samples(order, draws_before, epoch - 1), _tail_samples(order, draws_before, epoch)
    shuffled = permutation(n, derive_seed("samples", order.seed, epoch))
    rank = np.empty(n, np.int64)
    rank[nested] = np.arange(n)
    in_tail = rank[shuffled] < tail
    others = shuffled[~in_tail]
    may_be_first = rank[others] >= was
    front = np.flatnonzero(may_be_first)[: order.turn_samples - was if was else 0]
    is_front = np.zeros(others.size, np.bool_)
    is_front[front] = True
    return np.concatenate([others[is_front], others[~is_front], shuffled[in_tail]])
