"""The contract of everything that can be saved: what `wdsctl.loader.runtime.stage` promises of cursors, as one test."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol


class Savable(Protocol):
    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def assert_savable(fresh: Callable[[], Savable], step: Callable[[Any], Any], steps: int) -> None:
    """Save before every step, through JSON, into a fresh one: the rest is equal, whatever the position.

    `fresh` makes one at its beginning; `step` draws from it and returns something that can be compared.
    """
    undisturbed = fresh()
    truth = [step(undisturbed) for _ in range(steps)]

    saved_one = fresh()
    states, drawn = [], []
    for _ in range(steps):
        states.append(_saved(saved_one))
        drawn.append(step(saved_one))
    assert drawn == truth, "saving changed what came"
    shapes = {json.dumps(shape_of(state), sort_keys=True) for state in states}
    assert len(shapes) == 1, f"a state has the same keys and types at every position, not {shapes}"
    assert len({json.dumps(state, sort_keys=True) for state in states}) > 1, "no state differed: nothing was tested"

    for position, state in enumerate(states):
        restored = fresh()
        given = json.dumps(state)
        restored.load_state_dict(state)
        assert json.dumps(_saved(restored)) == given, f"a restored state says where it is at once (position {position})"
        assert [step(restored) for _ in range(steps - position)] == truth[position:], f"saved at position {position}"
        assert json.dumps(state) == given, "a state that was restored is left as it was"


def shape_of(value: Any) -> Any:
    """Keys and types, without values. Lists may vary, in their length and in what waits in them."""
    if isinstance(value, dict):
        return {key: shape_of(each) for key, each in sorted(value.items())}
    return type(value).__name__


def _saved(one: Savable) -> dict[str, Any]:
    """Its state as a file would give it back. Twice: asking changes nothing, and what was said stays as it is."""
    first = one.state_dict()
    text = json.dumps(first, sort_keys=True)
    assert json.dumps(one.state_dict(), sort_keys=True) == text, "asking for the state changed it"
    state: dict[str, Any] = json.loads(text)
    assert state == first, "a state is JSON: Python's own numbers, texts and lists"
    return state
