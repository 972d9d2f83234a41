"""Write the JSONL primary of a polylithic layout: encoded lines, one per sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wdsctl.core.convert.exporters import WrittenUnit
from wdsctl.core.errors import translate_os_errors
from wdsctl.core.importers.protocol import Options, Part
from wdsctl.core.samples.naming import DEFAULT_TEMPLATE


class JsonlDatasetExporter:
    """An internal exporter, not in `EXPORT_FORMATS`. Each sample has one part: a line without its end."""

    name = "lines"
    about = "lines of JSON"
    suffix = ".jsonl"
    template = DEFAULT_TEMPLATE

    def check(self, options: Options) -> None:
        """Do nothing: users choose no options of an internal exporter."""

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> WrittenUnit:  # noqa: ARG002
        """Write one file of lines."""
        count = 0
        with translate_os_errors(path), open(path, "xb", buffering=1 << 20) as file:
            for _, parts in samples:
                for part in parts:
                    count += 1
                    file.write(part.data)
                    file.write(b"\n")
            size_bytes = file.tell()
        return WrittenUnit(path, count, size_bytes)

    def finish(self, folder: str, units: Iterable[WrittenUnit], options: Options) -> None:
        """Do nothing: units share no files."""


EXPORTER = JsonlDatasetExporter()
