"""Writes parts as files of a folder, and makes them durable together."""

from __future__ import annotations

import os

from wdsctl.core.convert.source import LargePart, Part
from wdsctl.core.errors import DatasetError
from wdsctl.core.files import sync
from wdsctl.core.os_errors import translated


class PartFiles:
    """Files below one folder, none of them written twice."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._made: set[str] = set()
        self._written: list[str] = []
        self.size_bytes = 0
        with translated(folder):
            os.makedirs(folder, exist_ok=True)
        self._made.add(folder)

    def write(self, name: str, part: Part | LargePart, key: str) -> None:
        """The file `name` below the folder. Raises DatasetError WDS237 where two parts need one name."""
        path = os.path.join(self._folder, name)
        with translated(path):
            try:
                self._make(os.path.dirname(path))
                with open(path, "xb") as file:
                    for chunk in part.chunks() if isinstance(part, LargePart) else (part.data,):
                        self.size_bytes += file.write(chunk)
            except (FileExistsError, NotADirectoryError) as error:
                raise DatasetError(
                    f"two parts would be one file, {name!r}",
                    hint="`--to parquet` and `--to mds` have no names of files; or make the keys unique first",
                    where=f"sample {key!r}",
                    code="WDS237",
                ) from error
        self._written.append(path)

    def _make(self, folder: str) -> None:
        if folder not in self._made:
            os.makedirs(folder, exist_ok=True)
            while folder not in self._made:
                self._made.add(folder)
                folder = os.path.dirname(folder)

    def sync(self) -> None:
        """All files and the folders that they are in. Most are on the disk when the last ones are asked for."""
        with translated(self._folder):
            for path in (*self._written, *sorted(self._made, reverse=True)):
                sync(path)
