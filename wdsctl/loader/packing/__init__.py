"""Packing that needs no code: samples are put together by their lengths. The plan is numpy alone."""

from __future__ import annotations

from wdsctl.loader.packing.buckets import Buckets
from wdsctl.loader.packing.cut import cut
from wdsctl.loader.packing.merge import merge
from wdsctl.loader.packing.options import Packing
from wdsctl.loader.packing.plan import Plan, plan_packs
from wdsctl.loader.packing.stage import PlannedPackStage
from wdsctl.loader.packing.windows import Window, plan_window

__all__ = ["Buckets", "Packing", "Plan", "PlannedPackStage", "Window", "cut", "merge", "plan_packs", "plan_window"]
