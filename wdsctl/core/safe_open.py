"""Open files that data names, but only beneath folders that the user named.

A catalog, a table or a list may name any file. Only the user decides where files may be: in the folder they named,
and in those of `--allow-path DIR` or WDSCTL_ALLOW_PATH. This module opens a path folder by folder without following
links (`openat` with O_NOFOLLOW), so that no other program can replace a folder between check and use. It resolves
links first and opens their targets in the same way, so links that stay inside work. It opens regular files only:
reading a pipe could block forever.
"""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from stat import S_ISDIR, S_ISREG
from typing import BinaryIO, Protocol
from urllib.parse import unquote

from wdsctl.core.errors import PermissionDenied, StorageError, UsageError
from wdsctl.core.urls import is_url, normalize_root, redact_secrets

#: Folders outside of a dataset that its data may name, separated by commas: `/data/blobs,s3://bucket/images`.
ALLOW_PATH_VARIABLE = "WDSCTL_ALLOW_PATH"
_SEPARATOR = ","  # URLs have colons

_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
#: O_NONBLOCK: opening a FIFO in the place of a file does not wait for a writer.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LISTED_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK_ERRNOS = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})


def allow_path(*folders: str) -> None:
    """Allow data to name files beneath these folders or URLs, in this process and those it starts later.

    Raises UsageError for a folder that does not exist.
    """
    for each in folders:
        if not (is_url(each) or os.path.isdir(os.path.expanduser(each))):
            raise UsageError(
                "the folder to allow does not exist" if not os.path.exists(each) else "not a folder",
                where=each,
                hint="pass an existing folder that contains the targets of links and paths in the data",
            )
    known = [each for each in os.environ.get(ALLOW_PATH_VARIABLE, "").split(_SEPARATOR) if each]
    named = [each if is_url(each) else os.path.abspath(os.path.expanduser(each)) for each in folders]
    os.environ[ALLOW_PATH_VARIABLE] = _SEPARATOR.join(dict.fromkeys([*known, *named]))


def open_beneath(path: str, roots: Collection[str]) -> int:
    """Open a regular file for reading, and return its descriptor. `roots`: absolute folders that may contain it.

    Raises PermissionDenied WDS409 if the path leads outside of them, StorageError WDS404 if it is not a regular file,
    and OSError. Costs one system call per folder below the root; with links, also one per folder of the whole path.
    """
    return _open_last(path, roots, _open_regular)


def _open_last(path: str, roots: Collection[str], open_name: Callable[[str, list[str], str], int]) -> int:
    """Open a path beneath `roots`, without following links while it is opened. `open_name`: opens the last name."""
    check_name(path)
    root = find_root_above(path, roots)
    names = path[len(root) :].strip("/").split("/")
    try:
        if root and ".." not in names:
            try:
                return open_name(root, names, path)
            except OSError as error:
                if isinstance(error, StorageError) or error.errno not in _LINK_ERRNOS:
                    raise
        real = os.path.realpath(path)
        base = _find_base(real, roots)
        if not base:
            raise outside_error(path, real, roots)
        return open_name(base, real[len(base) :].strip("/").split("/"), path)
    except OSError as error:
        error.filename = path  # the system call only had the last name
        raise


@contextmanager
def scan_beneath(path: str, roots: Collection[str]) -> Iterator[Iterator[os.DirEntry[str]]]:
    """The entries of a folder, in any order; as `path`, each has only its name. `roots`, errors: as `open_beneath`."""
    handle = _open_last(path, roots, _open_listed)
    try:
        with os.scandir(handle) as entries:
            yield iter(entries)
    finally:
        os.close(handle)


def open_file_beneath(path: str, roots: Collection[str]) -> BinaryIO:
    """Open a file like `open_beneath`, as an unbuffered file object."""
    return open(open_beneath(path, roots), "rb", buffering=0)


def open_below(path: str, root: str) -> BinaryIO:
    """Open a file in the folder `root` as `open_beneath` does, or the file `root` itself, which the user named."""
    return open_named(path) if path == root else open(open_beneath(path, (root,)), "rb")


def open_named(path: str) -> BinaryIO:
    """Open a file that the user named as a whole, and not data. Links are followed.

    Raises StorageError WDS404 for pipes, sockets and devices, and OSError.
    """
    return open(open_named_handle(path), "rb")


def open_named_handle(path: str) -> int:
    """As `open_named`, but return a descriptor."""
    check_name(path)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise _not_regular_error(path) from error
        raise
    _check_regular(handle, path)
    return handle


def name_source(path: str) -> None:
    """Let `open_source_file` open files below a folder that the user named, or a file and those in its folder.

    Lasts as long as the process, as what the user named does. Does nothing for a URL.
    """
    if is_url(path):
        return
    path = os.path.abspath(path)
    if os.path.isdir(path):
        _source_folders.add(path)
    else:
        _source_files.add(path)
        _source_folders.add(os.path.dirname(path))


