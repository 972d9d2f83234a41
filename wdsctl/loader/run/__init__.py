"""Runs a loader: endless training runs by lanes, and finite passes by ranges, in this process or in workers.

`rank_stream` returns the batches of one rank. `lane_turns` and `range_turns` decide which lane or range is next
(protocol in `turns`); `engine` runs these tasks ahead of time in workers; `lane_runner` and `batch_ranges` run one
task; `build` builds the pipeline; `transport` compacts batches between processes. Only the `Loader` imports this room.
"""

from __future__ import annotations
