"""Files of a source of `prepare` and `convert`, on a disk or in a store: names, facts, bytes.

Each function takes a path or a URL. For a path, it is the system call that its name says. For a URL, a folder is what
the names of objects say, and facts come from listings: a process lists each folder once, until `forget_listings`. A
version, derived from the ETag, takes the place of a modification time. Bytes are read by ranges, ahead of their use.
Stores have no links.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from stat import S_ISREG
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, overload

from wdsctl.core.errors import StorageDown, StorageError, UsageError
from wdsctl.core.random_access import RandomAccessFile
from wdsctl.core.safe_open import FolderEntry, open_source_file, scan_source_folder, walk_source_folder
from wdsctl.core.storage.remote_errors import etag_number
from wdsctl.core.storage.storage import FileRange
from wdsctl.core.urls import is_chained, is_signed, is_url, protocol, redact_secrets, store_url

if TYPE_CHECKING:
    from wdsctl.core.storage.remote import FsspecStorage

PIECE_BYTES = 8 << 20  # of a large file, in one request
_BLOCK_BYTES, _BLOCK_FILES = 32 << 20, 256  # what is fetched while the block before it is used

#: What says that an object is not the one that was listed: it is gone, or has another size.
CHANGED_CODES = frozenset({"WDS403", "WDS404"})


class FileFacts(NamedTuple):
    """`version`: the modification time in nanoseconds; in a store, a number that changes with the content."""

    size: int
    version: int


class _StoreEntry(NamedTuple):
    name: str
    path: str
    is_folder: bool

    def is_dir(self) -> bool:
        return self.is_folder

    def is_file(self) -> bool:
        return not self.is_folder

    def is_symlink(self) -> bool:
        return False


class _StoreFolder(NamedTuple):
    """The names in a folder of a store; both are sorted as the store lists them."""

    folders: dict[str, None]
    files: dict[str, FileFacts]


def is_remote(path: str) -> bool:
    """Whether a path is a URL. Cheap for paths, which are asked about once a row."""
    return "://" in path and is_url(path)


def is_file(path: str) -> bool:
    """Whether there is a file. A link counts as its target."""
    if not is_remote(path):
        return os.path.isfile(path)
    return _facts_of(path) is not None


def is_folder(path: str) -> bool:
    if not is_remote(path):
        return os.path.isdir(path)
    listing = _listing_of(path)
    return listing.is_folder(path)


def exists(path: str) -> bool:
    """Whether there is a file or folder; on a disk, also a link that leads nowhere."""
    return is_file(path) or is_folder(path) if is_remote(path) else os.path.lexists(path)


def is_link(path: str) -> bool:
    return not is_remote(path) and os.path.islink(path)


def resolve_links(path: str) -> str:
    """The path without links. Of a URL, without `.` and `..`."""
    return absolute(path) if is_remote(path) else os.path.realpath(path)


def absolute(path: str) -> str:
    """The absolute path, without `.` and `..`."""
    if not is_remote(path):
        return os.path.abspath(path)
    scheme, _, rest = path.partition("://")
    host, slash, below = rest.partition("/")
    below = os.path.normpath(f"/{below}").lstrip("/")
    return f"{scheme}://{host}{slash if below else ''}{below}"


def normalize(path: str) -> str:
    """The path without `.` and `..`, as the text says."""
    return absolute(path) if is_remote(path) else os.path.normpath(path)


def relative(path: str, folder: str) -> str:
    """The path relative to a folder."""
    return os.path.relpath(absolute(path), absolute(folder))


def stat_file(path: str) -> FileFacts:
    """The facts of a regular file. Raises FileNotFoundError, other OSErrors, and StorageError for a pipe or device."""
    if is_remote(path):
        facts = _facts_of(path)
        if facts is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return facts
    status = os.stat(path)
    if not S_ISREG(status.st_mode):
        raise StorageError("not a regular file", where=path, hint="replace it by a regular file")
    return FileFacts(status.st_size, status.st_mtime_ns)


def folder_identity(path: str) -> tuple[int, int]:
    """Two numbers that are equal for two paths of one folder. Raises OSError."""
    if is_remote(path):
        return hash(absolute(path)), 0
    status = os.stat(path)
    return status.st_dev, status.st_ino


@contextmanager
def scan(folder: str) -> Iterator[Iterator[FolderEntry]]:
    """The entries of a folder, in any order. Raises OSError."""
    if not is_remote(folder):
        with scan_source_folder(folder) as entries:
            yield entries
        return
    url = absolute(folder)
    found = _listing_of(url).folder(url)
    if not (found.folders or found.files):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
    names = [(name, True) for name in found.folders] + [(name, False) for name in found.files]
    yield (_StoreEntry(name, f"{url}/{name}", is_folder) for name, is_folder in names)


def walk(root: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `os.walk`: (folder, names of its folders, names of its files). A store is listed with one question."""
    if not is_remote(root):
        yield from walk_source_folder(root)
        return
    yield from ((url, folders, sorted(files)) for url, folders, files in _walk_store(root))


