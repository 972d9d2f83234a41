"""Packing that needs no code: samples are put together by their lengths.

Names are looked up when they are first used: the plan is numpy alone, and can be imported without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wdsctl.loader.packing.buckets import Buckets
    from wdsctl.loader.packing.cutting import cut
    from wdsctl.loader.packing.merging import merge
    from wdsctl.loader.packing.options import Packing
    from wdsctl.loader.packing.plan import Plan, plan_packs
    from wdsctl.loader.packing.stage import PlannedPackStage
    from wdsctl.loader.packing.windows import Window, plan_window

_MODULE_OF = {
    "Buckets": "buckets",
    "Packing": "options",
    "Plan": "plan",
    "PlannedPackStage": "stage",
    "Window": "windows",
    "cut": "cutting",
    "merge": "merging",
    "plan_packs": "plan",
    "plan_window": "windows",
}

__all__ = ["Buckets", "Packing", "Plan", "PlannedPackStage", "Window", "cut", "merge", "plan_packs", "plan_window"]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f"wdsctl.loader.packing.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'wdsctl.loader.packing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
