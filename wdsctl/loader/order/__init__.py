"""The order of samples of one dataset, computed without torch and without state: the sample at each position.

`shuffle`, `permutation` and `repeats` order a dataset, `growth` one that grew; `passes` divides finite passes into
batches. The room `lanes` divides the order among lanes, ranks and workers. `README.md` derives it. Whoever changes the
order raises `ORDER_VERSION` in `shuffle`. `lanes`, `plan`, `pipeline`, `resume`, `run` and `stores` import this room.
"""

from __future__ import annotations
