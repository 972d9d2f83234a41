"""Runs a loader: endless training runs by lanes, and finite passes by ranges, in this process or in workers.

`rank_stream` hands out the batches of one rank. `lane_turns` and `range_turns` are its two plans of turns (protocol in
`turns`); `engine` prefetches their tasks in workers; `lane_runner` and `batch_ranges` run a task; `build` builds the
pipeline; `transport` compacts batches between processes. Only the `Loader` imports this room.
"""

from __future__ import annotations
