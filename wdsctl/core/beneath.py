"""The door to files that data names: they lie beneath the folder that the user named, whatever links stand on the way.

A catalog, a table or a list says which file it means; where files may be, only the user says: in the folder they named,
and in those of `--allow-path DIR` or WDSCTL_ALLOW_PATH. A file is opened folder by folder, none of them through a link
(`openat` with O_NOFOLLOW), so that nobody can put one in its place between a check and its use. Where there are links,
they are resolved first, and what they lead to is opened in the same way: links that stay inside are followed.
"""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from stat import S_ISDIR, S_ISREG
from typing import IO
from urllib.parse import unquote

from wdsctl.core.errors import PermissionDenied, StorageError, UsageError
from wdsctl.core.urls import is_url, plain, shown

#: Folders outside of a dataset that its data may name, with commas between them: `/data/blobs,s3://bucket/images`.
VARIABLE = "WDSCTL_ALLOW_PATH"
_BETWEEN = ","  # URLs have colons

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
#: A FIFO that stands in the place of a file is opened without waiting for somebody to write to it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_IS_LINK = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})


def allow_path(*folders: str) -> None:
    """From now on, data may also name what lies beneath these folders or URLs: in this process and those it starts.

    Raises UsageError for a folder that is not there.
    """
    for each in folders:
        if not (is_url(each) or os.path.isdir(os.path.expanduser(each))):
            raise UsageError(
                "there is no folder to allow" if not os.path.exists(each) else "this is no folder",
                where=each,
                hint="name the folder that links and paths in the data lead into",
            )
    known = [each for each in os.environ.get(VARIABLE, "").split(_BETWEEN) if each]
    named = [each if is_url(each) else os.path.abspath(os.path.expanduser(each)) for each in folders]
    os.environ[VARIABLE] = _BETWEEN.join(dict.fromkeys([*known, *named]))


def open_beneath(path: str, roots: Collection[str]) -> int:
    """A descriptor of a regular file, to be read. `roots`: the folders that it may lie beneath, and absolute.

    Raises PermissionDenied WDS409 where it leads out of them, StorageError WDS404 where it is no regular file, OSError.
    Cost: a call of the system a folder below the root; with links, as many again as the path has folders.
    """
    root = root_above(path, roots)
    names = path[len(root) :].strip("/").split("/")
    try:
        if root and ".." not in names:
            try:
                return _opened(root, names, path)
            except OSError as error:
                if isinstance(error, StorageError) or error.errno not in _IS_LINK:
                    raise
        real = os.path.realpath(path)
        base = _base(real, roots)
        if not base:
            raise leads_out(path, real, roots)
        return _opened(base, real[len(base) :].strip("/").split("/"), path)
    except OSError as error:
        error.filename = path  # of the whole path the system was told the last piece
        raise


def open_file_beneath(path: str, roots: Collection[str]) -> IO[bytes]:
    """The same as a file without a buffer."""
    return open(open_beneath(path, roots), "rb", buffering=0)


class FolderReader:
    """Opens many files beneath `root`, mostly of one folder after the other: the last one stays open until `close`.

    Whether they are regular files is left to whoever reads them. Cost: one call of the system a file.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._path = ""
        self._folder = -1

    def open(self, path: str) -> int:
        """A descriptor, to be read. Raises as `open_beneath`."""
        folder, _, name = path.rpartition("/")
        try:
            if folder != self._path:
                self.close()
                self._folder = _opened_folder(self._root, folder[len(self._root) :].strip("/"))
                self._path = folder
            return os.open(name, _FILE, dir_fd=self._folder)
        except OSError as error:
            if error.errno not in _IS_LINK:
                error.filename = path
                raise
        return open_beneath(path, (self._root,))

    def close(self) -> None:
        if self._path:
            os.close(self._folder)
            self._path = ""


def root_above(path: str, roots: Collection[str]) -> str:
    """The one of these folders that the path lies beneath by its text, the nearest; empty where there is none."""
    return next((root for root in _above(path) if root in roots), "")


def is_beneath(path: str, roots: Collection[str]) -> bool:
    """Whether a path that may have links in it leads to what lies beneath `roots`, or is allowed."""
    return bool(_base(os.path.realpath(path), roots))


def check_beneath(path: str, root: str) -> None:
    """Raise PermissionDenied WDS409 where the path leads out of `root`, to nothing that is allowed."""
    if not is_beneath(path, (root,)):
        raise leads_out(path, os.path.realpath(path), (root,))


def check_store(reference: str, root: str, where: str) -> None:
    """The same for a store that data names: a path, a URL, or one of these behind `filesystem://` or `filesystem+`.

    A URL is beneath `root` by its text. `where`: what names it.
    """
    target = plain(reference.removeprefix("filesystem+").removeprefix("filesystem://"))
    if not is_url(target):
        if not is_beneath(target, (root,)):
            error = leads_out(reference, os.path.realpath(target), (root,))
            error.where = where or error.where
            raise error
        return
    may = [root, *os.environ.get(VARIABLE, "").split(_BETWEEN)]
    if not any(is_url(each) and _url_beneath(target, f"{each.rstrip('/')}/") for each in may):
        raise leads_out(where or shown(target), target, (root,))


def _url_beneath(target: str, root: str) -> bool:
    """Whether a URL goes on from `root` without turning back, or to another layer of fsspec's (`::`)."""
    rest = target[len(root) :]
    turns = any(unquote(piece) == ".." for piece in rest.replace("\\", "/").split("/"))
    return target.startswith(root) and not turns and "::" not in rest


