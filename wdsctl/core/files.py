"""Write and delete files atomically, without following links.

A writer builds a file under a temporary name, syncs it, and renames it to its final name. Every path is opened
through `wdsctl/core/directories.py`, which refuses links; callers first resolve paths that the user named.

`encode_checked` writes JSON facts and bytes with a checksum, for result files that are not synced. Layout: bytes 0-3,
the CRC-32 of the rest; bytes 4-11, the length of the facts as u64; the facts; the bytes. Other programs may write to
the dataset's folder, so contents that do not fit count as damage, like a wrong checksum.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

from wdsctl.core.directories import OpenFolder, link_error, open_folder
from wdsctl.core.errors import InputError, WdsctlError, translate_os_errors
from wdsctl.core.file_limits import MAX_TABLE_BYTES, read_whole
from wdsctl.core.json_text import read_json

_MAX_REMOVE_DEPTH = 100  # nested folders; wdsctl's own are three deep, and descriptors are limited


class FileDraft(NamedTuple):
    """A file or folder under construction beside its target. Open it by `path`."""

    folder: OpenFolder
    name: str
    target: str

    @property
    def path(self) -> str:
        return self.folder.path_of(self.name)

    def publish(self, *, durable: bool = True) -> None:
        """Sync the draft and rename it to its target.

        Raises StorageError WDS416 if the folder was moved or replaced.
        """
        self.folder.check_in_place()
        status = os.stat(self.name, dir_fd=self.folder.descriptor, follow_symlinks=False)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise link_error(os.path.join(self.folder.path, self.name))
        if durable:
            _fsync_in(self.folder, self.name)
        if stat.S_ISDIR(status.st_mode):
            _remove(self.folder, self.target)
        handle = self.folder.descriptor
        os.replace(self.name, self.target, src_dir_fd=handle, dst_dir_fd=handle)
        if durable:
            _fsync_in(self.folder, ".")


@contextmanager
def open_file_draft(path: str) -> Iterator[FileDraft]:
    """Create a draft of the file or folder `path`, and remove it after the block unless it was published.

    Creates the folder of `path`. Raises OSErrors as WdsctlErrors.
    """
    above, name = os.path.split(os.path.abspath(path))
    with translate_os_errors(path), open_folder(above, create=True) as folder:
        # Random, not the process ID: containers that share a folder often have equal process IDs.
        draft = FileDraft(folder, f".{name}.{int.from_bytes(os.urandom(4), 'big')}.partial", name)
        try:
            yield draft
        except WdsctlError as error:
            if error.where.startswith(draft.path):
                error.where = path + error.where.removeprefix(draft.path)
            raise
        finally:
            _remove(folder, draft.name)


@contextmanager
def replace_atomically(path: str, *, durable: bool = True) -> Iterator[str]:
    """Yield a temporary path beside `path`; if the block succeeds, rename that file to `path`.

    If the block fails, `path` is unchanged and the temporary file is removed. Raises OSErrors as WdsctlErrors.
    `durable=False` skips the sync, for files whose reader detects damage and can compute them again.
    """
    with open_file_draft(path) as draft:
        yield draft.path
        draft.publish(durable=durable)


def write_atomically(path: str, write: Callable[[BinaryIO], None], *, durable: bool = True) -> None:
    """Write a file through `write`, atomically. `write` may also read what it has written."""
    with replace_atomically(path, durable=durable) as draft, open(draft, "x+b") as file:
        write(file)


def write_pieces(path: str, pieces: Iterable[BytesLike], *, durable: bool = True) -> None:
    """Write a file of these pieces, atomically. Takes each piece when the one before was written."""
    write_atomically(path, lambda file: file.writelines(pieces), durable=durable)


def write_text(path: str, text: str) -> None:
    """Write a small text file as UTF-8, atomically."""
    write_pieces(path, [text.encode()])


def make_folder(path: str) -> None:
    """Create a folder and its parents; it may already exist."""
    with translate_os_errors(path), open_folder(path, create=True):
        pass


def check_folder(path: str) -> None:
    """Raise InputError WDS415 if a link stands on the way to an existing folder."""
    with translate_os_errors(path), open_folder(path):
        pass


def create_in(folder: OpenFolder, name: str) -> int:
    """Create a file in a folder, and return a descriptor for reading and writing.

    Raises FileExistsError if the name is taken.
    """
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder.descriptor)


def remove_file(path: str) -> None:
    """Remove a file, or a link itself. It may already be gone."""
    above, name = os.path.split(os.path.abspath(path))
    with translate_os_errors(path, "remove"), suppress(FileNotFoundError), open_folder(above) as folder:
        unlink_in(folder, name)


def remove_tree(path: str) -> None:
    """Remove a folder and its contents, or a file, or a link itself. Entries that the system keeps stay."""
    above, name = os.path.split(os.path.abspath(path))
    with translate_os_errors(path, "remove"), suppress(FileNotFoundError), open_folder(above) as folder:
        _remove(folder, name)


def remove_empty_folder(path: str) -> None:
    """Remove an empty folder. Raises OSError if it does not exist or is not empty."""
    above, name = os.path.split(os.path.abspath(path))
    with open_folder(above) as folder:
        rmdir_in(folder, name)


def set_aside(path: str, reason: str) -> str:
    """Keep an unusable file under the first free name `PATH.REASON-N`. Returns the new path."""
    above, name = os.path.split(os.path.abspath(path))
    with translate_os_errors(path), open_folder(above) as folder:
        aside = next(each for n in count(1) if folder.lstat(each := f"{name}.{reason}-{n}") is None)
        # SQLite would apply a remaining journal to the next file with this name.
        with suppress(FileNotFoundError):
            rename_in(folder, f"{name}-journal", f"{aside}-journal")
        rename_in(folder, name, aside)
    return os.path.join(os.path.dirname(path), aside)


def link_or_copy(path: str, other: str) -> None:
    """Give a file a second name in its folder, or copy it if the file system has no hard links."""
    above, name = os.path.split(os.path.abspath(path))
    second = os.path.basename(other)
    with translate_os_errors(path), open_folder(above) as folder:
        try:
            link_in(folder, name, second)
        except OSError:
            _copy(folder, name, second)


def link_or_copy_into(path: str, folder: str) -> str:
    """Give a file the same name in another folder, by a hard link or, across file systems, as a copy.

    Replaces a file that has the name. Returns the new path.
    """
    above, name = os.path.split(os.path.abspath(path))
    target = os.path.join(folder, name)
    with open_file_draft(target) as draft:
        with open_folder(above) as source:
            try:
                os.link(name, draft.name, src_dir_fd=source.descriptor, dst_dir_fd=draft.folder.descriptor)
            except OSError:
                _copy_between(source, name, draft.folder, draft.name)
        draft.publish(durable=False)
    return target


def link_in(folder: OpenFolder, name: str, other: str) -> None:
    """Create a hard link in the same folder. Raises FileExistsError if the name is taken, and OSError."""
    os.link(name, other, src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor, follow_symlinks=False)


def touch_in(folder: OpenFolder, name: str) -> None:
    """Set the file's times to now. Raises OSError."""
    os.utime(name, dir_fd=folder.descriptor, follow_symlinks=False)


