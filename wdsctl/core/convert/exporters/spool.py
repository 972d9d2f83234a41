"""Buffer the samples of one unit in a temporary file, for formats that need all columns before the first row."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import BinaryIO

from wdsctl.core.errors import DatasetError, translate_os_errors
from wdsctl.core.importers.protocol import FilePart, Part

_SPOOL_MEMORY_BYTES = 32 << 20


class SampleSpool:
    """Stores the samples of a unit, and returns them in the same order.

    Keeps up to 32 MiB in memory, and more in an unnamed temporary file in the folder of the unit. Memory: also some 150
    bytes per part.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: BinaryIO = tempfile.SpooledTemporaryFile(  # type: ignore[assignment]  # noqa: SIM115
            _SPOOL_MEMORY_BYTES, dir=os.path.dirname(path) or "."
        )
        self._samples: list[tuple[str, tuple[tuple[str, int], ...]]] = []
        self.counts: dict[str, int] = {}  # part -> samples that have it

    def __enter__(self) -> SampleSpool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    @property
    def samples(self) -> int:
        return len(self._samples)

    def fill(
        self, samples: Iterable[tuple[str, Iterable[Part | FilePart]]], reserved: Iterable[str], max_value_bytes: int
    ) -> None:
        """Store all samples. Raises DatasetError WDS237 for a part with a reserved name, or that is too long."""
        for key, parts in samples:
            sizes = []
            for part in parts:
                size = part.size if isinstance(part, FilePart) else len(part.data)
                if part.name in reserved or size > max_value_bytes:
                    raise unstorable_part_error(
                        key, part.name, f"has {size:,} bytes" if size > max_value_bytes else "has a reserved name"
                    )
                with translate_os_errors(self._path):
                    for chunk in part.chunks() if isinstance(part, FilePart) else (part.data,):
                        self._file.write(chunk)
                sizes.append((part.name, size))
                self.counts[part.name] = self.counts.get(part.name, 0) + 1
            self._samples.append((key, tuple(sizes)))

    def drain(self) -> Iterator[tuple[str, dict[str, bytes]]]:
        """Yield (key, part -> bytes) of every sample, in order."""
        self._file.seek(0)
        for key, sizes in self._samples:
            yield key, {name: self._file.read(size) for name, size in sizes}


def unstorable_part_error(
    key: str, part: str, why: str, hint: str = "use `--to folder`, which writes parts of any size and name"
) -> DatasetError:
    """The error WDS237 for a part that the format cannot store."""
    return DatasetError(
        f"the part {part!r} {why}, which this format cannot store",
        hint=hint,
        where=f"sample {key!r}",
        code="WDS237",
    )
