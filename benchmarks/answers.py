"""What a contender's last line says: its figures by name, as JSON."""

from __future__ import annotations

import json

from benchmarks.measure import Cost


def answer(cost: Cost) -> dict[str, float]:
    found: dict[str, float] = json.loads(cost.output.splitlines()[-1])
    return found
