"""The files in a dataset's own folder: what each is, which generation it is of, and whether anybody needs it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from wdsctl.core.os_errors import translated
from wdsctl.core.place import Place

_KINDS = (
    ("offsets", re.compile(r"offsets-(\d+)\.bin")),
    ("names", re.compile(r"names-(\d+)\.bin")),
    ("keyframes", re.compile(r"keyframes-(\d+)\.bin")),
    ("column", re.compile(r"columns/[^/]+-(\d+)\.bin")),
    ("catalog", re.compile(r"catalog\.sqlite")),
    ("ledger", re.compile(r"ledger\.sqlite(?:-journal|-wal|-shm)?")),
    ("settings", re.compile(r"dataset\.yaml")),
    ("lock", re.compile(r"lock")),
    ("damaged", re.compile(r"(?:.*/)?[^/]+\.damaged-\d+(?:-journal)?")),
    ("begun", re.compile(r"(?:.*/)?\.[^/]+\.partial")),
    ("join", re.compile(r"joins/.*")),
    ("unit", re.compile(r"(?:work|media|columns/units)/.*")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFile:
    """One file. `generation`: that of its name; None where it has none."""

    name: str  # relative to the folder, with /
    kind: str
    size_bytes: int
    generation: int | None = None


def catalog_files(place: Place) -> list[CatalogFile]:
    """All files in the folder, by name. Raises StorageError and PermissionDenied."""
    found: list[CatalogFile] = []
    with translated(place.meta, "list"):
        for folder, _, names in os.walk(place.meta):
            for name in names:
                path = os.path.join(folder, name)
                short = os.path.relpath(path, place.meta).replace(os.sep, "/")
                if os.path.lexists(path):  # it may be gone by now
                    found.append(_told(short, os.lstat(path).st_size))
    return sorted(found, key=lambda file: file.name)


def _told(name: str, size: int) -> CatalogFile:
    for kind, pattern in _KINDS:
        match = pattern.fullmatch(name)
        if match:
            generation = int(match[1]) if match.groups() else None
            return CatalogFile(name=name, kind=kind, size_bytes=size, generation=generation)
    return CatalogFile(name=name, kind="other", size_bytes=size)
