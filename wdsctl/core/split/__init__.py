"""`wdsctl split`: assigns every sample to train, val, test or another split, and keeps the assignment stable.

`request` defines the command's request, `split` executes it. All modules use a rule (of the room `split_rules`), a
`context` and an `assignment`. `assign`, `strata` and `allocate` make assignments, `reapply` updates them after `index`,
`excludes` removes samples from splits, `leaks` finds copies across splits, `store` writes the catalog and
`dataset.yaml`. `index` imports this room to apply rules to new samples.
"""

from __future__ import annotations
