"""Samples of one unit on their way into a form that must know all columns before it writes the first row."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import BinaryIO

from wdsctl.core.convert.source import LargePart, Part
from wdsctl.core.errors import DatasetError
from wdsctl.core.os_errors import translated

_IN_MEMORY = 32 << 20  # bytes


class Spool:
    """Takes parts in, and gives them out again in the same order. Bytes are in a nameless file beside the unit.

    Memory: some 150 bytes a part.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: BinaryIO = tempfile.SpooledTemporaryFile(  # type: ignore[assignment]  # noqa: SIM115
            _IN_MEMORY, dir=os.path.dirname(path) or "."
        )
        self._samples: list[tuple[str, tuple[tuple[str, int], ...]]] = []
        self.counts: dict[str, int] = {}  # part -> samples that have it

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    @property
    def samples(self) -> int:
        return len(self._samples)

    def fill(
        self, samples: Iterable[tuple[str, Iterable[Part | LargePart]]], reserved: Iterable[str], longest: int
    ) -> None:
        """Take all samples. Raises DatasetError WDS237 for a part that cannot be a column, or is longer than bytes."""
        for key, parts in samples:
            sizes = []
            for part in parts:
                size = part.size if isinstance(part, LargePart) else len(part.data)
                if part.name in reserved or size > longest:
                    raise refused(key, part.name, f"has {size:,} bytes" if size > longest else "has a reserved name")
                with translated(self._path):
                    for chunk in part.chunks() if isinstance(part, LargePart) else (part.data,):
                        self._file.write(chunk)
                sizes.append((part.name, size))
                self.counts[part.name] = self.counts.get(part.name, 0) + 1
            self._samples.append((key, tuple(sizes)))

    def drain(self) -> Iterator[tuple[str, dict[str, bytes]]]:
        """(key, part -> bytes) of every sample, in order."""
        self._file.seek(0)
        for key, sizes in self._samples:
            yield key, {name: self._file.read(size) for name, size in sizes}


def refused(
    key: str, part: str, why: str, hint: str = "`--to folder` takes parts of any size and name"
) -> DatasetError:
    """WDS237: what this form cannot hold."""
    return DatasetError(
        f"the part {part!r} {why}, which this form cannot hold",
        hint=hint,
        where=f"sample {key!r}",
        code="WDS237",
    )
