"""The stages between references and batches: read samples, run hooks, group, batch.

A stage is a frozen recipe that opens a cursor per lane; no stage imports another. `pipeline` chains them. `resume` and
`run` import this room.
"""

from __future__ import annotations
