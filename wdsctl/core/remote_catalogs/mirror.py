"""The local mirror of a published catalog: the folder that `DatasetLocation.meta` names, and wdsctl's notes in it.

    catalog.sqlite, dataset.yaml, ...   the files of the catalog, as in the folder of a local dataset
    .published/record.json              the pointer that the mirror was last equal to, and the state of each file then
    .published/applying.json            the pointer whose files are being moved into place
    .published/incoming/SHA256          files that are fetched and checked, and not yet in place
    .published/ranges/SHA256            which chunks of a large offsets file were fetched
    .published/sync                     locked while the mirror is compared, fetched into or published
    .published/writers                  locked, shared, by every process that may change the catalog
    .published/users                    locked, shared, by every process that reads the catalog
    unpublished-TIME/                   changes of this machine that another machine's publication replaced

Locks are flock locks: the system releases them when a process ends, however it ends, and forked workers share those of
their parent. A file of the mirror has *changed* if its content is not the one of the record.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from wdsctl.core.directories import join_beneath
from wdsctl.core.errors import StorageError, translate_os_errors
from wdsctl.core.files import (
    MALFORMED_ERRORS,
    load_checked,
    make_folder,
    open_own,
    remove_file,
    save_checked,
)
from wdsctl.core.remote_catalogs.pointer import Pointer, PublishedFile, is_published_name, parse_pointer
from wdsctl.core.urls import redact_secrets

CONTROL_FOLDER = ".published"
CATALOG_NAME = "catalog.sqlite"
PARTIAL_SUFFIX_BYTES = 40  # of a file that was fetched in part: a magic and its SHA-256

#: Files that readers compute for themselves, without the dataset's lock. They are published with other changes.
_DERIVED_NAMES = re.compile(r"(?:names|keyframes)-\d+\.bin")
_OFFSETS_NAME = re.compile(r"offsets-(\d+)\.bin")
_SQLITE_HEADER_BYTES = 100
_NO_LOCKS_ERRNOS = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK})
_HASH_BLOCK_BYTES = 1 << 20


class FileStamp(NamedTuple):
    """What changes if a file does: of a file that still has it, the content is known."""

    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class MirrorRecord:
    """The pointer that the mirror was last equal to. `tag`: the store's tag of it. `stamps`: by name."""

    pointer: Pointer
    tag: str
    stamps: Mapping[str, FileStamp]


