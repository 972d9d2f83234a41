"""`wdsctl split`: assigns every sample to train, val, test or another split, and keeps the assignment stable.

`request` is the command's request, `split` its work. A rule (`core/dataset/split_rules.py`), a `context` and an
`assignment` are what all parts share. `assign`, `strata` and `allocate` make assignments, `reapply` updates them after
`index`, `excludes` takes samples out, `leaks` finds copies across splits, `store` writes catalog and dataset.yaml.
`index` imports it to re-apply rules to new samples.
"""

from __future__ import annotations