def walk_facts(root: str) -> Iterator[tuple[str, FileFacts]]:
    """(path below the root, facts) of all files below a URL."""
    top = f"{absolute(root)}/"
    for url, _, files in _walk_store(root):
        yield from ((f"{url}/{name}".removeprefix(top), facts) for name, facts in files.items())


def _walk_store(root: str) -> Iterator[tuple[str, list[str], dict[str, FileFacts]]]:
    """(folder, names of its folders, its files) below a URL. Goes into those that the caller leaves in the list."""
    listing = _listing_of(root)
    top = absolute(root)
    listing.list_below(top)
    left = [top]
    while left:
        url = left.pop()
        found = listing.folder(url)
        folders = sorted(found.folders)
        yield url, folders, found.files
        left += [f"{url}/{name}" for name in reversed(folders)]


def open_file(path: str, *, buffer_bytes: int = PIECE_BYTES) -> BinaryIO:
    """Open a file of a source for reading. `buffer_bytes`: the least that is read at once from a store.

    Raises as `safe_open.open_source_file`.
    """
    if not is_remote(path):
        return open_source_file(path)
    return io.BufferedReader(_StoreFile(path, stat_file(path).size), buffer_bytes)


def read_start(path: str, size: int) -> bytes:
    """The first `size` bytes of a file. Raises OSError."""
    with open_file(path, buffer_bytes=max(size, io.DEFAULT_BUFFER_SIZE)) as file:
        return file.read(size)


