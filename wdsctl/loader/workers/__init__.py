"""Worker processes: an ordered pool, a ring of shared memory for batches, and a server that forks workers.

The engine uses `pool`; `slot` is one worker's place in it, `process` runs in the worker, `ring` and `wire` carry
batches and messages. A worker that dies or hangs is replaced. This room knows nothing of samples; `run` imports it.
"""

from __future__ import annotations

from wdsctl.loader.workers.options import PoolOptions, TaskRunner, TaskRunnerFactory
from wdsctl.loader.workers.pool import WorkerPool
from wdsctl.loader.workers.ring import ByteArray, reserve
from wdsctl.loader.workers.status_page import report_activity

__all__ = ["ByteArray", "PoolOptions", "TaskRunner", "TaskRunnerFactory", "WorkerPool", "report_activity", "reserve"]
