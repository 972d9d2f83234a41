"""Where joins are kept: beside the catalog of the primary, or in the user's cache where that cannot be written.

Files are named `NAME-FINGERPRINT.bin`, NAME after the datasets and FINGERPRINT after what is in them: when one of them
changes, another file is made, and of each name the last three stay. Whoever has an older one mapped keeps it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b

from wdsctl.core.errors import CatalogError, InputError, PermissionDenied, StorageError
from wdsctl.core.files import make_folder, remove_file, replacing, touch
from wdsctl.core.join_index import JoinIndex, Side, fingerprint_of, write_join

FOLDER = "joins"
KEPT = 3  # files of one name
STALE_SECONDS = 86_400  # after which a draft is nobody's


def join_of(meta: str, primary: Side, members: Sequence[Side]) -> JoinIndex:
    """The join of these datasets: from its file, or computed now. `meta`: where the catalog of the primary is.

    Processes that compute it at one time each write the same file. Raises what `write_join` raises; PermissionDenied
    where neither folder can be written.
    """
    fingerprint = fingerprint_of(primary, members)
    name = f"{_name_of(primary, members)}-{fingerprint}.bin"
    folders = [os.path.join(meta, FOLDER), _user_folder()]
    rows, *sizes = (int(side.index.shard_row[-1]) for side in (primary, *members))
    for folder in folders:
        found = _found(os.path.join(folder, name), fingerprint, rows, sizes)
        if found is not None:
            return found
    path = _made(folders, name, fingerprint, primary, members)
    return JoinIndex(path, fingerprint, rows, sizes)


def _found(path: str, fingerprint: str, rows: int, members: Sequence[int]) -> JoinIndex | None:
    try:
        found = JoinIndex(path, fingerprint, rows, members)
    except (ValueError, KeyError, TypeError, InputError, StorageError, PermissionDenied, CatalogError):
        return None  # not there, or damaged: it is made anew
    with suppress(OSError, InputError):
        touch(path)  # used just now: the last to be swept
    return found


def _made(folders: Sequence[str], name: str, fingerprint: str, primary: Side, members: Sequence[Side]) -> str:
    for i, folder in enumerate(folders):
        path = os.path.join(folder, name)
        try:
            make_folder(folder)
            with replacing(path) as draft:
                write_join(draft, fingerprint, primary, members)
        except PermissionDenied as error:
            if i + 1 < len(folders):
                continue
            raise PermissionDenied(
                "a join is kept beside the catalog or in the user's cache, and neither can be written",
                where=folder,
                hint="set XDG_CACHE_HOME to a folder that you can write",
            ) from error
        _sweep(folder, name.partition("-")[0])
        return path
    raise InputError("there is no folder for joins", hint="give one at least")


def _sweep(folder: str, name: str) -> None:
    """Remove what has been followed by newer ones of the same name, and drafts that nobody finished."""
    with suppress(OSError):
        entries = list(os.scandir(folder))
        mine = sorted((e for e in entries if e.name.startswith(f"{name}-")), key=lambda e: -e.stat().st_mtime_ns)
        stale = [e for e in entries if e.name.endswith(".partial") and _age(e) > STALE_SECONDS]
        for entry in (*mine[KEPT:], *stale):
            with suppress(OSError):
                remove_file(entry.path)


def _age(entry: os.DirEntry[str]) -> float:
    return time.time() - entry.stat().st_mtime


def _name_of(primary: Side, members: Sequence[Side]) -> str:
    names = repr([(side.name, side.nonmatch) for side in (primary, *members)])
    return blake2b(names.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def _user_folder() -> str:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(os.path.realpath(cache), "wdsctl", FOLDER)
