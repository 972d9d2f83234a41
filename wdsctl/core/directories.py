"""Open folders without following links, and keep them open while wdsctl writes or deletes files in them.

`resolve_parent` and `os.path.realpath` resolve a path that the user named (a dataset, a destination, `--catalog`,
`--out`) once, links included. A link found below that path came with the data, or another program put it there
meanwhile. Such a link must not decide where wdsctl writes. An open folder stays the same folder if its path changes.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from wdsctl.core.errors import InputError, PermissionDenied, StorageError

#: O_PATH requires no permission to list the folder, only to traverse it. O_NOFOLLOW_ANY (macOS) covers a whole path.
_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_NOFOLLOW_ANY = getattr(os, "O_NOFOLLOW_ANY", 0)
#: The path of an open folder by its descriptor, as `OpenFolder.path_of` returns it.
_DESCRIPTOR_PATH = re.compile(r"(/proc/self/fd/\d+)(?:/(.*))?", re.DOTALL)
_HAS_PROC = os.path.isdir("/proc/self/fd")


class OpenFolder(NamedTuple):
    """An open folder. Pass `descriptor` as `dir_fd`."""

    path: str
    descriptor: int

    def path_of(self, name: str) -> str:
        """Return the path of a file in this folder, for libraries that open files by path.

        The path is valid while the folder is open. On a system without /proc it is the ordinary path, which names
        another place once the folder has been moved.
        """
        return f"/proc/self/fd/{self.descriptor}/{name}" if _HAS_PROC else os.path.join(self.path, name)

    def lstat(self, name: str) -> os.stat_result | None:
        """Stat the file with this name without following a link; None if no such file exists."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def check_in_place(self) -> None:
        """Raise StorageError WDS416 if the path now leads to another folder, to none, or is a link."""
        is_descriptor = bool(_DESCRIPTOR_PATH.fullmatch(self.path))
        try:
            now = os.stat(self.path, follow_symlinks=is_descriptor)
            is_same = os.path.samestat(now, os.fstat(self.descriptor))
        except OSError:
            is_same = False
        if not is_same:
            raise StorageError(
                "the folder was moved or replaced while wdsctl wrote to it",
                where=self.path,
                hint="move the folder back and run the same command again: finished work is kept",
                code="WDS416",
            )


def user_data_folder() -> str:
    """The folder of this user's catalogs of other roots, among them the mirrors of published catalogs.

    Raises PermissionDenied if another user has created it, or all users can write to it: what lies there is believed.
    """
    return _checked_own(_data_path(), "XDG_DATA_HOME")


def user_cache_folder() -> str:
    """The folder of files that wdsctl can compute again for this user. Raises as `user_data_folder`."""
    return _checked_own(_cache_path(), "XDG_CACHE_HOME")


def _data_path() -> str:
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(os.path.realpath(data), "wdsctl")


def _cache_path() -> str:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(os.path.realpath(cache), "wdsctl")


def _checked_own(folder: str, variable: str) -> str:
    try:
        found, above = os.lstat(folder), os.stat(os.path.dirname(folder))
    except OSError:
        return folder  # whoever creates or opens it reports why that fails
    # The owner of the folder above may be another one: `sudo` keeps HOME, and containers map users.
    is_open_to_all = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_IWOTH
    if found.st_uid not in (os.geteuid(), 0, above.st_uid) or is_open_to_all:
        raise PermissionDenied(
            "other users can change the files that wdsctl keeps for this user",
            where=folder,
            hint=f"set {variable} to a folder that only you can write to",
        )
    return folder


def is_private(folder: str) -> bool:
    """Whether only this user, users of a group, and root can write to an existing folder."""
    found = os.stat(folder, follow_symlinks=False)
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & stat.S_IWOTH


def resolve_parent(path: str) -> str:
    """Resolve the folder of a path that the user named, links included, and keep the last name.

    A link with that name will be replaced, not followed.
    """
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def join_beneath(root: str, *names: str) -> str:
    """Join `root` and names that come from data, such as the plan of an earlier run.

    Raises InputError WDS415 if the result would lie outside `root`.
    """
    name = os.path.join(*names)
    if os.path.isabs(name) or ".." in name.split("/") or "\0" in name:
        raise InputError(
            f"the name {name!r} leads out of the folder",
            where=root,
            hint="choose an empty folder as destination: the .wdsctl folder of this one may come from another program",
            code="WDS415",
        )
    return os.path.join(root, name)


