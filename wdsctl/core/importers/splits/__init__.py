"""The splits that a source tells, although nobody has divided it.

`shards` finds them in the names of shards or in a field of the samples, which `fields` reads; `folders` warns of raw
files in folders that are named like splits. Importers, `convert` and `prepare` import this package, and
`wdsctl.core.importers.common` does not.
"""

from __future__ import annotations
