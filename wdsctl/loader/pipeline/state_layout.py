"""Checks that the stages of a pipeline can continue from a saved state.

`stages` in a state's plan has an entry for each stage that holds something: "group", or "pack:12" with what its
positions depend on. Stages that are in one pipeline and not in the other, or a pack or batch under way that began with
other options, would repeat or lose samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wdsctl.core.errors import StateMismatch, join_indented

LAYOUT_STAGES = ("pack", "group")
MISMATCH_MESSAGES = {
    "pack": "the state holds unfinished packs, which other packing options cannot finish",
    "batch": "the state holds an unfinished batch with several outputs, which another batch_size cannot finish",
}
RESUME_HINT = "resume with the packing, grouping and batch size of the run that saved the state"


def layout_entry(stage: str, options: Any) -> str:
    """The entry of a stage whose positions depend on these options."""
    return f"{stage}:{options}"


def check_state_layout(saved: Sequence[str], current: Sequence[str], lane_states: Iterable[Mapping[str, Any]]) -> None:
    """Raise StateMismatch if what the lanes of a state hold, saved by the stages `saved`, cannot continue in `current`.

    If nothing is under way, the options of a stage may change. `lane_states`: of the state's lanes.
    """
    before, now = dict(map(_split_entry, saved)), dict(map(_split_entry, current))
    stages = [[stage for stage in LAYOUT_STAGES if stage in each] for each in (before, now)]
    if stages[0] != stages[1]:
        raise StateMismatch(
            f"the state was saved with the stages {stages[0]}, but this loader has {stages[1]}: samples that wait "
            "in the saved stages would be lost",
            hint=RESUME_HINT,
        )
    changed = [stage for stage in MISMATCH_MESSAGES if before.get(stage) != now.get(stage)]
    under_way = (
        {stage for cursor in lane_states for stage in _stages_under_way(cursor["stream"], stages[0])}
        if changed
        else set()
    )
    for stage in changed:
        if stage in under_way:
            was, is_here = before.get(stage, "none"), now.get(stage, "none")
            difference = f"{stage}: {was} in the state, {is_here} here"
            raise StateMismatch(join_indented(f"{MISMATCH_MESSAGES[stage]}:", difference), hint=RESUME_HINT)


def _split_entry(text: str) -> tuple[str, str]:
    stage, _, options = text.partition(":")
    return stage, options


def _stages_under_way(stream: Any, stages: Sequence[str]) -> Iterator[str]:
    """The stages that have unfinished work. Damage in their states is reported when they are loaded."""
    if _field(stream, "emitted"):
        yield "batch"
    inner = _field(stream, "upstream")
    packs = _field(inner, "upstream") if "group" in stages else inner
    if "pack" in stages and any(_field(packs, field) for field in ("packs", "emitted", "carried")):
        yield "pack"


def _field(state: Any, name: str) -> Any:
    return state.get(name) if isinstance(state, Mapping) else None