class Mirror:
    """The mirror in `folder` of the catalog at `url`."""

    def __init__(self, folder: str, url: str) -> None:
        self.folder = folder
        self.url = url

    def path(self, name: str) -> str:
        """The path of a file whose name may come from the store."""
        return join_beneath(self.folder, name)

    def control_path(self, name: str) -> str:
        return os.path.join(self.folder, CONTROL_FOLDER, name)

    def incoming_path(self, file: PublishedFile) -> str:
        return self.control_path(os.path.join("incoming", file.sha256))

    def read_record(self) -> MirrorRecord | None:
        """The record; None if there is none, or if it is damaged: the files are then compared by content."""
        found = self._load("record.json")
        if found is None:
            return None
        try:
            pointer = parse_pointer(found["pointer"].encode(), self.url)
            stamps = {str(name): FileStamp(*map(int, stamp)) for name, stamp in found["stamps"].items()}
            return MirrorRecord(pointer, str(found["tag"]), stamps)
        except MALFORMED_ERRORS:
            return None

    def write_record(self, pointer: Pointer, tag: str, stamps: Mapping[str, FileStamp] | None = None) -> MirrorRecord:
        """Note that the files of the mirror are those of the pointer, as they are now, or with these stamps."""
        if stamps is None:
            found = {file.name: self.stamp(file.name) for file in pointer.files}
            stamps = {name: each for name, each in found.items() if each is not None}
        url = redact_secrets(self.url)  # for messages
        facts = {"url": url, "pointer": pointer.encode().decode(), "tag": tag, "stamps": stamps}
        save_checked(self.control_path("record.json"), facts)
        remove_file(self.control_path("applying.json"))
        return MirrorRecord(pointer, tag, stamps)

    def read_applying(self) -> Pointer | None:
        """The pointer whose files a killed process was moving into place; None if there is none."""
        found = self._load("applying.json")
        if found is None:
            return None
        try:
            return parse_pointer(found["pointer"].encode(), self.url)
        except MALFORMED_ERRORS:
            return None

    def write_applying(self, pointer: Pointer) -> None:
        save_checked(self.control_path("applying.json"), {"pointer": pointer.encode().decode()})

    def _load(self, name: str) -> dict[str, Any] | None:
        path = self.control_path(name)
        if not os.path.exists(path):
            return None
        found = load_checked(path)
        return None if found is None else found[0]

    def stamp(self, name: str) -> FileStamp | None:
        """The stamp of a regular file; None if there is none."""
        try:
            found = os.lstat(self.path(name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return FileStamp(found.st_size, found.st_mtime_ns, found.st_ino) if stat.S_ISREG(found.st_mode) else None

    def names(self) -> list[str]:
        """The names of all files that would be published, in order."""
        found: list[str] = []
        with translate_os_errors(self.folder, "list"):
            for folder, folders, names in os.walk(self.folder):
                below = os.path.relpath(folder, self.folder).replace(os.sep, "/")
                prefix = "" if below == "." else f"{below}/"
                folders[:] = [name for name in folders if is_published_name(f"{prefix}{name}/")]
                found += [f"{prefix}{name}" for name in names if is_published_name(f"{prefix}{name}")]
        return sorted(name for name in found if self.stamp(name) is not None)

    def has_all(self, record: MirrorRecord) -> bool:
        """Whether every file of the record is in place. A stat per file."""
        return all(os.path.exists(self.path(file.name)) for file in record.pointer.files)

    def changed_names(self, record: MirrorRecord | None) -> list[str]:
        """The files that are not as in the record, in order: changed, added or gone. Without a record, all files.

        Reads the files whose stamps differ. After a killed `apply`, there are no changes of this machine.
        """
        if self.read_applying() is not None:
            return []
        known = {} if record is None else {file.name: file for file in record.pointer.files}
        changed = [name for name in self.names() if not (name in known or _DERIVED_NAMES.fullmatch(name))]
        for name, file in known.items():
            if record is not None and not self.is_unchanged(file, record) and not _DERIVED_NAMES.fullmatch(name):
                changed.append(name)
        if os.path.exists(self.path("ledger.sqlite-journal")) and "ledger.sqlite" not in changed:
            changed.append("ledger.sqlite")  # a killed process was writing
        return sorted(changed)

    def is_unchanged(self, file: PublishedFile, record: MirrorRecord | None) -> bool:
        """Whether the mirror has this content. Reads the file unless its stamp is the one of the record."""
        now = self.stamp(file.name)
        if now is None:
            return False
        if now.size != file.size:
            return self.is_partial(file, now.size)
        is_known = record is not None and record.stamps.get(file.name) == now
        if is_known and record is not None and file in record.pointer.files:
            return True
        return file_sha256(self.path(file.name)) == file.sha256

    def is_partial(self, file: PublishedFile, size: int) -> bool:
        """Whether a file of this size is `file`, fetched in part (`ranges.py`)."""
        return size == file.size + PARTIAL_SUFFIX_BYTES and os.path.exists(self.ranges_path(file.sha256))

    def ranges_path(self, sha256: str) -> str:
        """The path of the marks of a partial file's chunks."""
        return self.control_path(os.path.join("ranges", sha256))

    @contextmanager
    def lock(self, name: str, *, shared: bool = False, wait: bool = True) -> Iterator[bool]:
        """Hold a lock of the mirror for the block. Without `wait`, yields whether it was free."""
        handle = self._open_lock(name)
        try:
            yield take_lock(handle, self.control_path(name), shared=shared, wait=wait)
        finally:
            os.close(handle)

    def hold_for_use(self) -> None:
        """Keep the mirror from being evicted while this process, or a fork of it, runs. Notes the time of use."""
        if self.folder not in _USED:
            handle = self._open_lock("users")
            # A file system without locks has no lock to test either: `evict` then leaves the mirror alone.
            with suppress(StorageError):
                take_lock(handle, self.control_path("users"), shared=True, wait=True)
            _USED[self.folder] = handle
        os.utime(_USED[self.folder])

    def _open_lock(self, name: str) -> int:
        make_folder(os.path.join(self.folder, CONTROL_FOLDER))
        path = self.control_path(name)
        with translate_os_errors(path):
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


#: Folder -> the descriptor that holds its lock `users`, until the process ends.
_USED: dict[str, int] = {}


def take_lock(handle: int, path: str, *, shared: bool, wait: bool) -> bool:
    """Take the flock lock of an open file, until it is closed. Without `wait`, returns whether it was free.

    Raises StorageError if the file system at `path` has no locks.
    """
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS_ERRNOS:
            raise
        raise StorageError(
            "the file system does not support locks, which processes need to share a catalog",
            where=path,
            hint="set XDG_DATA_HOME to a folder on a local disk",
        ) from error
    return True


def file_sha256(path: str) -> str:
    """The SHA-256 of a file, in hex: about a second per GB."""
    digest = hashlib.sha256()
    with translate_os_errors(path, "read"), open_own(path) as file:
        while block := file.read(_HASH_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def sqlite_schema_version(path: str) -> int:
    """The schema version (`user_version`) in the header of a SQLite file; 0 if it is too short to be one."""
    with translate_os_errors(path, "read"), open_own(path) as file:
        head = file.read(_SQLITE_HEADER_BYTES)
    return int(struct.unpack(">I", head[60:64])[0]) if len(head) == _SQLITE_HEADER_BYTES else 0


def last_generation(names: list[str]) -> int:
    """The highest generation that an offsets file has; 0 for a folder of media, which has none."""
    return max((int(match[1]) for name in names if (match := _OFFSETS_NAME.fullmatch(name))), default=0)


def is_offsets_file(name: str) -> bool:
    return _OFFSETS_NAME.fullmatch(name) is not None


def mirrored_url(folder: str) -> str:
    """The URL, without user and password, whose catalog a folder mirrors; empty if it is no mirror."""
    path = os.path.join(folder, CONTROL_FOLDER, "record.json")
    found = load_checked(path) if os.path.exists(path) else None
    return "" if found is None else str(found[0].get("url", ""))
