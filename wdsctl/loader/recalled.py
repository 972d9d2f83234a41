"""References of picks that came before, many at a time: what a restore needs of the samples that wait.

One by one, each costs its arm's legs, a window and a block of its own: some 0.4 ms. Together, picks that lie close are
mixed at once, and each arm works out a window once and gives one block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from wdsctl.loader.arms import ArmCursor
from wdsctl.loader.order.mixing import Mixing
from wdsctl.loader.source import Ref

Ints = NDArray[np.int64]

GAP = 256  # picks: those that lie closer are mixed together with what is between them


def refs_at(picks: Sequence[int], mixing: Mixing, arm_of: Callable[[int], ArmCursor]) -> dict[int, Ref]:
    """The references of these picks of a lane. `arm_of(which)`: a cursor of the lane in that arm."""
    wanted = np.unique(np.array(picks, np.int64))
    stretches = np.split(wanted, np.flatnonzero(np.diff(wanted) > GAP) + 1)
    which, nth = (
        np.concatenate(columns) for columns in zip(*(_mixed(each, mixing) for each in stretches), strict=True)
    )
    found: dict[int, Ref] = {}
    for arm in np.unique(which).tolist():
        mine = which == arm
        found.update(zip(wanted[mine].tolist(), arm_of(arm).at_all(nth[mine].tolist()), strict=True))
    return found


def _mixed(picks: Ints, mixing: Mixing) -> tuple[Ints, Ints]:
    first = int(picks[0])
    which, nth = mixing.picks(first, int(picks[-1]) + 1)
    return which[picks - first], nth[picks - first]
