"""Blend files: YAML (or a mapping) that names datasets and their weights, read into a flat `BlendPlan`.

The room also reads Energon's metadatasets, V1 and V2. It parses text into values and opens no dataset. The loader,
`inspect` and `validate` import this room.
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
from wdsctl.core.blend.read import Blender, list_split_names, read_blend, validation_plan
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
    "validation_plan",
]
