"""Checks that the stages of a pipeline can continue from a saved state.

`stages` in a state's plan has an entry for each stage that holds something: "group", or "pack:12" with what its
positions depend on. Stages that are in one pipeline and not in the other, or a pack or batch under way that began with
other options, would repeat or lose samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from wdsctl.core.checkpoint.state import damaged_state_error, is_count
from wdsctl.core.errors import StateMismatch, join_indented
from wdsctl.core.text import short_repr

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


def check_lane_states(state: Mapping[str, Any], segments: int) -> None:
    """Raise StateMismatch WDS502 for positions of lanes that contradict each other, or the plan of the state.

    `segments`: of the history of the weights.
    """
    first_lanes = state["plan"]["order"]["lanes"]
    has_splits = any("origin" in cursor for cursor in state["cursors"].values())
    if state["lanes"] != first_lanes and not has_splits:
        raise damaged_state_error(f"it has {state['lanes']} lanes, but its plan has {first_lanes}")
    for lane, cursor in state["cursors"].items():
        problem = (
            _find_origin_error(cursor, first_lanes)
            or _find_history_error(cursor["weight_history"], cursor["draws"], segments)
            or _find_stream_error(cursor["stream"], cursor["draws"])
            or _find_turns_error(state, int(lane), cursor)
        )
        if problem:
            raise damaged_state_error(f"lane {lane}: {problem}")


_TEXT_FIELDS = ("carried", "waiting")  # addresses of items
_ADDRESS_FIELDS = ("upstream", "until", *_TEXT_FIELDS)


def _find_origin_error(cursor: Mapping[str, Any], first_lanes: int) -> str:
    root = cursor.get("origin", [0, []])[0]
    return "" if root < first_lanes else f"its root is {root} of {first_lanes}"


def _find_history_error(history: Sequence[Sequence[Sequence[int]]], draws: int, segments: int) -> str:
    """Segments and draws ascend, and the first segment of each level begins at draw 0."""
    for level in history:
        numbers, begins = zip(*level, strict=True)
        is_ascending = all(low < high for each in (numbers, begins) for low, high in pairwise(each))
        if begins[0] or not is_ascending or numbers[-1] >= segments:
            return f"'weight_history' has {short_repr(level)}, of {segments} segments of the weights"
    last = history[-1][-1][1]
    return "" if last <= draws else f"a segment of the weights begins at draw {last} of {draws}"


def _find_turns_error(state: Mapping[str, Any], lane: int, cursor: Mapping[str, Any]) -> str:
    """In an endless training, the batches of all ranks determine the turns of each lane."""
    if state["pass"] is not None or "turns" not in cursor:
        return ""
    expected = -((lane - (state["batches_drawn"] - state["first_batch"])) // state["lanes"])
    return "" if cursor["turns"] == expected else f"it has had {cursor['turns']} turns, but its batches need {expected}"


def _find_stream_error(stream: Mapping[str, Any], draws: int) -> str:
    """The position of the stage that reads samples is the number of draws, unless a later stage has work under way that
    began before."""
    position: Any = stream
    is_current = not _field(stream, "emitted")
    while isinstance(position, Mapping):
        counts = [value for name, value in position.items() if name not in _ADDRESS_FIELDS]
        texts = [position[name] for name in _TEXT_FIELDS if name in position]
        if not all(map(is_count, counts)) or not all(isinstance(text, str) for text in texts):
            return f"a stage has the position {short_repr(dict(position))}, expected counts"
        if "until" in position:  # packs of a window, which began at `upstream`
            began: Any = position.get("upstream")
            if not _is_position(began) or began[0] > draws:
                return f"its window begins at {short_repr(began)}, expected [draw, step] up to draw {draws}"
            position = position["until"]
            continue
        is_current &= not (_field(position, "packs") or _field(position, "emitted"))
        position = position.get("upstream")
    if not _is_position(position):
        return f"the position of its samples is {short_repr(position)}, expected [draw, step]"
    draw, step = position
    is_valid = draw + (step > 0) == draws if is_current else draw <= draws
    return "" if is_valid else f"its samples are at draw {draw}, and its references at {draws}"


def _is_position(value: Any) -> bool:
    return isinstance(value, list) and [type(each) for each in value] == [int, int] and min(value) >= 0


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
