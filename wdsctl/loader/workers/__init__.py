"""Worker processes: an ordered pool, a ring of shared memory for batches, and a server that forks workers.

The engine uses `pool`; `slot` is one worker's place in it, `process` runs in the worker, `ring` and `wire` carry
batches and messages. A worker that dies or hangs is replaced. This room knows nothing of samples; `run` imports it.
"""

from __future__ import annotations
