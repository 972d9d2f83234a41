"""Shards of other formats, read where they are: MDS, LitData chunks and zips, as ranges of bytes in files.

`kinds` is the table of shard formats. `mds`, `litdata` and `zip` parse one format each, and return where each value is;
`table_scan` makes a scan of columns. `folder_index` compares shards with their index.json. What a format does not store
as a range of bytes is refused by name. `core/shards`, and every room from `catalog` up, may import it; importers share
the parsing.
"""

from __future__ import annotations
