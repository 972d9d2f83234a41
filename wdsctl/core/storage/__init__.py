"""Access to the bytes of local files and object stores through one interface, `Storage`.

All reads are ranges. `remote` reads from stores, concurrently and with retries; `read_ahead` decides what is fetched
before it is read, and `prefetch` fetches it. `filesystem` opens stores: only it and `cache_layers` import fsspec.
`objects` writes whole objects to stores: with conditions, in parts, verified. Lowest room of `wdsctl.core`: every room
may import it.
"""

from __future__ import annotations