def rmdir_in(folder: OpenFolder, name: str) -> None:
    """Remove an empty folder. Raises OSError if it does not exist or is not empty."""
    os.rmdir(name, dir_fd=folder.descriptor)


def unlink_in(folder: OpenFolder, name: str) -> None:
    """Remove a file, or a link itself. It may already be gone."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder.descriptor)


def move_file(source: OpenFolder, target: OpenFolder, name: str) -> None:
    """Move a file to another folder."""
    os.rename(name, name, src_dir_fd=source.descriptor, dst_dir_fd=target.descriptor)


def move_path(path: str, target: str) -> None:
    """Move a file to a path on the same file system, in place of a file there. Raises OSError."""
    (above, name), (other_above, other) = (os.path.split(os.path.abspath(each)) for each in (path, target))
    with open_folder(above) as source, open_folder(other_above, create=True) as folder:
        os.replace(name, other, src_dir_fd=source.descriptor, dst_dir_fd=folder.descriptor)


def copy_file(path: str, target: str) -> None:
    """Copy a file with its times, atomically. Raises OSErrors as WdsctlErrors."""
    above, name = os.path.split(os.path.abspath(path))
    with open_file_draft(target) as draft:
        with open_folder(above) as source:
            _copy_between(source, name, draft.folder, draft.name)
        draft.publish(durable=False)


def touch(path: str) -> None:
    """Set the file's times to now. Raises OSError."""
    above, name = os.path.split(os.path.abspath(path))
    with open_folder(above) as folder:
        touch_in(folder, name)


def open_in(folder: OpenFolder, name: str) -> int:
    """Open a file in a folder for reading, and return its descriptor.

    Raises InputError WDS415 for a link and WDS417 for a pipe, socket or device, and OSError. Does not block on a pipe
    without a writer.
    """
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder.descriptor)
    except OSError as error:
        found = folder.lstat(name)
        if found is not None and stat.S_ISLNK(found.st_mode):
            raise link_error(os.path.join(folder.path, name)) from error
        if error.errno == errno.ENXIO:  # a socket
            raise not_regular_error(os.path.join(folder.path, name)) from error
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.path.join(folder.path, name))
        raise not_regular_error(os.path.join(folder.path, name))
    return handle


