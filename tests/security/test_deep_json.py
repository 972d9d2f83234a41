"""JSON that nests without end is an error wherever it is read, and no RecursionError."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import wdsctl
from wdsctl.core.json_text import read_json

PACKAGE = Path(wdsctl.__file__).parent

#: What they read is our own, or what the caller's decode function raises is asked for by its name.
OURS = {
    "core/json_text.py",  # the door itself
    "core/samples/field_path.py",  # a name in quotes
    "loader/distributed.py",  # what other ranks of the job have written
    "core/convert/destination.py",  # what was written a moment before
    "loader/run/lane_turns.py",  # the same
    "loader/decoding/parts.py",  # TEXT_DECODE_ERRORS has RecursionError
}


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, b"[" * 200_000, "9" * 10_000])
def test_what_cannot_be_read_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"nested too deep|integer string conversion"):
        read_json(text)


def test_nobody_reads_json_without_thinking_of_nesting() -> None:
    assert {place for path in sorted(PACKAGE.rglob("*.py")) for place in _unguarded(path)} <= OURS


def _unguarded(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    guarded = {
        call
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) and "RecursionError" in "".join(map(ast.unparse, node.handlers))
        for statement in node.body
        for call in ast.walk(statement)
    }
    return [
        path.relative_to(PACKAGE).as_posix()
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("json.load", "json.loads") and call not in guarded
    ]
