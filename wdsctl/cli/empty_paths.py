"""Empty paths, as a variable that is not set leaves them, are refused: they would mean the working directory."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from typer.models import ArgumentInfo, ParameterInfo

from wdsctl.core.errors import UsageError

#: How arguments and options that name a file or a folder are called in help.
PATHS = frozenset(
    {"A", "[B]", "DEST", "DIR", "FILE", "FILE|DIR/|-", "FILES", "FOLDER", "OUT", "ROOT", "SOURCE", "SOURCE... DEST"}
)


def refuse_empty(parameters: Iterable[inspect.Parameter], values: Mapping[str, Any]) -> None:
    """Raise UsageError where the value of a parameter that is a path is empty, and that is not its default."""
    for parameter in parameters:
        value = values[parameter.name]
        if value == parameter.default or "" not in (value if isinstance(value, list) else [value]):
            continue
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(info, ParameterInfo) and info.metavar in PATHS:
                # Within `Annotated` the first name of an option is where its default would be.
                name = info.metavar.strip("[]") if isinstance(info, ArgumentInfo) else info.default
                raise UsageError(
                    f"{'one of ' if isinstance(value, list) else ''}{name} is empty",
                    hint="a variable that is not set, perhaps; for the folder you are in, write .",
                )
