"""Columns: one number per sample that a function computed (token counts, durations), in files next to the catalog.

`spec` parses what to compute, `compute` does so for one shard, `column_file` writes and reads the result. `index` and
the loader import it.
"""

from __future__ import annotations
