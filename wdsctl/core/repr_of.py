"""How values that hold a root are shown by `repr`: in a notebook, a debugger, or the message of an assertion."""

from __future__ import annotations

from typing import TypeVar

from wdsctl.core.printable import on_a_line
from wdsctl.core.urls import shown

Value = TypeVar("Value")


def without_secrets(kind: type[Value]) -> type[Value]:
    """Let the class's `repr` have neither what is secret in a URL nor what a terminal obeys."""
    plain = kind.__repr__

    def told(self: Value) -> str:
        return on_a_line(shown(plain(self)))

    kind.__repr__ = told  # type: ignore[method-assign, assignment]
    return kind
