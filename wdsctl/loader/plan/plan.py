"""The plan of a training: all that determines the position of every sample, as values that can be compared.

The fingerprint has two tiers. `order`: data, selection, seed and slices; a state with another order is refused.
`recipe`: hooks, decoder and batch size; a state with another recipe continues exactly, with other batches, after a
warning. If only the batch size differs, and divides the saved one, several batches replace each saved one. Locations
(paths, the catalog's file) are in neither: a dataset may be moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wdsctl.core.checkpoint.state import describe_differences
from wdsctl.core.errors import StateMismatch, join_indented
from wdsctl.core.hashing import json_digest
from wdsctl.loader.runtime.user_lines import warn_at_user_line

WEIGHT_FACTS = ("weights", "weight_edits", "schedule_world_size", "blend_entries")  # facts of the order
MAX_SMALLER_BATCHES = 1024  # that replace one of a saved job: trying all of them takes some milliseconds
MAX_SHOWN_CHARS = 80  # characters of weights in a message
ADOPT_WEIGHTS_HINT = (
    "resume with the weights of the run that saved the state, or pass adopt_weights=True to use the new weights"
)


@dataclass(frozen=True, slots=True)
class LoaderPlan:
    """`component_names`: the datasets, for messages. `store_digests`: of auxiliary stores, by name. `subflavors`: a
    digest of those of all datasets; empty without any.
    """

    order_facts: dict[str, Any]
    recipe_facts: dict[str, Any]
    component_names: tuple[str, ...] = ()
    store_digests: Mapping[str, str] = field(default_factory=dict)
    subflavors: str = ""

    def fingerprint(self) -> str:
        """The digest of the plan: 32 hex digits."""
        return json_digest({"order": self.order_facts, "recipe": self.recipe_facts, **self._stores()})

    def to_state(self) -> dict[str, Any]:
        """The part of a state: the order as values, so that a mismatch can be explained, the recipe's digest, and
        digests of each auxiliary store and of subflavors."""
        subflavors = {"subflavors": self.subflavors} if self.subflavors else {}
        return {"order": self.order_facts, "recipe": json_digest(self.recipe_facts), **self._stores(), **subflavors}

    def _stores(self) -> dict[str, Any]:
        return {"aux": dict(self.store_digests)} if self.store_digests else {}

    def with_batch_size(self, batch_size: int | None, times: int) -> LoaderPlan:
        """The plan of the job whose batches are `times` as large."""
        if times == 1 or batch_size is None:
            return self
        return replace(self, recipe_facts={**self.recipe_facts, "batch_size": batch_size * times})

    def count_smaller_batches(self, batch_size: int, saved: Mapping[str, Any]) -> int:
        """How many of these batches make one of the saved job, if only the batch size differs; else 1.

        A state has only the digest of the recipe, so multiples of the batch size are tried.
        """
        if saved["recipe"] == json_digest(self.recipe_facts):
            return 1
        for times in range(2, MAX_SMALLER_BATCHES + 1):
            if saved["recipe"] == json_digest({**self.recipe_facts, "batch_size": batch_size * times}):
                return times
        return 1

    def check(self, saved: Mapping[str, Any], *, strict: bool, adopts_weights: bool = False) -> None:
        """Raise StateMismatch unless a state with the plan `saved` can continue under this plan.

        `adopts_weights`: with the weights of this plan from here on, which include the earlier ones.
        """
        saved_order, current_order = dict(saved["order"]), self.order_facts
        if adopts_weights and saved_order.get("weights"):
            saved_order = {
                **{key: value for key, value in saved_order.items() if key not in WEIGHT_FACTS},
                **_weight_facts(current_order),
            }
        lines = describe_differences(_shorten_weights(saved_order), _shorten_weights(current_order))
        if lines:
            lines += self._changed_datasets(saved_order)
            others = {key: value for key, value in saved_order.items() if key not in WEIGHT_FACTS}
            hint = (
                ADOPT_WEIGHTS_HINT
                if saved_order.get("weights") and {**others, **_weight_facts(current_order)} == current_order
                else ""
            )
            raise _mismatch_error(
                "the state belongs to another order: continuing would repeat or miss samples", lines, hint
            )
        if saved["recipe"] != json_digest(self.recipe_facts):
            message = (
                "the state was saved with other hooks, another decoder, field map, packing, most_waiting or batch size"
            )
            if strict:
                raise _mismatch_error(
                    message, [f"recipe: {saved['recipe']} in the state, {json_digest(self.recipe_facts)} here"]
                )
            warn_at_user_line(f"{message}; each sample still appears once per epoch, but the batches differ")
        lines = describe_differences(saved.get("aux", {}), dict(self.store_digests))
        if lines:
            message = "auxiliary stores have changed since the state was saved"
            if strict:
                raise _mismatch_error(message, lines)
            warn_at_user_line(join_indented(f"{message}; samples made from them may differ:", *lines))
        # Another blend has other subflavors. States have no digest if there were none.
        is_same_blend = len(saved["order"].get("sources", ())) == len(self.order_facts.get("sources", ()))
        before = saved.get("subflavors", "")
        if is_same_blend and before != self.subflavors:
            message = "subflavors of datasets have changed since the state was saved"
            if strict:
                here = self.subflavors or "none"
                raise _mismatch_error(message, [f"subflavors: {before or 'none'} in the state, {here} here"])
            warn_at_user_line(f"{message}; samples carry the new ones, and cookers are chosen by them")

    def _changed_datasets(self, saved: Mapping[str, Any]) -> list[str]:
        """A line for each dataset whose data has changed."""
        before, here = saved.get("sources", []), self.order_facts.get("sources", [])
        if len(before) != len(here):
            return [f"the state's blend reads {len(before)} of its entries, this blend reads {len(here)}"]
        pairs = zip(self.component_names, before, here, strict=False)
        return [f"changed data: {name}" for name, old, new in pairs if old != new]


def _weight_facts(order: Mapping[str, Any]) -> dict[str, Any]:
    return {key: order[key] for key in WEIGHT_FACTS if key in order}


def _shorten_weights(order: Mapping[str, Any]) -> dict[str, Any]:
    """The facts as messages show them: the weights of a thousand datasets as the first of them and a digest."""
    text = str(order.get("weights", ""))
    return (
        {**order, "weights": f"{text[:60]}... ({json_digest(text)[:8]})"}
        if len(text) > MAX_SHOWN_CHARS
        else dict(order)
    )


def _mismatch_error(message: str, differences_found: list[str], hint: str = "") -> StateMismatch:
    return StateMismatch(
        join_indented(f"{message}:", *differences_found),
        hint=hint or "resume with the dataset and the arguments of the run that saved the state",
    )
