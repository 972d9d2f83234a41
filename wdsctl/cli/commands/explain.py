"""`wdsctl explain`: the meaning and remedy of a code."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options
from wdsctl.cli.formatting import wrap
from wdsctl.cli.output import TsvTable, terminal_width
from wdsctl.cli.tables import make_table
from wdsctl.core.codes import load_codes
from wdsctl.core.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType


EPILOG = """
\b
Examples:
  wdsctl explain WDS102          its meaning and remedy
  wdsctl explain                 a list of all codes
  wdsctl explain WDS102 --json   as JSON
"""


def command(
    code: Annotated[
        str,
        typer.Argument(metavar="CODE", help="A code such as WDS102. [default: list all codes]", show_default=False),
    ] = "",
    *,
    common: options.CommonOptions,
) -> int:
    """Explain an error code and what to do about it."""
    if code:
        common.output.answer("explain", ExplainReport(codes=(look_up(code),)), render_code)
    else:
        report = ExplainReport(codes=tuple(map(look_up, load_codes())))
        common.output.answer(
            "explain",
            report,
            render_code_list,
            names=(each.code for each in report.codes),
            table=TsvTable(("code", "title"), report.codes),
        )
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExplanation:
    code: str
    title: str
    meaning: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainReport:
    codes: tuple[CodeExplanation, ...]


#: Letters that are taken for digits.
_LETTERS_TO_DIGITS = str.maketrans("OIL", "011")


def look_up(code: str) -> CodeExplanation:
    """`WDS102`, `wds102` and `102` are the same. Raises UsageError with the nearest codes."""
    name = code.upper()
    if name.isdecimal():
        name = f"WDS{name:0>3}"
    codes = load_codes()
    if name not in codes:
        near = difflib.get_close_matches(name[:3] + name[3:].translate(_LETTERS_TO_DIGITS), codes, n=3, cutoff=0.8)
        raise UsageError(
            f"unknown code {code}",
            hint=f"did you mean {' or '.join(sorted(near))}?" if near else "run `wdsctl explain` to list all codes",
        )
    return CodeExplanation(code=name, **codes[name]._asdict())


def render_code(explanation: ExplainReport) -> Iterator[RenderableType]:
    columns = min(terminal_width(sys.stdout), 100)
    for explained in explanation.codes:
        yield f"{explained.code}: {explained.title}"
        yield ""
        yield wrap(explained.meaning, columns, "  ")
        yield ""
        yield wrap(f"What to do: {explained.remedy}", columns, "  ")


def render_code_list(explanation: ExplainReport) -> Iterator[RenderableType]:
    yield make_table(("code", "title"), [(explained.code, explained.title) for explained in explanation.codes])
