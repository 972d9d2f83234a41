"""Access to the bytes of local files and object stores through one interface, `Storage`.

All reads are ranges. `remote` reads from stores, concurrently and with retries; `read_ahead` decides which ranges to
fetch ahead of reads, and `prefetch` fetches them. `filesystem` opens stores; only it and `cache_layers` import fsspec.
`objects` writes whole objects to stores: with conditions, in parts, verified. `source_files` lists and reads the files
of sources, at paths or URLs. Lowest room of `wdsctl.core`: every room may import it.
"""

from __future__ import annotations
