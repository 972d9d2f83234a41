"""Epochs of small data in which no batch holds a sample twice, also where one pass ends in it and the next begins.

A turn of u samples that begins in one epoch with its last r samples, the *tail*, goes on in the next with u - r
samples that must not be among these. Of the first u samples of the next epoch, those that are in the tail come last:
u - r others are there in any case. As long as n >= 2u, tails begin behind these first u samples, so no tail depends on
what was moved. Below (u <= n < 2u) the tails between two epochs that end with a turn are nested, and what is in front
is chosen from the rest: with r' the tail that follows, n - max(r, r') >= u - r, because r' is r + n - u or r + n - 2u.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from wdsctl.core.keys import derive
from wdsctl.loader.order.permutation import permutation, permute

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wdsctl.loader.order.shuffle import Shuffled


def without_repeats(
    elements: NDArray[np.int64], epochs: NDArray[np.int64], offsets: NDArray[np.int64], order: Shuffled, before: int
) -> None:
    """Put other samples in the place of those that a turn would have twice; `elements` is changed. See `direct`."""
    concerned = offsets < order.turn if order.n >= 2 * order.turn else np.ones(offsets.shape, np.bool_)
    for epoch in np.unique(epochs[concerned]).tolist():
        mine = np.flatnonzero(concerned & (epochs == epoch))
        if order.n >= 2 * order.turn:
            if tail := _tail(order, before, epoch - 1):
                elements[mine] = _first_turn(order, epoch, tail)[offsets[mine]]
        else:
            elements[mine] = _whole_epoch(order, before, epoch)[offsets[mine]]


def _tail(order: Shuffled, before: int, epoch: int) -> int:
    """How many samples of an epoch are in a turn that goes on in the next one."""
    return (before + (epoch + 1) * order.n) % order.turn if epoch >= 0 else 0


def _first_turn(order: Shuffled, epoch: int, tail: int) -> NDArray[np.int64]:
    n = order.n
    first = permute(np.arange(order.turn), n, derive("samples", order.seed, epoch))
    last = permute(np.arange(n - tail, n), n, derive("samples", order.seed, epoch - 1))
    is_late = np.isin(first, last)
    return np.concatenate([first[~is_late], first[is_late]])


def _whole_epoch(order: Shuffled, before: int, epoch: int) -> NDArray[np.int64]:
    n = order.n
    period = lcm(n, order.turn) // n  # epochs from one that begins with a turn to the next that does
    stretch = epoch // period if before % order.turn == 0 else 0
    nested = permutation(n, derive("tails", order.seed, stretch))
    was, tail = _tail(order, before, epoch - 1), _tail(order, before, epoch)
    shuffled = permutation(n, derive("samples", order.seed, epoch))
    rank = np.empty(n, np.int64)
    rank[nested] = np.arange(n)
    in_tail = rank[shuffled] < tail
    others = shuffled[~in_tail]
    may_be_first = rank[others] >= was
    front = np.flatnonzero(may_be_first)[: order.turn - was if was else 0]
    is_front = np.zeros(others.size, np.bool_)
    is_front[front] = True
    return np.concatenate([others[is_front], others[~is_front], shuffled[in_tail]])
