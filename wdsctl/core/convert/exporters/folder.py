"""Write a folder of files: every part becomes the file `key.part`. A unit is a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType

from wdsctl.core.convert.exporters import WrittenUnit
from wdsctl.core.directories import OpenFolder, open_folder
from wdsctl.core.errors import DatasetError, translate_os_errors
from wdsctl.core.files import create_in, fsync_path, make_folder
from wdsctl.core.importers.common.files import part_path
from wdsctl.core.importers.common.values import check_format_options
from wdsctl.core.importers.protocol import FilePart, Options, Part
from wdsctl.core.samples.naming import DEFAULT_TEMPLATE


class PartFileWriter:
    """Writes new files below one folder. Keeps the last subfolder open, as the next file is mostly in the same one."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._folders = {folder}
        self._written: list[str] = []
        self._held = ExitStack()
        self._at: tuple[str, OpenFolder] | None = None
        self.size_bytes = 0
        make_folder(folder)

    def __enter__(self) -> PartFileWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.close()

    def write(self, name: str, part: Part | FilePart, key: str) -> None:
        """Write a part to the file `name` below the folder. Raises DatasetError WDS237 if two parts need one path."""
        path = os.path.join(self._folder, name)
        above, short = os.path.split(path)
        with translate_os_errors(path):
            try:
                with open(create_in(self._open_folder(above), short), "wb") as file:
                    for chunk in part.chunks() if isinstance(part, FilePart) else (part.data,):
                        self.size_bytes += file.write(chunk)
            except (FileExistsError, NotADirectoryError) as error:
                raise DatasetError(
                    f"two parts would get the same file name, {name!r}",
                    hint="make the keys unique first; or use `--to parquet` or `--to mds`, which write no file names",
                    where=f"sample {key!r}",
                    code="WDS237",
                ) from error
        self._written.append(path)

    def _open_folder(self, folder: str) -> OpenFolder:
        """Open a folder, which stays open until the next call with another; create it if it does not exist."""
        if self._at is None or self._at[0] != folder:
            self._at = None
            self._held.close()
            self._at = (folder, self._held.enter_context(open_folder(folder, create=True)))
            while folder not in self._folders:
                self._folders.add(folder)
                folder = os.path.dirname(folder)
        return self._at[1]

    def sync(self) -> None:
        """Sync all files and their folders to the disk, at the end, when the system has written most of them."""
        with translate_os_errors(self._folder):
            for path in (*self._written, *sorted(self._folders, reverse=True)):
                fsync_path(path)


class FolderExporter:
    """Writes every part as a file. Escapes keys that would lead out of the folder as %XX."""

    name = "folder"
    about = "files; the files of a sample share a name"
    suffix = ""
    template = DEFAULT_TEMPLATE

    def check(self, options: Options) -> None:
        check_format_options(self.name, options, ())

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> WrittenUnit:  # noqa: ARG002 - of the protocol
        count = 0
        with PartFileWriter(path) as files:
            for count, (key, parts) in enumerate(samples, 1):  # noqa: B007 - the number of samples
                for part in parts:
                    files.write(part_path(key, part.name), part, key)
            files.sync()
        return WrittenUnit(os.path.basename(path), count, files.size_bytes)

    def finish(self, folder: str, units: Iterable[WrittenUnit], options: Options) -> None:
        """Do nothing: units share no files."""


EXPORTER = FolderExporter()
