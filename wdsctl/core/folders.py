"""The way to all that is written and deleted: folders, reached without following any link and held open.

What the user named (a dataset, a destination, `--catalog`, `--out`) is resolved once, links and all, by `resolved`.
From there on there are no links on the way: one that stands there came with the data, or was put there meanwhile, and
what it points to is nobody's to write to. A folder that is held stays the same folder, whatever becomes of its path.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from wdsctl.core.errors import InputError, StorageError

#: O_PATH needs no right to list a folder, only to pass through it; O_NOFOLLOW_ANY is macOS's, for a whole path.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_ANY = getattr(os, "O_NOFOLLOW_ANY", 0)
#: A folder of this process by its descriptor, as `Folder.at` names it.
_HELD = re.compile(r"(/proc/self/fd/\d+)(?:/(.*))?", re.DOTALL)
_HAS_PROC = os.path.isdir("/proc/self/fd")


class Folder(NamedTuple):
    """A folder that is held open. `handle`: for `dir_fd`."""

    path: str
    handle: int

    def at(self, name: str) -> str:
        """The path of a file in this very folder, for what opens files by path while the folder is held.

        Where the system has no /proc it is the plain path, which may lead elsewhere once the folder is moved.
        """
        return f"/proc/self/fd/{self.handle}/{name}" if _HAS_PROC else os.path.join(self.path, name)

    def look(self, name: str) -> os.stat_result | None:
        """The file of this name itself, a link too; None where there is none."""
        try:
            return os.stat(name, dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def check(self) -> None:
        """Raise StorageError WDS416 where the path has come to lead to another folder, or to none."""
        try:
            with held(self.path) as now:
                is_same = os.path.samestat(os.fstat(now.handle), os.fstat(self.handle))
        except (OSError, InputError):
            is_same = False
        if not is_same:
            raise StorageError(
                "the folder was moved or replaced while it was written to",
                where=self.path,
                hint="put it back, and run the same command again: finished work is kept",
                code="WDS416",
            )


def resolved(path: str) -> str:
    """The path of a file that the user named, with its folder resolved, links and all.

    The last name stays as it is: a link there is replaced, not followed.
    """
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def inside(root: str, *names: str) -> str:
    """The path below `root` that data names, such as the plan of an earlier run.

    Raises InputError WDS415 where it would lead out of `root`.
    """
    name = os.path.join(*names)
    if os.path.isabs(name) or ".." in name.split("/") or "\0" in name:
        raise InputError(
            f"the name {name!r} would lead out of the folder",
            where=root,
            hint="look at where the folder's .wdsctl comes from; an empty folder as destination has none",
            code="WDS415",
        )
    return os.path.join(root, name)


@contextmanager
def held(path: str, *, make: bool = False) -> Iterator[Folder]:
    """The folder at `path`, for the block. `make`: it and those above it are made where they are missing.

    Raises InputError WDS415 where a link stands on the way, and OSError. Some 25 µs.
    """
    path = os.path.abspath(path)
    handle = _opened(path, make=make)
    try:
        yield Folder(path, handle)
    finally:
        os.close(handle)


def linked(path: str) -> InputError:
    """What is raised where a link stands."""
    return InputError(
        "a link stands where wdsctl keeps its files or writes, and is not followed",
        where=path,
        hint="name the folder that is meant (`--catalog DIR`, or as destination), or put a real one in its place",
        code="WDS415",
    )


def _opened(path: str, *, make: bool) -> int:
    if _ANY and not make:
        try:
            return os.open(path, _PASS | _ANY)
        except OSError as error:
            raise _told(error, path) from error
    start, names = _start(path)
    handle = os.open(start, _PASS)
    at = start
    for name in names:
        above, at = handle, os.path.join(at, name)
        try:
            handle = _entered(name, above, make=make)
        except OSError as error:
            raise _told(error, at, name, above) from error
        finally:
            os.close(above)
    return handle


def _start(path: str) -> tuple[str, list[str]]:
    match = _HELD.fullmatch(path)
    start, rest = (match[1], match[2] or "") if match else ("/", path)
    return start, [name for name in rest.split("/") if name]


def _entered(name: str, above: int, *, make: bool) -> int:
    try:
        return os.open(name, _PASS | os.O_NOFOLLOW, dir_fd=above)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another process made it at the same time
        os.mkdir(name, dir_fd=above)
    return os.open(name, _PASS | os.O_NOFOLLOW, dir_fd=above)


def _told(error: OSError, path: str, name: str = "", above: int | None = None) -> Exception:
    """The error with the whole path, or that a link stands there."""
    is_link = error.errno == errno.ELOOP
    with suppress(OSError):
        is_link = is_link or stat.S_ISLNK(os.stat(name or path, dir_fd=above, follow_symlinks=False).st_mode)
    return linked(path) if is_link else OSError(error.errno, error.strerror, path)
