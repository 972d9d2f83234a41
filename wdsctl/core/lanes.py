"""How the lanes of a job are divided among its ranks: the arithmetic that the loader and saved states share.

`loader/lanes/rank_lanes.py` says what lanes are, and makes the turns of a rank from these numbers.
"""

from __future__ import annotations

from math import gcd


def fits_ranks(lanes: int, world: int) -> bool:
    """Whether `world` ranks of an endless stream run equally many lanes. Otherwise lanes have to be split."""
    return lanes % world == 0


def children_per_lane(lanes: int, world: int) -> int:
    """The lanes that each lane is split into, so that `world` ranks run equally many; 1 if they do already."""
    return world // gcd(world, lanes)


def lanes_of_rank(lanes: int, batches_drawn: int, rank: int, world: int) -> range:
    """The lanes of a rank in an endless stream, by number.

    Batches go to lanes and to ranks in turn: batch n is of lane n mod `lanes`, and the next one of the rank is
    `batches_drawn` + rank, both counted since the layout of the lanes began. `world` divides `lanes`.
    """
    return range((batches_drawn + rank) % world, lanes, world)


def pass_lanes_of_rank(lanes: int, rank: int, world: int) -> range:
    """The lanes of a rank in a finite pass, in which a lane stays with its rank. `world` need not divide `lanes`."""
    return range(rank, lanes, world)
