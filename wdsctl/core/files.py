"""All that is written and deleted, without following a link, and files that are there whole or not at all.

A file is built beside its place, synced, and renamed over what is there. Every path given here is reached by
`wdsctl/core/folders.py`: a link on the way is refused, and what the user named is to be `resolved` before.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import BinaryIO, NamedTuple

from wdsctl.core.errors import InputError, WdsctlError
from wdsctl.core.folders import Folder, held, linked
from wdsctl.core.os_errors import translated

_DEEPEST = 100  # folders in one another that are removed: ours are three deep, and descriptors are few


class Draft(NamedTuple):
    """A file, or a folder of files, that is being made beside its place. `path`: to open it by."""

    folder: Folder
    name: str
    target: str

    @property
    def path(self) -> str:
        return self.folder.at(self.name)

    def publish(self, *, durable: bool = True) -> None:
        """Make it durable and let it take its place. Raises StorageError WDS416 where the folder is not there now."""
        self.folder.check()
        made = os.stat(self.name, dir_fd=self.folder.handle, follow_symlinks=False)
        if not (stat.S_ISREG(made.st_mode) or stat.S_ISDIR(made.st_mode)):
            raise linked(os.path.join(self.folder.path, self.name))
        if durable:
            _sync(self.folder, self.name)
        if stat.S_ISDIR(made.st_mode):
            _remove(self.folder, self.target)
        handle = self.folder.handle
        os.replace(self.name, self.target, src_dir_fd=handle, dst_dir_fd=handle)
        if durable:
            _sync(self.folder, ".")


@contextmanager
def drafted(path: str) -> Iterator[Draft]:
    """A draft of the file or folder `path`, which is made in the block, and is gone after it unless it was published.

    OSErrors come out as ours. The folder of `path` is made.
    """
    above, name = os.path.split(os.path.abspath(path))
    with translated(path), held(above, make=True) as folder:
        # Not the process's number: containers that share a folder often run one of the same number.
        draft = Draft(folder, f".{name}.{int.from_bytes(os.urandom(4), 'big')}.partial", name)
        try:
            yield draft
        except WdsctlError as error:
            if error.where.startswith(draft.path):
                error.where = path + error.where.removeprefix(draft.path)
            raise
        finally:
            _remove(folder, draft.name)


@contextmanager
def replacing(path: str, *, durable: bool = True) -> Iterator[str]:
    """A new name beside `path` to build a file under; when the block ends well, that file becomes `path`.

    Whatever goes wrong, `path` is what it was before and nothing is left over. OSErrors come out as ours.
    `durable=False` leaves out the sync, for files whose reader can tell that they are damaged and make them again.
    """
    with drafted(path) as draft:
        yield draft.path
        draft.publish(durable=durable)


def write_whole(path: str, write: Callable[[BinaryIO], None], *, durable: bool = True) -> None:
    """Write a file through `write`, atomically. It may read again what it has written."""
    with replacing(path, durable=durable) as draft, open(draft, "x+b") as file:
        write(file)


def write_text(path: str, text: str) -> None:
    """Write a small text file as UTF-8, atomically."""
    write_whole(path, lambda file: _write_all(file, text.encode()))


def make_folder(path: str) -> None:
    """Make a folder, and those above it; it may be there."""
    with translated(path), held(path, make=True):
        pass


def check_folder(path: str) -> None:
    """Raise InputError WDS415 where a link stands on the way to a folder that is there."""
    with translated(path), held(path):
        pass


def made_in(folder: Folder, name: str) -> int:
    """The descriptor of a new file in a folder, to read and write. Raises FileExistsError where anything is there."""
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder.handle)


def remove_file(path: str) -> None:
    """Remove a file, or a link itself, that may be gone already."""
    above, name = os.path.split(os.path.abspath(path))
    with translated(path, "remove"), suppress(FileNotFoundError), held(above) as folder:
        unlink_in(folder, name)


def remove_tree(path: str) -> None:
    """Remove a folder with all that is in it, or a file, or a link itself. What the system does not let go stays."""
    above, name = os.path.split(os.path.abspath(path))
    with translated(path, "remove"), suppress(FileNotFoundError), held(above) as folder:
        _remove(folder, name)


def remove_empty(path: str) -> None:
    """Remove an empty folder. Raises OSError where it is not there, or not empty."""
    above, name = os.path.split(os.path.abspath(path))
    with held(above) as folder:
        rmdir_in(folder, name)


def set_aside(path: str, why: str) -> str:
    """Rename a file that is of no use, so that it is kept, to the first free `PATH.WHY-N`. Returns the new path."""
    above, name = os.path.split(os.path.abspath(path))
    with translated(path), held(above) as folder:
        aside = next(each for n in count(1) if folder.look(each := f"{name}.{why}-{n}") is None)
        # SQLite would apply a journal that stayed behind to the next file of this name.
        with suppress(FileNotFoundError):
            rename_in(folder, f"{name}-journal", f"{aside}-journal")
        rename_in(folder, name, aside)
    return os.path.join(os.path.dirname(path), aside)


def keep_as(path: str, other: str) -> None:
    """Give a file a second name in its folder, or copy it there where the file system has no hard links."""
    above, name = os.path.split(os.path.abspath(path))
    second = os.path.basename(other)
    with translated(path), held(above) as folder:
        try:
            link_in(folder, name, second)
        except OSError:
            _copy(folder, name, second)


def link_in(folder: Folder, name: str, other: str) -> None:
    """Give a file a second name in its folder. Raises FileExistsError where anything has that name, and OSError."""
    os.link(name, other, src_dir_fd=folder.handle, dst_dir_fd=folder.handle, follow_symlinks=False)


def touch_in(folder: Folder, name: str) -> None:
    """Note that a file was used just now. Raises OSError."""
    os.utime(name, dir_fd=folder.handle, follow_symlinks=False)


def rmdir_in(folder: Folder, name: str) -> None:
    """Remove an empty folder. Raises OSError where it is not there, or not empty."""
    os.rmdir(name, dir_fd=folder.handle)


def unlink_in(folder: Folder, name: str) -> None:
    """Remove a file, or a link itself, that may be gone already."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder.handle)


