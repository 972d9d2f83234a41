"""Shards: listing and scanning shards of all formats, writing tar files.

`list` finds shards. `tar_scan` and `jsonl_scan` return the samples and parts of one shard, and findings about what is
wrong in it; `in_place` does so for MDS, LitData and zips. `scan_unit` scans one shard in a worker process.
`read_parts` reads parts of samples in batches, and `write` writes a tar whose bytes depend only on its samples. Every
room from `catalog` up may import it.
"""

from __future__ import annotations
