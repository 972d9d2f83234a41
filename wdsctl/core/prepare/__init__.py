"""`wdsctl prepare`: builds an indexed, described and split dataset from a raw folder or from shards.

`source` recognises the kind of the source, `checks` refuses what cannot be prepared, `plan` and `replan` decide which
sample goes to which shard, `copied_folder` recognises a copy of the raw folder, `write` writes shards in parallel,
`splits` warns about folders named like splits, `preview` detects the sample type before anything is written, `prepare`
runs all steps. Only `writer`, the command line and the Python API import it.
"""

from __future__ import annotations