def move(source: Folder, target: Folder, name: str) -> None:
    """Move a file from one folder to another one."""
    os.rename(name, name, src_dir_fd=source.handle, dst_dir_fd=target.handle)


def touch(path: str) -> None:
    """Note that a file was used just now. Raises OSError."""
    above, name = os.path.split(os.path.abspath(path))
    with held(above) as folder:
        touch_in(folder, name)


def read_in(folder: Folder, name: str) -> int:
    """The descriptor of a file in a folder, to read. Raises InputError WDS415 of a link, WDS417 of a pipe, OSError.

    Not to wait for whoever writes into a pipe.
    """
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder.handle)
    except OSError as error:
        found = folder.look(name)
        if found is not None and stat.S_ISLNK(found.st_mode):
            raise linked(os.path.join(folder.path, name)) from error
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.path.join(folder.path, name))
        raise no_file(os.path.join(folder.path, name))
    return handle


def open_own(path: str) -> int:
    """The descriptor of a file of ours, to read, reached without following any link. Raises as `read_in`."""
    above, name = os.path.split(os.path.abspath(path))
    with held(above) as folder:
        return read_in(folder, name)


def no_file(path: str) -> InputError:
    """What is raised where a pipe, a device or a folder stands in the place of a file."""
    return InputError(
        "it is no regular file",
        where=path,
        hint="look at what put it there, and move it away",
        code="WDS417",
    )


def sync(path: str) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync(folder: Folder, name: str) -> None:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder.handle)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def rename_in(folder: Folder, name: str, other: str) -> None:
    """Give a file another name in its folder, over what has that name."""
    os.replace(name, other, src_dir_fd=folder.handle, dst_dir_fd=folder.handle)


def _remove(folder: Folder, name: str, depth: int = 0) -> None:
    """Remove what has this name, if anything has. Links are removed and never entered."""
    found = folder.look(name)
    if found is None:
        return
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=folder.handle)
            return
    if depth == _DEEPEST:
        return
    with suppress(OSError):  # a folder of somebody else's, or a file that a server keeps for who has it open
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder.handle)
        try:
            below = Folder(os.path.join(folder.path, name), handle)
            for each in os.listdir(handle):
                with suppress(OSError):  # what is left is told by the folder's not being empty
                    _remove(below, each, depth + 1)
        finally:
            os.close(handle)
        os.rmdir(name, dir_fd=folder.handle)


def _copy(folder: Folder, name: str, other: str) -> None:
    with open(read_in(folder, name), "rb") as source, open(made_in(folder, other), "wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
        was = os.fstat(source.fileno())
        file.flush()
        os.fchmod(file.fileno(), stat.S_IMODE(was.st_mode))
        os.utime(file.fileno(), ns=(was.st_atime_ns, was.st_mtime_ns))
        os.fsync(file.fileno())


def _write_all(file: BinaryIO, data: bytes) -> None:
    file.write(data)
