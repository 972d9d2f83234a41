"""Writes parts as files of a folder, and makes them durable together."""

from __future__ import annotations

import os
from contextlib import ExitStack
from types import TracebackType

from wdsctl.core.convert.source import LargePart, Part
from wdsctl.core.errors import DatasetError
from wdsctl.core.files import made_in, make_folder, sync
from wdsctl.core.folders import Folder, held
from wdsctl.core.os_errors import translated


class PartFiles:
    """Files below one folder, none of them written twice. The folder of the last is held: the next is mostly there."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._made = {folder}
        self._written: list[str] = []
        self._held = ExitStack()
        self._at: tuple[str, Folder] | None = None
        self.size_bytes = 0
        make_folder(folder)

    def __enter__(self) -> PartFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.close()

    def write(self, name: str, part: Part | LargePart, key: str) -> None:
        """The file `name` below the folder. Raises DatasetError WDS237 where two parts need one name."""
        path = os.path.join(self._folder, name)
        above, short = os.path.split(path)
        with translated(path):
            try:
                with open(made_in(self._in(above), short), "wb") as file:
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

    def _in(self, folder: str) -> Folder:
        """The folder, held and made where it is not there."""
        if self._at is None or self._at[0] != folder:
            self._at = None
            self._held.close()
            self._at = (folder, self._held.enter_context(held(folder, make=True)))
            while folder not in self._made:
                self._made.add(folder)
                folder = os.path.dirname(folder)
        return self._at[1]

    def sync(self) -> None:
        """All files and the folders that they are in. Most are on the disk when the last ones are asked for."""
        with translated(self._folder):
            for path in (*self._written, *sorted(self._made, reverse=True)):
                sync(path)
