"""Loader states made of plain numbers, for tests of code that reads states without a loader."""

from __future__ import annotations

import copy
from typing import Any

from wdsctl.core.checkpoint.addresses import encode_address

PLAN: dict[str, Any] = {
    "order": {
        "order_version": 1,
        "split": "train",
        "samples": 1000,
        "seed": 7,
        "lanes": 8,
        "sources": ["0a0a0a0a", "1b1b1b1b", "2c2c2c2c"],
    },
    "recipe": "37a38053740e2180a2a425ad794af5d3",
    "stages": ["pack", "group"],
}


def a_cursor(picks: int, *, waiting: int = 2, levels: int = 1, bans: int = 0) -> dict[str, Any]:
    """The cursor of a lane that packs and groups, with `waiting` packs of two samples in its groups."""
    addresses = "".join(
        encode_address({"samples": [pick, [pick + 1, 1]], "step": 0}) for pick in range(0, 2 * waiting, 2)
    )
    pack = {"upstream": [picks, 0], "packs": 1, "emitted": 0}
    return {
        "draws": picks,
        "stream": {"upstream": {"upstream": pack, "waiting": addresses}, "emitted": 0},
        "weight_history": [[[0, 0]] for _ in range(levels)],
        "bans": [[entry, 3] for entry in range(bans)],
    }


def a_rank_state(rank: int = 0, world: int = 1, *, lanes: int = 8, drawn: int = 40, **changes: Any) -> dict[str, Any]:
    """A rank's state of a training that began with this geometry; `drawn` is a multiple of `world`."""
    own = range((drawn + rank) % world, lanes, world)
    state = {
        "version": 1,
        "kind": "rank",
        "rank": rank,
        "world": world,
        "plan": copy.deepcopy(PLAN),
        "generations": [1, 3],
        "batches_drawn": drawn,
        "pass": None,
        "batches_handed_out": 5,
        "end": "open",
        "first_batch": 0,
        "lanes": [[root, []] for root in range(lanes)],
        "cursors": {str(lane): a_cursor(drawn * 4 + lane) for lane in own},
        "bans": [],
    }
    return {**state, **changes}


def job(world: int = 4, **changes: Any) -> list[dict[str, Any]]:
    """The states of all ranks."""
    return [a_rank_state(rank, world, **changes) for rank in range(world)]


def a_pass_state(rank: int = 0, world: int = 1, **changes: Any) -> dict[str, Any]:
    """A rank's state of a validation, which runs through positions without lanes."""
    order = {"order_version": 1, "split": "val", "samples": 12, "validation": True}
    plan = {"order": order, "recipe": "0" * 32, "stages": []}
    state = a_rank_state(rank, world, lanes=0, drawn=4 * world, plan=plan)
    return {**state, "cursors": {}, "pass": 0, "batches_handed_out": 0, **changes}
