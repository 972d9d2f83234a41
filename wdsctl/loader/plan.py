"""The plan of a training: everything that decides which sample comes where, in numbers that can be compared.

The fingerprint has three tiers. `order`: data, selection, seed and slices; where it differs, a state is refused.
`recipe`: hooks, decoder and batch size; where it differs, the stream goes on exactly, with other batches: a warning.
Place (paths, the catalog's file) is in neither: a dataset may be moved.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from wdsctl.core.errors import StateMismatch
from wdsctl.core.job_state import differences


@dataclass(frozen=True, slots=True)
class Plan:
    """`names`: of the datasets, for people."""

    order: dict[str, Any]
    recipe: dict[str, Any]
    names: tuple[str, ...] = ()

    def fingerprint(self) -> str:
        """Names the plan: 32 hex digits."""
        return digest({"order": self.order, "recipe": self.recipe})

    def to_state(self) -> dict[str, Any]:
        """What a state carries: the order in numbers, so that a mismatch can be told, and the recipe's digest."""
        return {"order": self.order, "recipe": digest(self.recipe)}

    def check(self, saved: Mapping[str, Any], *, strict: bool) -> None:
        """Raise StateMismatch unless a state that carries `saved` continues under this plan."""
        lines = differences(saved["order"], self.order)
        if lines:
            lines += self._changed(saved["order"])
            raise _refused("the state belongs to another order: going on would repeat or miss samples", lines)
        if saved["recipe"] != digest(self.recipe):
            words = "the state was saved with other hooks, another decoder, field map or batch size"
            if strict:
                raise _refused(words, [f"recipe: {saved['recipe']} in the state, {digest(self.recipe)} here"])
            warnings.warn(f"{words}; every sample still comes once, in other batches", stacklevel=4)

    def _changed(self, saved: Mapping[str, Any]) -> list[str]:
        """A line for each dataset that is not what it was."""
        before, here = saved.get("sources", []), self.order.get("sources", [])
        if len(before) != len(here):
            return [f"the blend had {len(before)} entries, and has {len(here)} here"]
        pairs = zip(self.names, before, here, strict=False)
        return [f"not the data it was: {name}" for name, old, new in pairs if old != new]


def digest(value: Any) -> str:
    """A name for a JSON value: 32 hex digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _refused(words: str, lines: list[str]) -> StateMismatch:
    return StateMismatch(
        "\n  ".join([f"{words}:", *lines]),
        hint="resume with the dataset and the arguments of the run that saved the state",
    )
