"""Read rows and turn them into samples, for all importers of formats with rows.

`text` reads lines and JSON, `arrow` reads Arrow tables, `offset_shards` reads shards that begin with a table of
offsets. `files` finds the files that rows name, `samples` makes keys and parts, `source` is the open source. Importers
and exporters import this package.
"""

from __future__ import annotations
