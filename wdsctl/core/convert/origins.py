"""Where the samples of a file that was written came from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wdsctl.core.convert.plan_file import Done, Origins, PlanFile, PlannedUnit


def origins_of(plan: PlanFile, unit: PlannedUnit, done: Mapping[int, Done]) -> Origins:
    """(samples,) of a unit that is in its place, as `PlanFile.origins` has them, without those that were left out."""
    units = done.values() if unit.stream == "primary" else [done[unit.id]]
    gone = [pos for each in units for pos in each.left_out]
    found = plan.origins(unit.first, unit.last)
    if unit.stream == "media":
        found = found[found["media"] > 0]
    return found[~np.isin(found["pos"], gone)] if gone else found
