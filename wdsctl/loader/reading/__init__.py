"""Reads one dataset: turns references into samples, and reads only the parts that the loader needs.

`source` is the split of a dataset, `selection` and `reference_blocks` locate its samples, `part_reader` reads them in
as few requests as possible, `layout` builds them, `sample_reader` reads single samples. `stores`, `joins`, `plan` and
`pipeline` import it.
"""

from __future__ import annotations
