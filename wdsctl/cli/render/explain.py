"""Codes in words."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wdsctl.cli.figures import wrap
from wdsctl.cli.output import width
from wdsctl.cli.render.pieces import table
from wdsctl.core.codes import CODES
from wdsctl.core.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    code: str
    title: str
    meaning: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    codes: tuple[Explained, ...]


#: Letters that are taken for digits.
_DIGITS = str.maketrans("OIL", "011")


def look_up(code: str) -> Explained:
    """`WDS102`, `wds102` and `102` are the same. Raises UsageError with the nearest codes."""
    name = code.upper()
    if name.isdecimal():
        name = f"WDS{name:0>3}"
    if name not in CODES:
        near = difflib.get_close_matches(name[:3] + name[3:].translate(_DIGITS), CODES, n=3, cutoff=0.8)
        raise UsageError(
            f"there is no code {code}",
            hint=f"did you mean {' or '.join(sorted(near))}?" if near else "`wdsctl explain` lists them all",
        )
    return Explained(code=name, **CODES[name]._asdict())


def render(explanation: Explanation) -> Iterator[RenderableType]:
    columns = min(width(sys.stdout), 100)
    for explained in explanation.codes:
        yield f"{explained.code}: {explained.title}"
        yield ""
        yield wrap(explained.meaning, columns, "  ")
        yield ""
        yield wrap(f"What to do: {explained.remedy}", columns, "  ")


def render_list(explanation: Explanation) -> Iterator[RenderableType]:
    yield table(("code", "title"), [(explained.code, explained.title) for explained in explanation.codes])
