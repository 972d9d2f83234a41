"""Digests of a state, so that no edited or damaged state continues with other batches.

`digests` has one of the plan and one of the position, which say what is damaged; `checksum` is that of both. They are
of the JSON with sorted keys, so that a state keeps them in any file format, and do not depend on the version of wdsctl.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

_APART = ("version", "plan", "digests", "checksum")  # all other fields are the position
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode


def seal_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state with its digests, as a deep copy. Cost: 10 µs, and 3 µs per lane."""
    plan, position = _texts(state)
    fields = _digest_fields(state["version"], plan, position)
    # Messages list the facts of a plan in the order of its keys.
    return {**state, **json.loads(position), "plan": json.loads(json.dumps(state["plan"])), **fields}


def add_digests(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state with its digests; shares its values."""
    return {**state, **_digest_fields(state["version"], *_texts(state))}


def find_digest_error(state: Mapping[str, Any]) -> str:
    """What differs from the digests of a state; "" if nothing does."""
    try:
        expected = _digest_fields(state["version"], *_texts(state))
    except (TypeError, ValueError, RecursionError):
        return "a value in it is not JSON"
    if not isinstance(state["digests"], dict):
        return "'digests' is not a JSON object"
    for part, digest in expected["digests"].items():
        if state["digests"].get(part) != digest:
            return f"its {part} has changed since the state was saved"
    return "" if state["checksum"] == expected["checksum"] else "its checksum is wrong"


def _texts(state: Mapping[str, Any]) -> tuple[str, str]:
    return _encode(state["plan"]), _encode({name: value for name, value in state.items() if name not in _APART})


def _digest_fields(version: int, plan: str, position: str) -> dict[str, Any]:
    digests = {"plan": _digest(plan), "position": _digest(position)}
    return {"digests": digests, "checksum": _digest(f"{version} {digests['plan']} {digests['position']}")}


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