@contextmanager
def open_folder(path: str, *, create: bool = False) -> Iterator[OpenFolder]:
    """Open the folder at `path` for the duration of the block. `create` makes missing folders on the way.

    Raises InputError WDS415 for a link on the way, and OSError. Takes about 25 µs.
    """
    path = os.path.abspath(path)
    handle = _open_descriptor(path, create=create)
    try:
        yield OpenFolder(path, handle)
    finally:
        os.close(handle)


#: The folders that `keep_folder_open` keeps open, by path; the last descriptor of a path counts.
_HELD: dict[str, list[int]] = {}
_HELD_LOCK = threading.Lock()


@contextmanager
def keep_folder_open(path: str) -> Iterator[bool]:
    """Keep the folder at `path` open for the block: `open_folder` begins there, for it and the folders inside.

    So a command examines the way to its folder once, and stays in that folder if another program moves it. Yields
    whether it is held: a folder that cannot be opened is not, and whoever opens a file in it reports why. Raises
    InputError WDS415 for a link on the way.
    """
    path, handle = os.path.abspath(path), -1
    with suppress(OSError):
        # Not from a held folder: another handle may hold one that was moved.
        handle = _open_descriptor(path, create=False, from_held=False)
    if handle < 0:
        yield False
        return
    with _HELD_LOCK:
        _HELD.setdefault(path, []).append(handle)
    try:
        yield True
    finally:
        with _HELD_LOCK:
            _HELD[path].remove(handle)
            if not _HELD[path]:
                del _HELD[path]
        os.close(handle)


def _open_held(path: str) -> tuple[int, str, str] | None:
    """A descriptor of the innermost held folder on the way to `path`, its path, and the rest; None without one."""
    with _HELD_LOCK:
        above = [held for held in _HELD if path == held or path.startswith(f"{held}/")]
        if not above:
            return None
        held = max(above, key=len)
        return os.dup(_HELD[held][-1]), held, path[len(held) :]


def link_error(path: str) -> InputError:
    """Build the error for a link where a folder or file was expected."""
    return InputError(
        "the output folder contains a link, and wdsctl does not write through links",
        where=path,
        hint="pass the target of the link (`--catalog DIR`, or as destination), or replace the link by a folder",
        code="WDS415",
    )


def _open_descriptor(path: str, *, create: bool, from_held: bool = True) -> int:
    held = _open_held(path) if from_held else None
    if held is not None:
        handle, at, rest = held
    elif _NOFOLLOW_ANY and not create:
        try:
            return os.open(path, _FOLDER_FLAGS | _NOFOLLOW_ANY)
        except OSError as error:
            raise _folder_error(error, path) from error
    else:
        match = _DESCRIPTOR_PATH.fullmatch(path)
        at, rest = (match[1], match[2] or "") if match else ("/", path)
        handle = os.open(at, _FOLDER_FLAGS)
    for name in filter(None, rest.split("/")):
        above, at = handle, os.path.join(at, name)
        try:
            handle = _open_child(name, above, at, create=create)
        except OSError as error:
            raise _folder_error(error, at, name, above) from error
        finally:
            os.close(above)
    return handle


def _open_child(name: str, above: int, path: str, *, create: bool) -> int:
    try:
        return os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=above)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):  # another process created it at the same time
        # With a umask of 0, all users could put catalogs and joins into the folders of this user.
        is_of_user = name == "wdsctl" and path in (_data_path(), _cache_path())
        os.mkdir(name, 0o700 if is_of_user else 0o777, dir_fd=above)
    return os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=above)


def _folder_error(error: OSError, path: str, name: str = "", above: int | None = None) -> Exception:
    """Return an error with the whole path: `link_error` if the path is a link, else an OSError."""
    is_link = error.errno == errno.ELOOP
    try:
        mode = os.stat(name or path, dir_fd=above, follow_symlinks=False).st_mode
        # What was no folder a moment ago and is one now was a link, which another process replaced.
        is_link = is_link or stat.S_ISLNK(mode) or (error.errno == errno.ENOTDIR and stat.S_ISDIR(mode))
    except FileNotFoundError:
        is_link = is_link or error.errno == errno.ENOTDIR  # as above, but removed
    except OSError:
        pass  # `error` is what the caller needs to know
    return link_error(path) if is_link else OSError(error.errno, error.strerror, path)
