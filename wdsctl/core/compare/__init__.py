"""`wdsctl diff` and `wdsctl checksum`: compare two datasets, or a dataset and a list of checksums.

`diff` compares two sides (`sides`) shard by shard, and the samples of unequal shards by key (`samples`). `checksum`
writes and verifies hashes of shards. The command line and the Python API import it.
"""

from __future__ import annotations
