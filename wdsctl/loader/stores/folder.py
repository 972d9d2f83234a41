"""A plain folder as a store: entries are its files, by their path below it. Nothing outside of it is ever read."""

from __future__ import annotations

import os
import posixpath
from contextlib import closing
from stat import S_ISREG
from typing import Any

from wdsctl.core.catalog.by_name import Named
from wdsctl.core.errors import SampleFailed, StorageError
from wdsctl.core.media.facts import Facts
from wdsctl.core.os_errors import translated
from wdsctl.core.storage import LocalStorage, Storage
from wdsctl.loader.decoding import SampleDecoder
from wdsctl.loader.lazy_part import LazyPart
from wdsctl.loader.stores.entry import Entry
from wdsctl.loader.stores.known_facts import KnownFacts, no_facts
from wdsctl.loader.stores.missing import missing, outside
from wdsctl.loader.stores.store import FileStore

_LISTED = 100_000  # names of a folder that are looked through for one in other letters


class FolderStore(FileStore):
    """`catalog`: that of a folder of media, which has facts of its files, and the sizes that they had; or None.

    Every file is opened for its read alone. `..`, absolute paths and links that lead out of the folder are refused.
    """

    def __init__(self, root: str, decoder: SampleDecoder | None, catalog: str | None = None, digest: str = "") -> None:
        super().__init__(root, digest, decoder)
        self._root = root
        self._real = os.path.realpath(root)
        self._catalog = catalog
        self._facts = None if catalog is None else KnownFacts(catalog)

    def find(self, name: str) -> Entry:
        clean = checked_name(self.path, name)
        real = os.path.realpath(os.path.join(self._real, clean))
        if os.path.commonpath((self._real, real)) != self._real:
            raise outside(self.path, name, "is a link that leads out of the folder")
        try:
            stat = os.stat(real)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise missing(self.path, name, self._near(clean)) from error
        except OSError as error:
            raise self._unreadable(name, error) from error
        if not S_ISREG(stat.st_mode):
            raise outside(self.path, name, "is no file")
        self._check_size(clean, real, stat.st_size)
        mark = f"{stat.st_mtime_ns}-{stat.st_ino}"
        return Entry(clean, part_of(clean), real, clean, 0, stat.st_size, 0, stat.st_size, mark)

    def get_media_metadata(self, name: str) -> Facts:
        entry = self.find(name)
        if self._facts is None:
            raise no_facts(self.path, name)
        return self._facts.of(self.path, entry)

    def _keyframes(self, entry: Entry) -> bytes:
        return b"" if self._facts is None else self._facts.keyframes(entry)

    def handle(self, entry: Entry) -> LazyPart:
        return LazyPart.alone(self._real, entry.path, entry.offset, entry.size, entry.file_size, self._keyframes(entry))

    def _read(self, entry: Entry) -> bytes:
        expected = {entry.path: entry.size}
        with closing(LocalStorage(self._real, expected)) as storage:
            return storage.read(entry.path, entry.offset, entry.size)

    def _check_size(self, name: str, real: str, size: int) -> None:
        known: Named | None = self._facts.file(name) if self._facts is not None else None
        if known is not None and known.size != size:
            raise StorageError(
                f"the file has {size:,} bytes and had {known.size:,} when the folder was indexed",
                where=real,
                hint=f"run `wdsctl index {self.path}`, or restore the file",
                code="WDS403",
            )

    def _near(self, name: str) -> list[str]:
        """The name as it is written there, where it differs in case alone."""
        found = ""
        for step in name.split("/"):
            names = _listed(os.path.join(self._real, found))
            same = [each for each in names if each == step] or [each for each in names if each.lower() == step.lower()]
            if not same:
                return []
            found = posixpath.join(found, same[0])
        return [found]

    def _unreadable(self, name: str, error: OSError) -> SampleFailed:
        return SampleFailed(
            f"{name!r} cannot be looked up: {error.strerror or error}",
            where=f"store {self.path}, entry {name}",
            hint="look at the file and the folders above it",
            code="WDS550",
        )

    def _new_storage(self) -> Storage:
        return LocalStorage(self._real)

    def _is_gone(self) -> bool:
        return not os.path.isdir(self._real)

    def __reduce__(self) -> tuple[Any, ...]:
        return FolderStore, (self._root, self.decoder, self._catalog, self.digest)


def checked_name(store: str, name: Any) -> str:
    """A name as a path below a folder. Raises SampleFailed WDS552 for what leads elsewhere, by its text alone."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise outside(store, str(name), "is no name of a file")
    if name.startswith("/"):
        raise outside(store, name, "is an absolute path")
    if ".." in name.split("/"):
        raise outside(store, name, "leads out of the folder, or may")
    clean = posixpath.normpath(name)
    if clean == ".":
        raise outside(store, name, "is the folder itself")
    return clean


def part_of(name: str) -> str:
    """What is behind the first dot of a file name, which decides how it is decoded."""
    base = posixpath.basename(name)
    return base.partition(".")[2] or base


def _listed(folder: str) -> list[str]:
    try:
        with translated(folder, "list"), os.scandir(folder) as entries:
            return [entry.name for entry, _ in zip(entries, range(_LISTED), strict=False)]
    except OSError:
        return []  # a hint is not worth an error
