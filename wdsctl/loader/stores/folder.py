"""Plain folders as stores, local and at URLs. Entries are files by their path below the folder.

Nothing outside of a local folder is read. At a URL, an entry costs a request for its size and one read.
"""

from __future__ import annotations

import os
import posixpath
from contextlib import closing
from stat import S_ISREG
from typing import Any

from wdsctl.core.catalog.browse import NamedPart
from wdsctl.core.dataset.location import shell_command
from wdsctl.core.errors import SampleFailed, StorageError, translate_os_errors
from wdsctl.core.media.facts import MediumFacts
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import LocalStorage, Storage
from wdsctl.core.urls import redact_secrets
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.runtime.failures import MISSING_ENTRY
from wdsctl.loader.samples.lazy_part import LazyPart
from wdsctl.loader.stores.media_facts import MediaFactsIndex, no_facts_error
from wdsctl.loader.stores.store import FileStore, StoreEntry, missing_entry_error, outside_folder_error
from wdsctl.loader.workers.status_page import heartbeat_on_retry, log_silence

_MAX_LISTED_NAMES = 100_000  # of a folder, searched for a name that differs in case


class FolderStore(FileStore):
    """A local folder. `catalog`: of a media folder, with facts and sizes of its files; or None.

    Each read opens and closes the file. `..`, absolute paths and links out of the folder are refused (WDS552).
    """

    def __init__(self, root: str, decoder: SampleDecoder | None, catalog: str | None = None, digest: str = "") -> None:
        super().__init__(root, digest, decoder)
        self._root = root
        self._real_root = os.path.realpath(root)
        self._catalog = catalog
        self._media_facts = None if catalog is None else MediaFactsIndex(catalog)

    def find(self, name: str) -> StoreEntry:
        clean = normalize_entry_name(self.path, name)
        real = os.path.realpath(os.path.join(self._real_root, clean))
        if os.path.commonpath((self._real_root, real)) != self._real_root:
            raise outside_folder_error(self.path, name, "is a link to a file outside the folder")
        try:
            stat = os.stat(real)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise missing_entry_error(self.path, name, self._similar_names(clean)) from error
        except OSError as error:
            raise SampleFailed(
                f"cannot look up {name!r}: {error.strerror or error}",
                where=f"store {self.path}, entry {name}",
                hint="check the permissions of the file and the folders above it",
                code=MISSING_ENTRY,
            ) from error
        if not S_ISREG(stat.st_mode):
            raise outside_folder_error(self.path, name, "is not a file")
        self._check_size(clean, real, stat.st_size)
        etag = f"{stat.st_mtime_ns}-{stat.st_ino}"
        return StoreEntry(clean, part_name(clean), real, clean, 0, stat.st_size, 0, stat.st_size, etag)

    def get_media_metadata(self, name: str) -> MediumFacts:
        entry = self.find(name)
        if self._media_facts is None:
            raise no_facts_error(self.path, name)
        return self._media_facts.facts_of(self.path, entry)

    def _keyframes(self, entry: StoreEntry) -> bytes:
        return b"" if self._media_facts is None else self._media_facts.find_keyframes(entry)

    def open_part(self, entry: StoreEntry) -> LazyPart:
        return LazyPart.with_own_storage(
            self._real_root, entry.path, entry.offset, entry.size, entry.file_size, self._keyframes(entry)
        )

    def _read(self, entry: StoreEntry) -> bytes:
        expected = {entry.path: entry.size}
        with closing(LocalStorage(self._real_root, expected)) as storage:
            return storage.read(entry.path, entry.offset, entry.size)

    def _check_size(self, name: str, real_path: str, size: int) -> None:
        known: NamedPart | None = self._media_facts.find_file(name) if self._media_facts is not None else None
        if known is not None and known.size != size:
            raise StorageError(
                f"the file has {size:,} bytes, but had {known.size:,} when the folder was indexed",
                where=real_path,
                hint=f"run {shell_command('index', self.path)}, or restore the file",
                code="WDS403",
            )

    def _similar_names(self, name: str) -> list[str]:
        """The existing path that differs from `name` only in case, if there is one."""
        path = ""
        for segment in name.split("/"):
            names = _list_names(os.path.join(self._real_root, path))
            similar = [each for each in names if each == segment]
            similar += [each for each in names if each.lower() == segment.lower()]
            if not similar:
                return []
            path = posixpath.join(path, similar[0])
        return [path]

    def _new_storage(self) -> Storage:
        return LocalStorage(self._real_root)

    def _is_gone(self) -> bool:
        return not os.path.isdir(self._real_root)

    def __reduce__(self) -> tuple[Any, ...]:
        return FolderStore, (self._root, self.decoder, self._catalog, self.digest)


def normalize_entry_name(store: str, name: Any) -> str:
    """A name as a normalized path below a folder. Raises SampleFailed WDS552 for names of anything else."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise outside_folder_error(store, str(name), "is not the name of a file")
    if name.startswith("/"):
        raise outside_folder_error(store, name, "is an absolute path")
    if ".." in name.split("/"):
        raise outside_folder_error(store, name, "contains `..`")
    clean = posixpath.normpath(name)
    if clean == ".":
        raise outside_folder_error(store, name, "is the folder itself")
    return clean


def part_name(name: str) -> str:
    """The file name after its first dot, which decides how it is decoded."""
    base = posixpath.basename(name)
    return base.partition(".")[2] or base


def _list_names(folder: str) -> list[str]:
    try:
        with translate_os_errors(folder, "list"), os.scandir(folder) as entries:
            return [entry.name for entry, _ in zip(entries, range(_MAX_LISTED_NAMES), strict=False)]
    except OSError:
        return []  # only a hint is lost


class RemoteFolderStore(FileStore):
    """A folder at a URL, without a catalog."""

    def __init__(self, url: str, decoder: SampleDecoder | None) -> None:
        super().__init__(redact_secrets(url), "", decoder)
        self._url = url.rstrip("/")

    def find(self, name: str) -> StoreEntry:
        clean = normalize_entry_name(self.path, name)
        path = f"{self._url}/{clean}"
        try:
            size = self.storage.size(path)
        except StorageError as error:
            if error.code == StorageError.code and not self.storage.exists(path):
                raise missing_entry_error(self.path, name) from error
            raise
        return StoreEntry(clean, part_name(clean), path, clean, 0, size, 0, size)

    def get_media_metadata(self, name: str) -> MediumFacts:
        raise no_facts_error(self.path, name)

    def _new_storage(self) -> Storage:
        return storage_for(self._url, on_retry=heartbeat_on_retry, on_silence=log_silence)

    def _is_gone(self) -> bool:
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFolderStore, (self._url, self.decoder)
