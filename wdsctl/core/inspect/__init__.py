"""`wdsctl inspect`, `get` and `ls`: report what a dataset or a blend contains, as plain values.

`inspect` summarises, `stats` counts, `samples` shows single samples, `get` reads one part. Imports `index` and below;
the command line imports it.
"""

from __future__ import annotations
