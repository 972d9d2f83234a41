"""`wdsctl config show`: the options that the configuration sets, and where each value comes from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wdsctl.cli import options
from wdsctl.cli.formatting import display_path, escape_line, format_count
from wdsctl.cli.tables import make_table
from wdsctl.core.urls import redact_secrets

if TYPE_CHECKING:
    from rich.console import RenderableType

HELP = "Show the configuration."

EPILOG = """
\b
Examples:
  wdsctl config show      configured options and their sources

\b
Order of precedence: the command line, a variable such as
WDSCTL_INDEX_WORKERS=4, a file. The file is the one that --config or
WDSCTL_CONFIG names, otherwise your wdsctl.toml. A file in the working
directory has no effect. See docs/configuration.md.
"""

SHOW_EPILOG = """
\b
Examples:
  wdsctl config show                          configured options
  wdsctl config show --config wdsctl.toml     check another file
  WDSCTL_CONFIG=none wdsctl config show       only variables
"""


def show(*, common: options.CommonOptions) -> int:
    """Show which options the configuration sets, and where each value comes from."""
    from wdsctl.cli.config import read_settings, read_variables
    from wdsctl.cli.config_file import find_config_file, user_config_path

    path = find_config_file(os.environ, common.config)
    variables, unknown = read_variables()
    settings = {(each.command, each.option): each for each in (*(read_settings(path) if path else ()), *variables)}
    report: dict[str, Any] = {
        "file": redact_secrets(path or ""),
        "user_file": user_config_path(os.environ),
        "settings": [
            {name: redact_secrets(text) if isinstance(text, str) else text for name, text in each._asdict().items()}
            for _, each in sorted(settings.items())
        ],
        "unknown_variables": unknown,
    }
    common.output.answer(
        "config show",
        report,
        render_config,
        names=(f"{each['command']}.{each['option']}".replace(" ", ".") for each in report["settings"]),
    )
    return 0


group = options.make_group(("show", show, SHOW_EPILOG))


def render_config(report: Mapping[str, Any]) -> Iterator[RenderableType]:
    commands: dict[tuple[str, str, str], list[str]] = {}  # an option above all tables is one row
    for setting in report["settings"]:
        value = json.dumps(setting["value"], ensure_ascii=False)
        commands.setdefault((setting["option"], value, setting["origin"]), []).append(setting["command"])
    if commands:
        yield make_table(
            ("option", "value", "command", "from"),
            [
                (
                    f"--{option}",
                    value,
                    names[0] if len(names) == 1 else format_count(len(names), "command"),
                    display_path(origin),
                )
                for (option, value, origin), names in commands.items()
            ],
        )
    else:
        source = display_path(report["file"]) if report["file"] else f"no file at {display_path(report['user_file'])}"
        yield f"no option is configured ({source})"
    for name in report["unknown_variables"]:
        yield f"warning: no option reads the variable {escape_line(name)}"
