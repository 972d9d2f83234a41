"""A blend that is made in code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from wdsctl.core.blend_file.plan import BlendPlan, Unit
from wdsctl.core.blend_file.reading import Mode, Source, read_blend
from wdsctl.core.errors import UsageError

Weight = int | float | str | Fraction


@dataclass(frozen=True, slots=True)
class Blender:
    """`Blender([("a", 3), ("b.yaml", 1)])` says what a blend file with these entries says.

    A path may be a dataset, a blend file, a mapping that could be one, or another Blender. `weight_by` and `schedule`
    are as in a file: `schedule=[{"step": 1000, "weights": {"0": 1}}]`.
    """

    entries: Sequence[tuple[Source | Blender, Weight]]
    weight_by: Unit = "samples"
    schedule: Sequence[Mapping[str, Any]] = ()

    def mapping(self) -> dict[str, Any]:
        """The same as a blend file would have it. Raises UsageError where an entry is no pair."""
        node: dict[str, Any] = {"blend": [_entry(each) for each in self.entries]}
        if self.weight_by != "samples":
            node["weight_by"] = self.weight_by
        if self.schedule:
            node["schedule"] = list(self.schedule)
        return node

    def plan(self, *, split_part: str = "train", mode: Mode = "train", multiplier: int | None = 1) -> BlendPlan:
        """Raises as `read_blend` does."""
        return read_blend(self.mapping(), split_part=split_part, mode=mode, multiplier=multiplier)


def _entry(entry: object) -> dict[str, Any]:
    if not isinstance(entry, tuple | list) or len(entry) != 2:
        raise UsageError(f"expected (path, weight), found {entry!r:.60}", hint='Blender([("shards", 1), ...])')
    path, weight = entry
    return {"path": path.mapping() if isinstance(path, Blender) else path, "weight": weight}
