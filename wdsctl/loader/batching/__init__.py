"""Turns samples into batches: collation, conversion to a type, transfer to a device.

`collate` has the batching functions and the conversion, `batch` the batch classes and their transfer, `columns`
combines the values of one field. `recipe`, `pipeline`, `packing` and `run` import this room.
"""

from __future__ import annotations
