"""Packing and bucketing: decides which samples go into which pack or bucket, by length or by user hooks.

`plan` and `methods` plan packs by length and import only numpy; other modules are imported on first use.
`planned_stage` builds the planned packs, `hook_stage` packs with user hooks, `merging` joins tensors. `recipe`,
`resume` and `run` import this room.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wdsctl.loader.packing.buckets import Buckets
    from wdsctl.loader.packing.merging import merge, slice_rows
    from wdsctl.loader.packing.options import Packing
    from wdsctl.loader.packing.plan import PackingPlan, WindowPlan, plan_packs, plan_window
    from wdsctl.loader.packing.planned_stage import PlannedPackStage


_MODULE_OF = {
    "Buckets": "buckets",
    "Packing": "options",
    "PackingPlan": "plan",
    "PlannedPackStage": "planned_stage",
    "WindowPlan": "plan",
    "slice_rows": "merging",
    "merge": "merging",
    "plan_packs": "plan",
    "plan_window": "plan",
}

__all__ = [
    "Buckets",
    "Packing",
    "PackingPlan",
    "PlannedPackStage",
    "WindowPlan",
    "merge",
    "plan_packs",
    "plan_window",
    "slice_rows",
]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f"wdsctl.loader.packing.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'wdsctl.loader.packing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
