"""The plan of a training: everything that decides which sample comes where, in numbers that can be compared.

The fingerprint has three tiers. `order`: data, selection, seed and slices; where it differs, a state is refused.
`recipe`: hooks, decoder and batch size; where it differs, the stream goes on exactly, with other batches: a warning.
Place (paths, the catalog's file) is in neither: a dataset may be moved.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from wdsctl.core.errors import StateMismatch, several
from wdsctl.core.job_state import differences

OF_WEIGHTS = ("weights", "edits", "world", "entries")  # facts of the order
SHOWN = 80  # characters of weights that a message has
MAY_ADOPT = "resume with the weights of the run that saved the state, or give adopt_weights=True to go on with these"


@dataclass(frozen=True, slots=True)
class Plan:
    """`names`: of the datasets, for people. `stores`: what auxiliary stores hold, a digest by name."""

    order: dict[str, Any]
    recipe: dict[str, Any]
    names: tuple[str, ...] = ()
    stores: Mapping[str, str] = field(default_factory=dict)

    def fingerprint(self) -> str:
        """Names the plan: 32 hex digits."""
        stores = {"aux": dict(self.stores)} if self.stores else {}
        return digest({"order": self.order, "recipe": self.recipe, **stores})

    def to_state(self) -> dict[str, Any]:
        """What a state carries: the order in numbers, so that a mismatch can be told, and the recipe's digest; of
        auxiliary stores, where there are any, a digest each."""
        stores = {"aux": dict(self.stores)} if self.stores else {}
        return {"order": self.order, "recipe": digest(self.recipe), **stores}

    def check(self, saved: Mapping[str, Any], *, strict: bool, adopted: bool = False) -> None:
        """Raise StateMismatch unless a state that carries `saved` continues under this plan. `adopted`: with the
        weights of this plan from here on, which has those of before too."""
        was, here = dict(saved["order"]), self.order
        if adopted and _knows_weights(was):
            was = {**{key: value for key, value in was.items() if key not in OF_WEIGHTS}, **_of_weights(here)}
        lines = differences(_shown(was), _shown(here))
        if lines:
            lines += self._changed(was)
            others = {key: value for key, value in was.items() if key not in OF_WEIGHTS}
            hint = MAY_ADOPT if _knows_weights(was) and {**others, **_of_weights(here)} == here else ""
            raise _refused("the state belongs to another order: going on would repeat or miss samples", lines, hint)
        if saved["recipe"] != digest(self.recipe):
            words = "the state was saved with other hooks, another decoder, field map, packing or batch size"
            if strict:
                raise _refused(words, [f"recipe: {saved['recipe']} in the state, {digest(self.recipe)} here"])
            warnings.warn(f"{words}; every sample still comes once, in other batches", stacklevel=4)
        lines = differences(saved.get("aux", {}), dict(self.stores))
        if lines:
            words = "auxiliary stores are not what they were when the state was saved"
            if strict:
                raise _refused(words, lines)
            warnings.warn(several(f"{words}; samples that are made of them may differ:", *lines), stacklevel=4)

    def _changed(self, saved: Mapping[str, Any]) -> list[str]:
        """A line for each dataset that is not what it was."""
        before, here = saved.get("sources", []), self.order.get("sources", [])
        if len(before) != len(here):
            return [f"the blend read {len(before)} of its entries, and reads {len(here)} here"]
        pairs = zip(self.names, before, here, strict=False)
        return [f"not the data it was: {name}" for name, old, new in pairs if old != new]


def digest(value: Any) -> str:
    """A name for a JSON value: 32 hex digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _knows_weights(order: Mapping[str, Any]) -> bool:
    """Whether the facts of a plan hold the weights, and not only a digest of them."""
    return ":" in str(order.get("weights", ""))


def _of_weights(order: Mapping[str, Any]) -> dict[str, Any]:
    return {key: order[key] for key in OF_WEIGHTS if key in order}


def _shown(order: Mapping[str, Any]) -> dict[str, Any]:
    """The facts as messages tell them: the weights of a thousand datasets by the first of them and a digest."""
    text = str(order.get("weights", ""))
    return {**order, "weights": f"{text[:60]}... ({digest(text)[:8]})"} if len(text) > SHOWN else dict(order)


def _refused(words: str, lines: list[str], hint: str = "") -> StateMismatch:
    return StateMismatch(
        several(f"{words}:", *lines),
        hint=hint or "resume with the dataset and the arguments of the run that saved the state",
    )