class RandomAccess(Protocol):
    """Bytes of a file that are read when they are indexed: `mmap`, or ranges of an object."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> bytes: ...


def map_source(path: str) -> bytes | mmap.mmap | StoreBytes:
    """The bytes of a file, read when they are indexed. Raises OSError."""
    if is_remote(path):
        return StoreBytes(path, stat_file(path).size)
    with open_file(path) as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.seek(0, 2) else b""


class StoreBytes:
    """The bytes of an object. Keeps one window of 8 MiB: neighbouring ranges cost one request."""

    def __init__(self, url: str, size: int) -> None:
        self._storage = open_storage_of(url, {url: size})
        self._url = url
        self._size = size
        self._start, self._window = 0, b""

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> bytes: ...
    def __getitem__(self, at: int | slice) -> int | bytes:
        if isinstance(at, int):
            return self[at : at + 1][0]
        start, stop, _ = at.indices(self._size)
        if start >= stop:
            return b""
        if not (self._start <= start and stop <= self._start + len(self._window)):
            size = min(max(stop - start, PIECE_BYTES), self._size - start)
            self._start, self._window = start, self._storage.read(self._url, start, size)
        return self._window[start - self._start : stop - self._start]

    def close(self) -> None:
        self._window = b""
        self._storage.close()


class _StoreFile(RandomAccessFile):
    """An object as an unbuffered file. While the caller uses a piece, the next one is fetched."""

    def __init__(self, url: str, size: int) -> None:
        super().__init__(size)
        self._storage = open_storage_of(url, {url: size})
        self._url = url
        self._announced: tuple[FileRange, object] | None = None

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the kind of buffer that callers pass
        size = max(0, min(len(buffer), self.size - self._position))
        if size == 0:
            return 0
        data = self._storage.read(self._url, self._position, size)
        memoryview(buffer)[:size] = data
        is_sequential = self._announced is None or self._announced[0].offset == self._position
        self._position += size
        following = FileRange(self._url, self._position, min(PIECE_BYTES, self.size - self._position))
        if is_sequential and size == PIECE_BYTES and following.size:
            self._announced = following, self._storage.announce([following], starts=True)
        return size

    def close(self) -> None:
        self._announced = None
        self._storage.close()
        super().close()


def read_files(files: Iterable[tuple[str, int]]) -> Iterator[bytes]:
    """Yield the bytes of files at URLs, given as (URL, size), in order: in pieces of up to 8 MiB, at least one a file.

    Fetches the next files while the caller uses those before. Memory: 64 MiB. Raises StorageError with one of
    `CHANGED_CODES` for a file that is gone or has another size.
    """
    ahead: deque[_Block] = deque()
    try:
        for pieces in _blocks(files):
            ahead.append(_Block(pieces))
            if len(ahead) > 1:
                yield from ahead.popleft().read()
        while ahead:
            yield from ahead.popleft().read()
    finally:
        for block in ahead:
            block.close()


def _blocks(files: Iterable[tuple[str, int]]) -> Iterator[list[tuple[FileRange, int]]]:
    """Yield lists of (range, size of its file), each of one block."""
    block: list[tuple[FileRange, int]] = []
    held = 0
    for url, size in files:
        for offset in range(0, max(size, 1), PIECE_BYTES):
            piece = FileRange(url, offset, min(PIECE_BYTES, size - offset))
            if block and (held + piece.size > _BLOCK_BYTES or len(block) == _BLOCK_FILES):
                yield block
                block, held = [], 0
            block.append((piece, size))
            held += piece.size
    if block:
        yield block


class _Block:
    """Pieces of files that are being fetched."""

    def __init__(self, pieces: Sequence[tuple[FileRange, int]]) -> None:
        self._pieces = pieces
        self._storage = open_storage_of(pieces[0][0].path, {piece.path: size for piece, size in pieces})
        self._announcement: object = self._storage.announce((piece for piece, _ in pieces if piece.size), starts=True)

    def read(self) -> Iterator[bytes]:
        try:
            empty = [piece.path for piece, _ in self._pieces if not piece.size]
            for url, size in zip(empty, self._storage.sizes(empty), strict=True):
                if size != 0:
                    raise StorageError("the file is not empty any more", where=url, hint="run again", code="WDS403")
            for piece, _ in self._pieces:
                yield self._storage.read(*piece) if piece.size else b""
        finally:
            self.close()

    def close(self) -> None:
        self._announcement = None
        self._storage.close()


def find_changed(files: Sequence[tuple[str, int]]) -> list[tuple[int, str]]:
    """(position, what has changed) of files at URLs, given as (URL, size), that are gone or have another size."""
    if not files:
        return []
    storage = open_storage_of(files[0][0])
    try:
        sizes = storage.sizes([url for url, _ in files])
    finally:
        storage.close()
    return [
        (i, "gone since it was listed" if now is None else f"{now:,} bytes instead of {size:,}")
        for i, ((_, size), now) in enumerate(zip(files, sizes, strict=True))
        if now != size
    ]


def open_storage_of(url: str, expected: dict[str, int] | None = None) -> FsspecStorage:
    """The storage of the store that a URL is in. `expected`: sizes in bytes that files must have."""
    from wdsctl.core.storage.remote import FsspecStorage

    return FsspecStorage(_store_root(url), expected)


def check_source_url(url: str) -> None:
    """Raise UsageError for a URL of raw files or tables that opens one file only, or that reads through a cache."""
    if is_signed(url):
        raise UsageError(
            "a signed URL opens one file, and this source needs the files beside it",
            where=redact_secrets(url),
            hint="pass the URL of the store, and give its driver credentials; or copy the source to a disk",
        )
    if is_chained(url):
        raise UsageError(
            "raw files and tables are read once, and not through a cache",
            where=redact_secrets(url),
            hint=f"pass {redact_secrets(store_url(url))}",
        )


def forget_listings() -> None:
    """List stores again: called when a command begins, and before it checks whether a source has changed."""
    _listings.clear()


#: What may precede the name of a repository of the Hugging Face Hub.
_HUB_KINDS = frozenset({"datasets", "models", "spaces", "buckets"})


def _store_root(url: str) -> str:
    """The URL of the bucket, the host, or the repository of the Hugging Face Hub."""
    scheme, _, rest = url.partition("://")
    names = rest.split("/")
    count = 1 if protocol(url) != "hf" else 3 if names[0] in _HUB_KINDS else 2
    return f"{scheme}://{'/'.join(names[:count])}"


class _StoreListing:
    """Folders of one store, each listed once. A store that does not respond is not asked again."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._is_web = protocol(root) in ("http", "https")
        self._storage = open_storage_of(root)
        self._folders: dict[str, _StoreFolder] = {}
        self._down: StorageDown | None = None
        self._complete: list[str] = []  # URLs with a slash at the end: all folders below are listed

    def folder(self, url: str) -> _StoreFolder:
        """The names in a folder; none if there is no such folder."""
        known = self._folders.get(url)
        if known is None:
            if url.startswith(tuple(self._complete)):
                return _StoreFolder({}, {})
            known = self._folders[url] = self._list(url)
        return known

    def facts(self, url: str) -> FileFacts | None:
        """The facts of a file; None if there is none. Lists its folder, unless the URL is known to be a folder itself.

        Drivers give other facts about a single file, and a request a file costs more than a listing.
        """
        folder, _, name = url.rpartition("/")
        if (url in self._folders and any(self._folders[url])) or len(folder) < len(self._root):
            return None
        return self.folder(folder).files.get(name)

    def is_folder(self, url: str) -> bool:
        url = absolute(url)
        above, _, name = url.rpartition("/")
        # A web server would answer with a page, or with the bytes of a file. Others may allow listing this folder only.
        if (above in self._folders or self._is_web) and len(above) >= len(self._root):
            return name in self.folder(above).folders
        return any(self.folder(url))

    def list_below(self, url: str) -> None:
        """List a folder and all folders below it with one question. Raises InputError if there is no such bucket."""
        if f"{url}/".startswith(tuple(self._complete)):
            return
        from wdsctl.core.storage.remote import FsspecStorage

        folders: dict[str, _StoreFolder] = {url: _StoreFolder({}, {})}
        for path, facts in FsspecStorage(url).files():
            prefix, _, name = path.rpartition("/")
            folder = f"{url}/{prefix}" if prefix else url
            if folder not in folders:
                _add_folder(folders, url, folder)
            if name:
                folders[folder].files[name] = FileFacts(int(facts["size"]), etag_number(facts))
        self._folders.update(folders)
        self._complete.append(f"{url}/")

    def _list(self, url: str) -> _StoreFolder:
        if self._down is not None:
            raise self._down
        found = _StoreFolder({}, {})
        try:
            listed = self._storage.list_folder(url)
        except StorageDown as error:
            self._down = error
            raise
        for name, is_folder_, facts in listed:
            if is_folder_:
                found.folders[name] = None
            else:
                found.files[name] = FileFacts(int(facts["size"]), etag_number(facts))
        return found


def _add_folder(folders: dict[str, _StoreFolder], top: str, url: str) -> None:
    while url not in folders:
        folders[url] = _StoreFolder({}, {})
        above, _, name = url.rpartition("/")
        if above in folders or url == top:
            folders[above].folders[name] = None
            return
        _add_folder(folders, top, above)
        folders[above].folders[name] = None


_listings: dict[str, _StoreListing] = {}  # by the root of the store


def _listing_of(url: str) -> _StoreListing:
    root = _store_root(url)
    if root not in _listings:
        _listings[root] = _StoreListing(root)
    return _listings[root]


def _facts_of(url: str) -> FileFacts | None:
    return _listing_of(url).facts(absolute(url))
