"""From samples to batches: collation, conversion to a type, transfer to a device.

`collate` has the batching functions and the conversion, `batch` the batch classes and their transfer, `columns` puts
the values of one field together. Imported by `recipe`, `pipeline`, `packing` and `run`.
"""

from __future__ import annotations
