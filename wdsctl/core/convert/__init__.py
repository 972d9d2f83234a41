"""`wdsctl convert`: from any supported format to any other, sample by sample, in parallel and resumable.

`plan` decides which sample goes into which output file, `unit` writes one file in a worker, `write` runs the units,
`finish` indexes the result. `exporters` has one module per output format; `wdsctl/core/importers` reads the sources.
Top room of `wdsctl.core`, next to `prepare`: only the command line imports it.
"""

from __future__ import annotations
