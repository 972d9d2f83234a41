"""The forms that can be written, one module each, imported when they are asked for."""

from __future__ import annotations

import importlib
from types import MappingProxyType

from wdsctl.core.convert.target import Target
from wdsctl.core.errors import UsageError
from wdsctl.core.fields import did_you_mean

#: Name of a form -> its module here, which has a value `EXPORTER`.
MODULES = MappingProxyType(
    {"shards": "shards", "folder": "raw_folder", "jsonl": "json_lines", "parquet": "parquet", "mds": "mds"}
)

NAMES = tuple(MODULES)


def get(name: str) -> Target:
    """The target of a form. Raises UsageError for a name that there is not."""
    if name not in MODULES:
        raise UsageError(
            f"there is no form {name!r} to write",
            hint=f"{did_you_mean(name, MODULES)} the forms are {', '.join(MODULES)}".strip(),
        )
    target: Target = importlib.import_module(f"{__name__}.{MODULES[name]}").EXPORTER
    return target
