"""Files that are there whole or not at all: built beside the target, synced, then renamed over it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import BinaryIO

from wdsctl.core.os_errors import translated


@contextmanager
def replacing(path: str, *, durable: bool = True) -> Iterator[str]:
    """A new name beside `path` to build a file under; when the block ends well, that file becomes `path`.

    Whatever goes wrong, `path` is what it was before and nothing is left over. OSErrors come out as ours.
    `durable=False` leaves out the sync, for files whose reader can tell that they are damaged and make them again.
    """
    folder, name = os.path.split(path)
    # Not the process's number: containers that share a folder often run one of the same number.
    draft = os.path.join(folder, f".{name}.{int.from_bytes(os.urandom(4), 'big')}.partial")
    with translated(path):
        os.makedirs(folder or ".", exist_ok=True)
        try:
            yield draft
            if durable:
                publish(draft, path)
            else:
                os.replace(draft, path)
        finally:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(draft)


def publish(draft: str, path: str) -> None:
    """Make `draft` durable and let it take the place of `path`."""
    sync(draft)
    os.replace(draft, path)
    sync(os.path.dirname(path) or ".")


def set_aside(path: str, why: str) -> str:
    """Rename a file that is of no use, so that it is kept, to the first free `PATH.WHY-N`. Returns the new path."""
    aside = next(name for n in count(1) if not os.path.lexists(name := f"{path}.{why}-{n}"))
    with translated(path):
        # SQLite would apply a journal that stayed behind to the next file of this name.
        with suppress(FileNotFoundError):
            os.rename(f"{path}-journal", f"{aside}-journal")
        os.rename(path, aside)
    return aside


def sync(path: str) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: str, write: Callable[[BinaryIO], None], *, durable: bool = True) -> None:
    """Write a file through `write`, atomically. It may read again what it has written."""
    with replacing(path, durable=durable) as draft, open(draft, "w+b") as file:
        write(file)


def write_text(path: str, text: str) -> None:
    """Write a small text file as UTF-8, atomically."""
    write_whole(path, lambda file: _write_all(file, text.encode()))


def _write_all(file: BinaryIO, data: bytes) -> None:
    file.write(data)
