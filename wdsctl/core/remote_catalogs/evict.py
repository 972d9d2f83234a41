"""Bound the disk space that the fetched catalogs of a user take together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from wdsctl.core.errors import StorageError, UsageError
from wdsctl.core.files import remove_file, remove_tree
from wdsctl.core.invocation import parse_size_bytes
from wdsctl.core.remote_catalogs.mirror import CONTROL_FOLDER, Mirror

CACHE_SIZE_VARIABLE = "WDSCTL_CATALOG_CACHE"
DEFAULT_CACHE_SIZE = "50GB"
_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system


def evict_mirrors(keep: str) -> None:
    """Remove the least recently used mirrors beside `keep` until all of them fit into the limit together.

    Keeps `keep`, mirrors that a process uses, and those with unpublished changes. Runs after a fetch.
    """
    limit = _limit_bytes()
    mirrors = sorted(_mirrors(os.path.dirname(keep)), reverse=True)
    sizes = {folder: _disk_bytes(folder) for _, folder in mirrors}
    total = sum(sizes.values())
    while total > limit and mirrors:
        _, folder = mirrors.pop()
        if folder != keep and _evict(folder):
            total -= sizes[folder]


def _limit_bytes() -> int:
    text = os.environ.get(CACHE_SIZE_VARIABLE) or DEFAULT_CACHE_SIZE
    try:
        return parse_size_bytes(text)
    except UsageError as error:
        raise UsageError(f"{CACHE_SIZE_VARIABLE}: {error.message}", hint=error.hint) from error


def _mirrors(parent: str) -> Iterator[tuple[float, str]]:
    """(time of the last use, folder) of every mirror in a folder."""
    with os.scandir(parent) as entries:
        for entry in entries:
            with suppress(OSError):  # no mirror, or removed by another process
                yield os.stat(os.path.join(entry.path, CONTROL_FOLDER, "users")).st_mtime, entry.path


def _disk_bytes(folder: str) -> int:
    """The disk space of a folder's files: of a file that was fetched in part, less than its size."""
    total = 0
    for below, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(below, name)).st_blocks * _BLOCK_BYTES
    return total


def _evict(folder: str) -> bool:
    """Remove the published files of a mirror. Returns False if it is in use or has changes of its own."""
    mirror = Mirror(folder, "")
    try:
        with (
            mirror.lock("sync", wait=False) as is_free,
            mirror.lock("users", wait=False) as is_unused,
            mirror.lock("writers", wait=False) as is_unchanging,
        ):
            record = mirror.read_record() if is_free and is_unused and is_unchanging else None
            if record is None or mirror.changed_names(record):
                return False
            # The record first: the files of a mirror without a record are compared by content.
            remove_file(mirror.control_path("record.json"))
            for file in record.pointer.files:
                remove_file(mirror.path(file.name))
            for name in ("incoming", "ranges"):
                remove_tree(mirror.control_path(name))
    except StorageError:  # a file system without locks: nobody knows who uses the mirror
        return False
    return True
