"""`wdsctl.Writer`: writes samples that a Python program makes as shards, and prepares them as a dataset.

`layout` checks samples against their sample type and names their parts, `values` encodes single values, `shard_file`
writes a shard sample by sample, `state` is what a writer leaves for the run that continues it, `rows` iterates over
datasets and frames of other packages, `writer` has `Writer` and `from_iterable`. It is the top room of `wdsctl.core`.
"""

from __future__ import annotations
