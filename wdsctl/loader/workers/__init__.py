"""Worker processes of the loader: an ordered pool, a recycled ring of shared memory, a nursery that forks."""

from __future__ import annotations

from wdsctl.loader.workers.options import PoolOptions
from wdsctl.loader.workers.page import status
from wdsctl.loader.workers.pool import Pool
from wdsctl.loader.workers.ring import Memory
from wdsctl.loader.workers.room import room
from wdsctl.loader.workers.work import OpenWork, Work

__all__ = ["Memory", "OpenWork", "Pool", "PoolOptions", "Work", "room", "status"]
