"""`wdsctl config`: what options are set to by a file and variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import typer

from wdsctl.cli import options
from wdsctl.core.urls import shown

if TYPE_CHECKING:
    from wdsctl.core.config import Config

HELP = "Look at the configuration: show, path, check."

EPILOG = """
\b
Examples:
  wdsctl config show      what is set, and where
  wdsctl config path      the file that counts
  wdsctl config check     what is wrong with it

\b
Your own wdsctl.toml, or in its place the file that --config or
WDSCTL_CONFIG names; none is looked for where you work. Before it goes
WDSCTL_INDEX_WORKERS=4, and before all the command line.
docs/configuration.md has the whole story.
"""

SHOW_EPILOG = """
\b
Examples:
  wdsctl config show          what is set
  wdsctl config show --json
"""

PATH_EPILOG = """
\b
Examples:
  wdsctl config path                          the file that counts
  wdsctl config path --config wdsctl.toml     another one
  WDSCTL_CONFIG=none wdsctl config path       without any file
"""

CHECK_EPILOG = """
\b
Examples:
  wdsctl config check && wdsctl prepare photos/ shards/

\b
Exits with 1 where something is wrong.
"""

group = typer.Typer(rich_markup_mode=None, no_args_is_help=False)


@group.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def show(*, common: options.Common) -> int:
    """Show what is set, and where."""
    from wdsctl.cli.render.config import render_show

    common.output.answer("config show", _report(common), render_show)
    return 0


def path(*, common: options.Common) -> int:
    """Show which file counts."""
    from wdsctl.cli.render.config import render_path

    common.output.answer("config path", _report(common), render_path)
    return 0


def check(*, common: options.Common) -> int:
    """Say what is wrong with the file and variables."""
    from wdsctl.cli.render.config import render_check

    report = _report(common)
    common.output.answer("config check", report, render_check)
    return 1 if report["problems"] else 0


def _report(common: options.Common) -> dict[str, Any]:
    from wdsctl.cli.configured import configuration
    from wdsctl.core.config_file import user_file

    config = configuration(common.config)
    return {
        "files": [{"path": shown(file.path), "kind": file.kind} for file in config.files],
        "user_file": user_file(os.environ),
        "settings": _settings(config),
        "problems": [_problem(problem) for problem in config.problems],
        "unknown_variables": [_problem(problem) for problem in config.unknown],
    }


def _problem(problem: Any) -> dict[str, str]:
    return {"message": shown(problem.message), "where": shown(problem.where), "hint": shown(problem.hint)}


def _settings(config: Config) -> list[dict[str, Any]]:
    return [
        {
            "command": setting.command,
            "option": setting.option,
            "value": shown(setting.value) if isinstance(setting.value, str) else setting.value,
            "origin": shown(setting.origin),
            "key": setting.key,
        }
        for _, setting in sorted(config.settings.items())
    ]


for _name, _function, _epilog in (
    ("show", show, SHOW_EPILOG),
    ("path", path, PATH_EPILOG),
    ("check", check, CHECK_EPILOG),
):
    group.command(_name, epilog=_epilog)(options.with_common(_function))
