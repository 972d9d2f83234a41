"""The order of samples, computed without torch and without state: the sample at each position of each lane.

`shuffle`, `permutation` and `repeats` order one dataset, `growth` one that grew; `mixture` blends datasets by weights,
`lane_order` divides it into lanes, `rank_lanes` gives the lanes to ranks (`run/lane_turns.py` to workers), `passes`
divides finite passes. `README.md` derives it. Whoever changes the order raises `ORDER_VERSION` in `shuffle`. `plan`,
`pipeline`, `resume`, `run` and `stores` import this room.
"""

from __future__ import annotations
