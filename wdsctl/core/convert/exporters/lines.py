"""Lines of JSON that are made already, a sample each: the primary of a polylithic layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wdsctl.core.convert.source import Options, Part
from wdsctl.core.convert.target import Unit
from wdsctl.core.os_errors import translated


class LinesTarget:
    """Not to be asked for by name: its samples have one part, whose bytes are a line without its end."""

    name = "lines"
    about = "lines of JSON"
    suffix = ".jsonl"

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> Unit:  # noqa: ARG002
        """One file of lines."""
        count = 0
        with translated(path), open(path, "xb", buffering=1 << 20) as file:
            for _, parts in samples:
                for part in parts:
                    count += 1
                    file.write(part.data)
                    file.write(b"\n")
            size_bytes = file.tell()
        return Unit(path, count, size_bytes)

    def finish(self, folder: str, units: Iterable[Unit], options: Options) -> None:
        """Lines need nothing more."""


EXPORTER = LinesTarget()
