"""`wdsctl skill`: how to use this version, as an agent skill."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wdsctl.cli import options
from wdsctl.cli.formatting import display_path
from wdsctl.core.errors import refuse_without_effect
from wdsctl.core.version import VERSION

if TYPE_CHECKING:
    from rich.console import RenderableType


EPILOG = """
\b
Examples:
  wdsctl skill                              print the text
  wdsctl skill --install .claude/skills     for Claude Code, in this project
  wdsctl skill --install ~/.agents/skills   for Codex, in all projects

\b
--install writes DIR/wdsctl/SKILL.md, the place that the Agent Skills format
has for it. Install again after an update of wdsctl.
"""

State = Literal["printed", "created", "replaced", "unchanged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillReport:
    """`path`: the file; empty if the text is only printed. `state`: what became of it, or would with --dry-run."""

    name: str
    version: str
    text: str
    path: str = ""
    state: State = "printed"
    dry_run: bool = False


def command(
    *,
    install: Annotated[
        str | None, typer.Option("--install", metavar="DIR", help="Write the skill to a folder of skills.")
    ] = None,
    force: options.ForceOption = False,
    dry_run: options.DryRunOption = False,
    common: options.CommonOptions,
) -> int:
    """Print how to use this version, as a skill for coding agents."""
    from wdsctl.cli.skill_text import SKILL_NAME, skill_text

    refuse_without_effect(("--force", force, "--install DIR", install))
    text = skill_text()
    report = SkillReport(name=SKILL_NAME, version=VERSION, text=text)
    if install is None:
        common.output.answer("skill", report, lambda each: each.text.rstrip("\n").split("\n"), is_explicit=True)
        return 0
    path = os.path.join(os.path.abspath(install), SKILL_NAME, "SKILL.md")
    report = SkillReport(
        name=SKILL_NAME,
        version=VERSION,
        text=text,
        path=path,
        state=install_text(path, text, overwrite=force or common.yes, dry_run=dry_run),
        dry_run=dry_run,
    )
    common.output.answer("skill", report, render_installed, names=[path])
    return 0


def install_text(path: str, text: str, *, overwrite: bool, dry_run: bool) -> State:
    """Write the file, unless it has this text. Raises UsageError if it has another one and `overwrite` is False."""
    from wdsctl.core.directories import resolve_parent
    from wdsctl.core.errors import UsageError, translate_os_errors
    from wdsctl.core.files import make_folder, write_text
    from wdsctl.core.safe_open import open_named

    state: State = "created"
    if os.path.lexists(path):
        with translate_os_errors(path, "read"), open_named(path) as file:
            if file.read(len(text.encode()) + 1) == text.encode():
                return "unchanged"
        if not overwrite:
            raise UsageError(
                "the file exists and has another text",
                where=path,
                hint="compare it with the output of `wdsctl skill`; pass --force to replace it",
            )
        state = "replaced"
    if not dry_run:
        make_folder(os.path.dirname(path))
        write_text(resolve_parent(path), text)
    return state


def render_installed(report: SkillReport) -> Iterator[RenderableType]:
    yield f"{display_path(report.path)}: {'would be ' if report.dry_run else ''}{report.state}"
