"""Reads Megatron Energon's metadata next to shards: `.nv-meta`, `split.yaml` and lists of shards.

`index` takes splits and field maps from this metadata. The loader uses it to open datasets that Energon prepared.
"""

from __future__ import annotations
