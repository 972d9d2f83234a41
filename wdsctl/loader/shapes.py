"""What waits in the stages of a lane can be gone on with in those stages, with the options that it began with.

A state's `shape` has an entry for each stage that holds something: "group", or "pack:12" with what decides how its
positions are to be read. Stages that are there in one and not in the other, or a pack or batch under way that began
with other options, would repeat or lose samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wdsctl.core.errors import StateMismatch, several

STAGES = ("pack", "group")
MEANING = {
    "pack": "packs are under way, and the rest of their samples could not be found with another packing",
    "batch": "a batch of several outputs is under way, and could not be finished with another batch_size",
}
HINT = "resume with the packing, grouping and batch size of the run that saved the state"


def entry(stage: str, options: Any) -> str:
    """An entry of a shape, for a stage whose positions mean something else with other options."""
    return f"{stage}:{options}"


def check_shape(saved: Sequence[str], here: Sequence[str], cursors: Iterable[Mapping[str, Any]]) -> None:
    """Raise StateMismatch where what waits in the lanes of a state of shape `saved` cannot be gone on with `here`.

    With nothing under way, the options of a stage may change. `cursors`: of the state's lanes.
    """
    before, now = dict(map(_parted, saved)), dict(map(_parted, here))
    stages = [[stage for stage in STAGES if stage in each] for each in (before, now)]
    if stages[0] != stages[1]:
        raise StateMismatch(
            f"the state was saved with the stages {stages[0]}, and here are {stages[1]}: "
            "what waits in them cannot be carried over",
            hint=HINT,
        )
    changed = [stage for stage in MEANING if before.get(stage) != now.get(stage)]
    under_way = {stage for cursor in cursors for stage in _under_way(cursor["stream"], stages[0])} if changed else set()
    for stage in changed:
        if stage in under_way:
            was, is_here = before.get(stage, "none"), now.get(stage, "none")
            told = f"{stage}: {was} in the state, {is_here} here"
            raise StateMismatch(several(f"{MEANING[stage]}:", told), hint=HINT)


def _parted(text: str) -> tuple[str, str]:
    stage, _, options = text.partition(":")
    return stage, options


def _under_way(stream: Any, stages: Sequence[str]) -> Iterator[str]:
    """The stages that are in the middle of something. What is damaged is told when it is loaded."""
    if _field(stream, "left"):
        yield "batch"
    inner = _field(stream, "of")
    packs = _field(inner, "of") if "group" in stages else inner
    if "pack" in stages and any(_field(packs, field) for field in ("packs", "left", "carried")):
        yield "pack"


def _field(state: Any, name: str) -> Any:
    return state.get(name) if isinstance(state, Mapping) else None
