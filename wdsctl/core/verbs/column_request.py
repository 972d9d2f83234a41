"""What may be asked of columns: values alone, for most runs ask nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wdsctl.core.errors import UsageError

OnError = Literal["error", "zero"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRequest:
    """`wanted`: name -> function. `on_error`: what a sample is for which a function fails: an error, or 0.
    `trust_code`: functions may come from the dataset's own folder."""

    wanted: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    on_error: OnError = "error"
    trust_code: bool = False


def parse_columns(texts: Sequence[str]) -> dict[str, str]:
    """`tokens=lengths:tokens`, each. Raises UsageError."""
    if not texts:
        return {}
    from wdsctl.core.columns import check_name

    wanted: dict[str, str] = {}
    for text in texts:
        name, equals, function = text.partition("=")
        if not equals or not function:
            raise UsageError(
                f"{text!r} names no column and its function", hint="write --column NAME=MODULE:FUNCTION", code="WDS312"
            )
        if name in wanted:
            raise UsageError(f"the column {name!r} is asked for twice", hint="give each --column a name of its own")
        wanted[check_name(name)] = function
    return wanted
