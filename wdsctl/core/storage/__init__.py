"""Access to the bytes of local files and object stores through one interface, `Storage`.

All reads are ranges. Remote reads are planned, run concurrently, and are retried. `remote` is the only module that
imports fsspec. `objects` writes whole objects to stores: with conditions, in parts, verified. `source_files` lists and
reads the files of sources, at paths or URLs alike. Lowest room of `wdsctl.core`: every room may import it.
"""

from __future__ import annotations
