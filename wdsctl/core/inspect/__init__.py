"""`wdsctl inspect`, `get` and `ls`: report the contents of a dataset or a blend, as plain values.

`inspect` summarises, `stats` counts, `samples` shows single samples, `get` reads one part, `get_many` those of a list
of keys. The rows of parts and splits are values of `core/catalog`, those of columns and media of
`core/index/request.py`; `cli/commands/inspect.py` prints the tables. The room imports `index` and lower rooms; the
command line imports it.
"""

from __future__ import annotations
