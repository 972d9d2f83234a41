"""From the system's errno to an error that says where, and one thing to try. One place, so that all verbs agree."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from wdsctl.core.errors import PermissionDenied, StorageDown, StorageError, WdsctlError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
#: Of the way to the storage, or of the process: never of one file. EIO is not among them: a bad sector gives it too.
_DOWN = frozenset(
    [
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EMFILE,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENFILE,
        errno.ENODEV,
        errno.ENOMEM,
        errno.ENOTCONN,
        errno.ENXIO,
        errno.ESHUTDOWN,
        errno.ETIMEDOUT,
    ]
)


@contextmanager
def translated(path: str, doing: str = "write") -> Iterator[None]:
    """Turn any OSError of the block into StorageError or PermissionDenied at `path`; ours pass through unchanged.

    `doing` is the verb of the sentence (`read`, `write`, `list`). A path that the error itself names wins over `path`,
    unless it is of a draft, which nobody knows, or within a folder that is held open (`wdsctl/core/folders.py`).
    """
    try:
        yield
    except WdsctlError:
        raise
    except OSError as error:
        raise translate(error, path, doing) from error


def is_full(error: OSError) -> bool:
    """Whether there is no room left on the device, or in the user's share of it."""
    return error.errno in _FULL


def translate(error: OSError, path: str, doing: str) -> WdsctlError:
    """The error to raise in the place of `error`: WDS401 disk full, WDS402 permission, WDS408 the storage
    itself, WDS404 the rest."""
    named = error.filename if isinstance(error.filename, str) else path
    is_inner = named.endswith(".partial") or named.startswith("/proc/self/fd/") or "/" not in named
    where = path if is_inner else named
    words = error.strerror or str(error)
    if is_full(error):
        return StorageError(
            f"cannot {doing}: {words}",
            where=where,
            hint="free some space and run the same command again: it goes on where it stopped",
            code="WDS401",
        )
    if error.errno in _DENIED:
        return PermissionDenied(
            f"cannot {doing}: {words}",
            where=where,
            hint="check the owner and the mode of the path, and whether the file system is mounted read-only",
        )
    kind = StorageDown if error.errno in _DOWN else StorageError
    again = "run the same command again: finished work is kept"
    hint = "check the path" if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError) else again
    return kind(f"cannot {doing}: {words}", where=where, hint=hint)
