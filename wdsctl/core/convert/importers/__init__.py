"""The forms that can be read, one module each, imported when they are asked for."""

from __future__ import annotations

import importlib
import os
from types import MappingProxyType

from wdsctl.core.convert.source import Importer, Recognised
from wdsctl.core.errors import InputError, UsageError, WdsctlError, several
from wdsctl.core.fields import did_you_mean
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named as shown
from wdsctl.core.regular_file import regular
from wdsctl.core.urls import is_url

#: Name of a form -> its module here, which has a value `IMPORTER`.
MODULES = MappingProxyType(
    {
        "shards": "shards",
        "packed": "packed",
        "polylithic": "polylithic",
        "folder": "raw_folder",
        "imagefolder": "image_folder",
        "csv": "csv_table",
        "jsonl": "json_lines",
        "llava": "llava",
        "coco": "coco",
        "parquet": "parquet",
        "huggingface": "huggingface",
        "mds": "mds",
        "litdata": "litdata",
        "wids": "wids",
    }
)

NAMES = tuple(MODULES)


def get(name: str) -> Importer:
    """The importer of a form. Raises UsageError for a name that there is not."""
    if name not in MODULES:
        raise UsageError(
            f"there is no form {name!r} to read",
            hint=f"{did_you_mean(name, MODULES)} the forms are {', '.join(MODULES)}".strip(),
        )
    importer: Importer = importlib.import_module(f"{__name__}.{MODULES[name]}").IMPORTER
    return importer


def find(path: str) -> list[tuple[Importer, Recognised]]:
    """The forms that `path` looks like, best first, each with its reason. Empty if it looks like none.

    Raises what a form said of it (it cannot be read, say) only where no other form knows it.
    """
    found: list[tuple[Importer, Recognised]] = []
    complaints: list[WdsctlError] = []
    for importer in map(get, NAMES):
        try:
            recognised = importer.recognise(path)
        except WdsctlError as error:
            complaints.append(error)
            continue
        if recognised is not None:
            found.append((importer, recognised))
    if complaints and not found:
        raise complaints[0]
    return sorted(found, key=lambda each: (-each[1].score, each[0].name))


def best(path: str) -> tuple[Importer, Recognised]:
    """The form that `path` has. Raises InputError where none fits, or two fit equally well (WDS235)."""
    if not is_url(path) and not os.path.lexists(path):
        raise InputError("the path does not exist", hint="check it", where=shown(path))
    found = find(path)
    if not found:
        check_readable(path)
    if not found:
        raise InputError(
            "this looks like no form that can be converted",
            where=shown(path),
            hint=f"check the path, or name the form with --from: {', '.join(MODULES)}",
            code="WDS235",
        )
    if len(found) > 1 and found[0][1].score == found[1][1].score:
        first = [(importer, it) for importer, it in found if it.score == found[0][1].score]
        raise InputError(
            several("this looks like several forms", *(f"{form.name}: {it.reason}" for form, it in first)),
            where=shown(path),
            hint=f"say which one it is: --from {first[0][0].name}",
            code="WDS235",
        )
    return found[0]


def check_readable(path: str) -> None:
    """Raises InputError for what is neither file nor folder (to open a pipe waits for who writes into it), and what
    reading it raises, as PermissionDenied: it might be of any form.
    """
    if is_url(path):
        return
    if os.path.isdir(path):
        with translated(path, "list"), os.scandir(path):
            pass
    elif os.path.isfile(path):
        with translated(path, "read"), open(path, "rb", opener=regular):
            pass
    elif os.path.lexists(path):
        raise InputError(
            "this is no file and no folder, and cannot be read twice",
            hint="write what comes out of it into a file first, and convert that",
            where=shown(path),
        )
