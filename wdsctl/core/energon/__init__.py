"""Megatron Energon's metadata beside shards: `.nv-meta`, `split.yaml` and lists of shards. Read only.

`index` takes splits and field maps from it; the loader opens prepared Energon datasets with it.
"""

from __future__ import annotations
