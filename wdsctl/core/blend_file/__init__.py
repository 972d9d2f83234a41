"""Blend files: YAML (or a mapping) that names datasets and how much of each, read into a flat `BlendPlan`.

Energon's metadatasets, V2 and V1, are understood as they stand. Text to values: no dataset is opened.
"""

from __future__ import annotations

from wdsctl.core.blend_file.blender import Blender
from wdsctl.core.blend_file.plan import Arm, BlendPlan, Join, Leaf, Nonmatch, Reference, Segment, Stretch, traverse
from wdsctl.core.blend_file.reading import read_blend
from wdsctl.core.blend_file.subset import Subset, resolve

__all__ = [
    "Arm",
    "BlendPlan",
    "Blender",
    "Join",
    "Leaf",
    "Nonmatch",
    "Reference",
    "Segment",
    "Stretch",
    "Subset",
    "read_blend",
    "resolve",
    "traverse",
]