def open_source_file(path: str) -> BinaryIO:
    """Open a file of a source of `prepare` or `convert` that the user named (`name_source`).

    A file of any other folder is opened if it is in this folder itself. Raises as `open_beneath`.
    """
    path = os.path.abspath(path)
    if path in _source_files:
        return open_named(path)
    return open(open_beneath(path, (_source_root(path) or os.path.dirname(path),)), "rb")


@contextmanager
def scan_source_folder(path: str) -> Iterator[Iterator[FolderEntry]]:
    """The entries of a folder of a source, as `open_source_file` opens its files. Another folder is listed itself."""
    folder = os.path.abspath(path)
    is_named = folder in _source_folders
    with scan_beneath(folder, (folder if is_named else _source_root(folder) or folder,)) as entries:
        yield (_ListedEntry(path, entry) for entry in entries)


def walk_source_folder(root: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `os.walk`, through `scan_source_folder`. Leaves out folders that cannot be listed, and enters no links."""
    left = [root]
    while left:
        folder = left.pop()
        folders, files, links = list[str](), list[str](), set[str]()
        try:
            with scan_source_folder(folder) as entries:
                for entry in entries:
                    (folders if is_folder_entry(entry) else files).append(entry.name)
                    if entry.is_symlink():
                        links.add(entry.name)
        except OSError:
            continue
        yield folder, folders, files
        left += [os.path.join(folder, name) for name in reversed(folders) if name not in links]


def is_folder_entry(entry: FolderEntry) -> bool:
    """Whether an entry of a folder is a folder, or a link to one. False for a link that leads to itself."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _source_root(path: str) -> str:
    """The outermost folder above a path that the user named; empty if there is none."""
    return next((folder for folder in reversed([*_folders_above(path)]) if folder in _source_folders), "")


_source_folders: set[str] = set()
_source_files: set[str] = set()


class FolderOpener:
    """Opens many files beneath `root`, folder by folder. The last folder stays open until `close`.

    The caller checks whether they are regular files. Costs one system call per file.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._path = ""
        self._folder = -1

    def open(self, path: str) -> int:
        """Return a descriptor for reading. Raises as `open_beneath`."""
        folder, _, name = path.rpartition("/")
        try:
            if folder != self._path:
                self.close()
                self._folder = _open_folder_beneath(self.root, folder[len(self.root) :].strip("/"))
                self._path = folder
            return os.open(name, _FILE_FLAGS, dir_fd=self._folder)
        except OSError as error:
            if error.errno not in _LINK_ERRNOS:
                error.filename = path
                raise
        return open_beneath(path, (self.root,))

    def close(self) -> None:
        if self._path:
            os.close(self._folder)
            self._path = ""


def find_root_above(path: str, roots: Collection[str]) -> str:
    """Return the nearest of `roots` that contains the path, by its text; empty if none does."""
    return next((root for root in _folders_above(path) if root in roots), "")


def is_beneath(path: str, roots: Collection[str]) -> bool:
    """Whether a path, after resolving links, lies beneath `roots` or an allowed folder."""
    return bool(_find_base(_resolve(path), roots))


def check_beneath(path: str, root: str) -> None:
    """Raise PermissionDenied WDS409 if the path leads outside of `root` and all allowed folders."""
    if not is_beneath(path, (root,)):
        raise outside_error(path, _resolve(path), (root,))


def check_store(reference: str, root: str, where: str) -> None:
    """Raise PermissionDenied WDS409 if a store that data names lies outside of `root` and all allowed folders.

    `reference`: a path, a URL, or either of them behind `filesystem://` or `filesystem+`. URLs are compared as text.
    `where`: the file that names the store, for the message.
    """
    target = normalize_root(reference.removeprefix("filesystem+").removeprefix("filesystem://"))
    if not is_url(target):
        if not is_beneath(target, (root,)):
            error = outside_error(reference, _resolve(target), (root,))
            error.where = where or error.where
            raise error
        return
    may = [root, *os.environ.get(ALLOW_PATH_VARIABLE, "").split(_SEPARATOR)]
    if not any(is_url(each) and _url_beneath(target, f"{each.rstrip('/')}/") for each in may):
        raise outside_error(where or redact_secrets(target), target, (root,))


def _url_beneath(target: str, root: str) -> bool:
    """Whether a URL is `root`, which ends in a slash, or continues it without `..` and another fsspec layer (`::`)."""
    rest = target[len(root) :]
    turns = any(unquote(piece) == ".." for piece in rest.replace("\\", "/").split("/"))
    return f"{target}/".startswith(root) and not turns and "::" not in rest


def outside_error(path: str, real: str, roots: Iterable[str]) -> PermissionDenied:
    """Build the error for a path in the data that leads to `real`."""
    return PermissionDenied(
        f"the path leads out of {next(iter(roots), 'the dataset')}, to {real}, where data may not name files",
        where=path,
        hint=f"if you trust the data, {allow_path_hint(real)}; in a program, "
        f"`wdsctl.loader.allow_path({_folder_to_allow(real)!r})`",
        code="WDS409",
    )


def allow_path_hint(real: str) -> str:
    """Describe the option that allows a file or folder, given its resolved path."""
    return f"pass `--allow-path {shlex.quote(_folder_to_allow(real))}` to allow it"


def _folder_to_allow(real: str) -> str:
    return redact_secrets(real) if is_url(real) or os.path.isdir(real) else os.path.dirname(real)


def check_name(path: str) -> None:
    """Raise FileNotFoundError for a path that no file can have, with NUL or half of a surrogate pair."""
    try:
        is_possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _resolve(path: str) -> str:
    """The path without links; as it is if no file can have it."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return path


def _open_regular(base: str, names: list[str], path: str) -> int:
    """Open the file at the end of `names` beneath `base` without following links."""
    folder = _open_folder_beneath(base, "/".join(names[:-1]))
    try:
        handle = os.open(names[-1], _FILE_FLAGS, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise _not_regular_error(path) from error
        raise
    finally:
        os.close(folder)
    _check_regular(handle, path)
    return handle


def _open_listed(base: str, names: list[str], _path: str) -> int:
    """Open the folder at the end of `names` beneath `base` for listing."""
    if names == [""]:
        return os.open(base, _LISTED_FLAGS & ~os.O_NOFOLLOW)
    folder = _open_folder_beneath(base, "/".join(names[:-1]))
    try:
        return os.open(names[-1], _LISTED_FLAGS, dir_fd=folder)
    finally:
        os.close(folder)


def _check_regular(handle: int, path: str) -> None:
    """Close the descriptor, and raise an error, unless it is that of a regular file."""
    mode = os.fstat(handle).st_mode
    if not S_ISREG(mode):
        os.close(handle)
        if S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise _not_regular_error(path)


def _not_regular_error(path: str) -> StorageError:
    return StorageError("not a regular file", where=path, hint="replace the path by a regular file")


def _open_folder_beneath(base: str, below: str) -> int:
    """Open a folder beneath `base` without following links, and return its descriptor."""
    folder = os.open(base, _FOLDER_FLAGS)
    for name in below.split("/") if below else ():
        try:
            inner = os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


class FolderEntry(Protocol):
    """A file or folder in a folder: what `os.DirEntry` has. Entries of a store have it, too; none is a link."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    def is_dir(self) -> bool: ...
    def is_file(self) -> bool: ...
    def is_symlink(self) -> bool: ...


class _ListedEntry:
    """An entry of `scan_beneath` with its whole path."""

    __slots__ = ("is_dir", "is_file", "is_symlink", "name", "path")

    def __init__(self, folder: str, entry: os.DirEntry[str]) -> None:
        self.name = entry.name
        self.path = os.path.join(folder, entry.name)
        self.is_dir, self.is_file, self.is_symlink = entry.is_dir, entry.is_file, entry.is_symlink


def is_link_outside(entry: FolderEntry, root: str) -> bool:
    """Whether a folder entry beneath `root` is a link that leads outside of it and of all allowed folders."""
    return entry.is_symlink() and not is_beneath(entry.path, (root,))


def check_entries_beneath(entries: Iterable[FolderEntry], root: str) -> Iterator[FolderEntry]:
    """Yield the entries. Raises PermissionDenied WDS409 at a link that leads outside of `root`, unless hidden."""
    for entry in entries:
        if not entry.name.startswith(".") and entry.is_symlink():
            check_beneath(entry.path, root)
        yield entry


def _find_base(real: str, roots: Iterable[str]) -> str:
    """Return the resolved folder, a root or an allowed one, that contains a resolved path; empty if none does."""
    above = (real, *_folders_above(real))
    # Most roots contain no links: try them unresolved first, to save resolving them for each file.
    may = {*roots, *_allowed(os.environ.get(ALLOW_PATH_VARIABLE, ""))}
    found = next((folder for folder in above if folder in may), "")
    if found:
        return found
    resolved = set(map(os.path.realpath, roots))
    return next((folder for folder in above if folder in resolved), "")


@lru_cache(maxsize=4)
def _allowed(folders: str) -> tuple[str, ...]:
    return tuple(os.path.realpath(folder) for folder in folders.split(_SEPARATOR) if folder and not is_url(folder))


def _folders_above(path: str) -> Iterable[str]:
    """Yield the folders that contain a path, the nearest first."""
    while path != (path := os.path.dirname(path)) and path:
        yield path
