"""`wdsctl convert`: converts datasets between all supported formats, in parallel and resumable.

`plan` decides which sample goes into which output file, `unit` writes one file in a worker, `write` runs the units,
`finish` indexes the result. `exporters` has one module per output format; `wdsctl/core/importers` reads the sources.
Only `prepare`, the command line and the Python API import this room.
"""

from __future__ import annotations
