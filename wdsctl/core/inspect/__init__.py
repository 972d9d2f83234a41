"""`wdsctl inspect`, `get` and `ls`: report the contents of a dataset or a blend, as plain values. Prints nothing.

`inspect` summarises, `stats` counts, `samples` shows single samples, `get` reads one part, `get_many` those of a list
of keys. The rows of parts and splits come from `core/catalog/totals.py`, those of columns and media from
`core/index/report.py`. `cli/commands/inspect.py` prints the tables, with those of splits (`split.py`), columns and
media (`index.py`). The room imports `index` and lower rooms; the command line imports it.
"""

from __future__ import annotations
