"""`wdsctl repair`: write fixed copies of broken shards, or replace them and keep a backup.

`repair` runs over a dataset, `unit` repairs one shard in a worker. `salvage` recovers the members of a damaged tar,
`grouping` combines them into complete samples, `tar` writes the copy, `jsonl` repairs JSONL. `members` compares with
the catalog, so that no sample disappears unnoticed. The command line and the Python API import it.
"""

from __future__ import annotations
