"""What is configured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wdsctl.cli.figures import count, path, safe
from wdsctl.cli.render.pieces import table

if TYPE_CHECKING:
    from rich.console import RenderableType

Report = Mapping[str, Any]


def render_show(report: Report) -> Iterator[RenderableType]:
    keys: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for setting in report["settings"]:
        keys.setdefault((setting["origin"], setting["key"]), []).append(setting)
    if keys:
        yield table(
            ("option", "value", "of", "from"),
            [
                (
                    f"--{some[0]['option']}",
                    json.dumps(some[0]["value"], ensure_ascii=False),
                    some[0]["command"] if len(some) == 1 else count(len(some), "command"),
                    path(origin),
                )
                for (origin, _), some in keys.items()
            ],
        )
    else:
        yield "nothing is configured"
    yield from _wrong(report)


def render_path(report: Report) -> Iterator[RenderableType]:
    for file in report["files"]:
        yield f"{path(file['path'])} ({file['kind']})"
    if not report["files"]:
        yield f"no file; your own would be {path(report['user_file'])}"


def render_check(report: Report) -> Iterator[RenderableType]:
    yield from _wrong(report)
    if not (report["problems"] or report["unknown_variables"]):
        yield f"nothing wrong in {count(len(report['files']), 'file')}"


def _wrong(report: Report) -> Iterator[str]:
    for kind, problems in (("error[WDS010]", report["problems"]), ("warning", report["unknown_variables"])):
        for problem in problems:
            yield f"{kind}: {safe(problem['message'])}"
            yield f"  --> {path(problem['where'])}"
            if problem["hint"]:
                yield f"  help: {problem['hint']}"
