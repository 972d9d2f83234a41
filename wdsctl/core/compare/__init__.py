"""`wdsctl diff` and `wdsctl checksum`: what differs between two datasets, or between a dataset and a list of
checksums.

`diff` compares the `sides` shard by shard and matches other `samples` by key; `checksum` writes and verifies hashes of
shards. The command line and the Python API import it.
"""

from __future__ import annotations
