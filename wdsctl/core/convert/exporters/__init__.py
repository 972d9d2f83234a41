"""The formats that `convert` can write: one module each, imported on first use.

Workers write units, one file or folder each. Then the exporter writes the files that all units share, such as an index.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from wdsctl.core.errors import UsageError
from wdsctl.core.importers.protocol import Options, Part
from wdsctl.core.samples.fields import did_you_mean

#: The modules of this package that have a value `EXPORTER`.
EXPORT_FORMATS = ("shards", "folder", "jsonl", "csv", "tsv", "parquet", "mds", "litdata")


@dataclass(frozen=True, slots=True)
class WrittenUnit:
    """A unit that was written. `name`: its path below the destination; `facts`: JSON for `Exporter.finish`."""

    name: str
    samples: int
    size_bytes: int
    facts: str = "{}"


class Exporter(Protocol):
    """A format to write. A module-level value without state: workers look it up by `name`."""

    name: str
    about: str
    suffix: str  # of a unit: `.tar`, `.parquet`; empty for a folder of files
    template: str  # of the names of units, as `ConvertRequest.template`

    def check(self, options: Options) -> None:
        """Raises UsageError for an unknown option, or a value that no source can make right."""

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> WrittenUnit:
        """Write one unit to `path`, a temporary name, from (key, parts), and sync it.

        The same samples give the same bytes. The caller renames the file or folder to its final name.
        """

    def finish(self, folder: str, units: Iterable[WrittenUnit], options: Options) -> None:
        """Write the files that all units share, after the units have their final names.

        A run that continues after a kill calls `finish` again. The exporter publishes these files itself
        (`wdsctl/core/files.py`).
        """


#: The parts of all samples of a folder: name -> whether every sample has the part.
PartPresence = Mapping[str, bool]


@runtime_checkable
class ColumnExporter(Exporter, Protocol):
    """A format that needs all columns of a folder before its first row."""

    def check_options(self, parts: Collection[str], options: Options) -> None:
        """Raises UsageError for an option that names another part than these: those of all folders."""

    def with_parts(self, parts: PartPresence, options: Options) -> Exporter:
        """This exporter, for a folder whose samples have these parts.

        Raises DatasetError WDS237 for a part that cannot be a column.
        """


def get_exporter(name: str) -> Exporter:
    """The exporter of a format. Raises UsageError if no format has this name."""
    if name not in EXPORT_FORMATS:
        raise UsageError(
            f"cannot write the format {name!r}",
            hint=f"{did_you_mean(name, EXPORT_FORMATS)} formats: {', '.join(EXPORT_FORMATS)}".strip(),
        )
    exporter: Exporter = importlib.import_module(f"{__name__}.{name}").EXPORTER
    return exporter
