"""`wdsctl explain`: what a code means and what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from wdsctl.cli import options

EPILOG = """
\b
Examples:
  wdsctl explain WDS102          what it means and what to do
  wdsctl explain                 the list of all codes
  wdsctl explain WDS102 --json   the same for programs
"""


def command(
    code: Annotated[
        str,
        typer.Argument(metavar="CODE", help="A code such as WDS102.", show_default=False),
    ] = "",
    *,
    common: options.Common,
) -> int:
    """Say what an error code means and what to do about it."""
    from wdsctl.cli.render.explain import Explanation, look_up, render, render_list
    from wdsctl.core.codes import CODES

    if code:
        common.output.answer("explain", Explanation(codes=(look_up(code),)), render)
    else:
        common.output.answer("explain", Explanation(codes=tuple(map(look_up, CODES))), render_list)
    return 0
