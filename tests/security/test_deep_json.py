"""JSON that is nested too deep is a ValueError wherever it is read, not a RecursionError."""

from __future__ import annotations

import ast

import pytest

from tests import sources
from wdsctl.core.json_text import read_json

#: Modules that read only JSON written by wdsctl, or whose callers handle RecursionError.
ALLOWED = {
    "core/json_text.py",  # defines read_json
    "core/samples/field_path.py",  # reads a quoted name
    "core/checkpoint/digests.py",  # reads what it has just written
    "loader/distributed.py",  # reads what other ranks of the job have written
    "core/convert/destination.py",  # reads what it has just written
    "loader/run/lane_turns.py",  # the same
    "loader/decoding/parts.py",  # TEXT_DECODE_ERRORS has RecursionError
}


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, b"[" * 200_000, "9" * 10_000])
def test_read_json_raises_value_error_for_too_deep_or_long_input(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"nested too deep|integer string conversion"):
        read_json(text)


def test_every_json_load_handles_recursion_error() -> None:
    assert {place for place in sources.modules_with("json.load") if _has_unguarded_load(place)} <= ALLOWED


def _has_unguarded_load(module: str) -> bool:
    tree = sources.tree(module)
    guarded = {
        call
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) and "RecursionError" in "".join(map(ast.unparse, node.handlers))
        for statement in node.body
        for call in ast.walk(statement)
    }
    return any(
        call not in guarded
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and sources.dotted_name(call.func) in ("json.load", "json.loads")
    )
