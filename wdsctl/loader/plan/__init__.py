"""The plan of a loader, which determines the position of every sample: opened datasets, weights, growth, bans, and the
fingerprint of all of them.

`open_blend` opens the datasets of a blend (`open_sources`) and turns them into components with orders and weights;
`plan` compares fingerprints with those of a saved state. `load_check` and `blend_check` are the loader's part of
`wdsctl validate`. `pipeline`, `resume` and `run` import this room.
"""

from __future__ import annotations
