"""The contract of objects with a state: what `wdsctl.loader.runtime.stage` promises of cursors, as one test."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol


class Savable(Protocol):
    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def assert_savable(fresh: Callable[[], Savable], step: Callable[[Any], Any], steps: int) -> None:
    """Save before every step, through JSON, and load into a new object: the remaining steps are equal.

    `fresh` makes an object at its beginning; `step` draws from it and returns a comparable value.
    """
    reference = fresh()
    expected = [step(reference) for _ in range(steps)]

    source = fresh()
    states, drawn = [], []
    for _ in range(steps):
        states.append(read_state(source))
        drawn.append(step(source))
    assert drawn == expected, "saving changed what came"
    shapes = {json.dumps(shape_of(state), sort_keys=True) for state in states}
    assert len(shapes) == 1, f"a state has the same keys and types at every position, not {shapes}"
    assert len({json.dumps(state, sort_keys=True) for state in states}) > 1, "no state differed: nothing was tested"

    for position, state in enumerate(states):
        restored = fresh()
        text = json.dumps(state)
        restored.load_state_dict(state)
        assert json.dumps(read_state(restored)) == text, (
            f"a restored state says where it is at once (position {position})"
        )
        assert [step(restored) for _ in range(steps - position)] == expected[position:], f"saved at position {position}"
        assert json.dumps(state) == text, "a state that was restored is left as it was"


def shape_of(value: Any) -> Any:
    """Keys and types, without values. Lists may vary in length and content."""
    if isinstance(value, dict):
        return {key: shape_of(each) for key, each in sorted(value.items())}
    return type(value).__name__


def read_state(one: Savable) -> dict[str, Any]:
    """The state after a round trip through JSON. Reads it twice: reading must not change the state."""
    first = one.state_dict()
    text = json.dumps(first, sort_keys=True)
    assert json.dumps(one.state_dict(), sort_keys=True) == text, "asking for the state changed it"
    state: dict[str, Any] = json.loads(text)
    assert state == first, "a state is JSON: Python's own numbers, texts and lists"
    return state