def leads_out(path: str, real: str, roots: Iterable[str]) -> PermissionDenied:
    """What is said of a path of the data that leads to `real`."""
    return PermissionDenied(
        f"this leads out of {next(iter(roots), 'the dataset')}, to {real}: data does not decide where files may be",
        where=path,
        hint=f"where you mean it, {way_in(real)}; in a program, `wdsctl.loader.allow_path({_folder_of(real)!r})` does",
        code="WDS409",
    )


def way_in(real: str) -> str:
    """What allows a file or folder at this resolved path, in words."""
    return f"`--allow-path {shlex.quote(_folder_of(real))}` lets it in"


def _folder_of(real: str) -> str:
    return shown(real) if is_url(real) or os.path.isdir(real) else os.path.dirname(real)


def _opened(base: str, names: list[str], path: str) -> int:
    """The file at the end of `names` beneath `base`, of which none is followed if it is a link."""
    folder = _opened_folder(base, "/".join(names[:-1]))
    try:
        handle = os.open(names[-1], _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    mode = os.fstat(handle).st_mode
    if not S_ISREG(mode):
        os.close(handle)
        if S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise StorageError("this is no regular file", where=path, hint="put the file there that is meant")
    return handle


def _opened_folder(base: str, below: str) -> int:
    """A descriptor of a folder beneath `base`, in whose path no link is followed."""
    folder = os.open(base, _FOLDER)
    for name in below.split("/") if below else ():
        try:
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def leads_outside(entry: os.DirEntry[str], root: str) -> bool:
    """Whether an entry of a folder beneath `root` is a link that leads out of it, to nothing that is allowed."""
    return entry.is_symlink() and not is_beneath(entry.path, (root,))


def inside_only(entries: Iterable[os.DirEntry[str]], root: str) -> Iterator[os.DirEntry[str]]:
    """The same entries. Raises PermissionDenied WDS409 at one that leads out of `root`; hidden ones do not count."""
    for entry in entries:
        if not entry.name.startswith(".") and entry.is_symlink():
            check_beneath(entry.path, root)
        yield entry


def _base(real: str, roots: Iterable[str]) -> str:
    """The folder that a resolved path lies beneath, resolved, of those that it may; empty where it lies outside."""
    above = (real, *_above(real))
    # Mostly a root has no link in its own path, and need not be resolved for each file.
    may = {*roots, *_allowed(os.environ.get(VARIABLE, ""))}
    found = next((folder for folder in above if folder in may), "")
    if found:
        return found
    resolved = set(map(os.path.realpath, roots))
    return next((folder for folder in above if folder in resolved), "")


@lru_cache(maxsize=4)
def _allowed(folders: str) -> tuple[str, ...]:
    return tuple(os.path.realpath(folder) for folder in folders.split(_BETWEEN) if folder and not is_url(folder))


def _above(path: str) -> Iterable[str]:
    """The folders above a path, the nearest first."""
    while path != (path := os.path.dirname(path)) and path:
        yield path