def open_without_links(path: str) -> int:
    """Open a file of wdsctl's own for reading without following links. Raises as `open_in`."""
    above, name = os.path.split(os.path.abspath(path))
    with open_folder(above) as folder:
        return open_in(folder, name)


def open_own(path: str) -> BinaryIO:
    """Open a file of wdsctl's own for reading without following links, as a file object. Raises as `open_in`."""
    return open(open_without_links(path), "rb")


def not_regular_error(path: str) -> InputError:
    """Build the error for a pipe, a device or a folder in the place of a file."""
    return InputError(
        "not a regular file",
        where=path,
        hint="move the file elsewhere",
        code="WDS417",
    )


def fsync_path(path: str) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _fsync_in(folder: OpenFolder, name: str) -> None:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder.descriptor)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_all(descriptor: int, data: bytes) -> None:
    """Write bytes to a descriptor, however few the system takes at once. Raises OSError."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def rename_in(folder: OpenFolder, name: str, other: str) -> None:
    """Rename a file within its folder, and replace a file that has the new name."""
    os.replace(name, other, src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)


def _remove(folder: OpenFolder, name: str, depth: int = 0) -> None:
    """Remove the entry with this name, if it exists. Links are removed, never followed."""
    found = folder.lstat(name)
    if found is None:
        return
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=folder.descriptor)
            return
    if depth == _MAX_REMOVE_DEPTH:
        return
    with suppress(OSError):  # no permission, or a file that a file server keeps while a client has it open
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder.descriptor)
        try:
            below = OpenFolder(os.path.join(folder.path, name), handle)
            for each in os.listdir(handle):
                with suppress(OSError):  # `rmdir` fails if an entry is left
                    _remove(below, each, depth + 1)
        finally:
            os.close(handle)
        os.rmdir(name, dir_fd=folder.descriptor)


def _copy(folder: OpenFolder, name: str, other: str) -> None:
    _copy_between(folder, name, folder, other)


def _copy_between(folder: OpenFolder, name: str, other_folder: OpenFolder, other: str) -> None:
    with open(open_in(folder, name), "rb") as source, open(create_in(other_folder, other), "wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
        was = os.fstat(source.fileno())
        file.flush()
        os.fchmod(file.fileno(), stat.S_IMODE(was.st_mode))
        os.utime(file.fileno(), ns=(was.st_atime_ns, was.st_mtime_ns))
        os.fsync(file.fileno())


CRC_BYTES = 4  # bytes at the start: the CRC-32 of the rest
LENGTH_BYTES = 8  # bytes of the length of the facts

#: What reading facts raises if they do not have the expected form.
MALFORMED_ERRORS = (
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
    MemoryError,
)

BytesLike = bytes | memoryview


def encode_checked(facts: Mapping[str, Any], pieces: Iterable[BytesLike] = ()) -> list[BytesLike]:
    """Encode facts and the pieces that follow them, as buffers to write in this order."""
    head = json.dumps(facts, separators=(",", ":")).encode()
    rest = [len(head).to_bytes(LENGTH_BYTES, "little"), head, *pieces]
    check = 0
    for piece in rest:
        check = crc32(piece, check)
    return [check.to_bytes(CRC_BYTES, "little"), *rest]


def decode_checked(data: bytes) -> tuple[dict[str, Any], memoryview] | None:
    """Return the facts and the bytes that follow them; None if the data is damaged."""
    rest = memoryview(data)[CRC_BYTES:]
    if crc32(rest).to_bytes(CRC_BYTES, "little") != data[:CRC_BYTES] or len(rest) < LENGTH_BYTES:
        return None
    at = LENGTH_BYTES + int.from_bytes(rest[:LENGTH_BYTES], "little")
    try:
        facts = read_json(bytes(rest[LENGTH_BYTES:at]))
    except MALFORMED_ERRORS:
        return None
    return (facts, rest[at:]) if isinstance(facts, dict) else None


def save_checked(path: str, facts: Mapping[str, Any], pieces: Iterable[BytesLike] = ()) -> None:
    write_pieces(path, encode_checked(facts, pieces), durable=False)


def load_checked(path: str) -> tuple[dict[str, Any], memoryview] | None:
    """Return what `save_checked` wrote; None if the file is damaged."""
    with translate_os_errors(path, "read"), open(open_without_links(path), "rb") as file:
        return decode_checked(read_whole(file, path, MAX_TABLE_BYTES))
