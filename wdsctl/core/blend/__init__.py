"""Blend files: YAML (or a mapping) that names datasets and their weights, read into a flat `BlendPlan`.

Energon's metadatasets, V1 and V2, are read as they are. Text to values: no dataset is opened. The loader, `inspect` and
`validate` import this room.
"""

from __future__ import annotations

from wdsctl.core.blend.plan import (
    BlendComponent,
    BlendPlan,
    DatasetReference,
    Join,
    Leaf,
    NonmatchMode,
    RepeatedLeaf,
    ScheduleSegment,
    traverse,
)
from wdsctl.core.blend.read import Blender, list_split_names, read_blend
from wdsctl.core.blend.scope import Subset, resolve

__all__ = [
    "BlendComponent",
    "BlendPlan",
    "Blender",
    "DatasetReference",
    "Join",
    "Leaf",
    "NonmatchMode",
    "RepeatedLeaf",
    "ScheduleSegment",
    "Subset",
    "list_split_names",
    "read_blend",
    "resolve",
    "traverse",
]
