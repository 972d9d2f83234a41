"""Lanes: how a job divides the orders of its datasets, computed without torch and without state.

`lane_order` gives each lane its draws of one dataset, `mixture` the dataset of each draw of a blend. `rank_lanes` gives
the lanes to ranks, with `wdsctl/core/lanes.py`; `run/lane_turns.py` gives those of a rank to its workers. `next_use`
predicts when a lane needs a shard again. `README.md` in `order` derives all of it; a change of the order raises
`ORDER_VERSION` in `order/shuffle.py`. `stores`, `plan`, `pipeline`, `resume` and `run` import this room.
"""

from __future__ import annotations
