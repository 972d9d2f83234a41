"""To a folder of files: every part is the file `key.part`. A unit is a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.file_names import file_name
from wdsctl.core.convert.rows.files_of_parts import PartFiles
from wdsctl.core.convert.source import Options, Part
from wdsctl.core.convert.target import Unit


class RawFolder:
    """Keys may hold anything: what would lead out of the folder is written as %XX."""

    name = "folder"
    about = "files, those of one sample with one name"
    suffix = ""

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> Unit:
        given.checked(self.name, options, ())
        count = 0
        with PartFiles(path) as files:
            for count, (key, parts) in enumerate(samples, 1):  # noqa: B007 - how many there were
                for part in parts:
                    files.write(file_name(key, part.name), part, key)
            files.sync()
        return Unit(os.path.basename(path), count, files.size_bytes)

    def finish(self, folder: str, units: Iterable[Unit], options: Options) -> None:
        """There is nothing beside the units."""


EXPORTER = RawFolder()
