"""How a run was called, as the ledger notes it: the command line, or the arguments of a call from Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from wdsctl.core.urls import shown

LONGEST = 200  # letters of one argument that are kept: a list of shards may be of any length

_TYPED: ContextVar[tuple[str, tuple[str, ...]] | None] = ContextVar("typed", default=None)


@contextmanager
def typed(command: str, words: Sequence[str]) -> Iterator[None]:
    """Within the block, runs are those of the command line `command` (one word or two) with `words` behind it."""
    token = _TYPED.set((command, tuple(map(shown, words))))
    try:
        yield
    finally:
        _TYPED.reset(token)


def called(command: str, arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """What was typed; where nothing was, the verb and the `arguments` that it got."""
    return _TYPED.get() or (command, arguments)


def said(request: Any) -> list[str]:
    """A request, a dataclass, as words: `missing=keep`, a word for each field that is not as it is by default."""
    words: list[str] = []
    for field in fields(request):
        value = getattr(request, field.name)
        if value == _default(field) or (not value and not isinstance(value, bool | int | float)):
            continue
        if is_dataclass(value):
            words += said(value)
        else:
            words.append(shown(f"{field.name}={_text(value)}")[:LONGEST])
    return words


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={_text(each)}" for name, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
