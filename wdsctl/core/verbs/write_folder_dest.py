"""The files of a destination that `write_folder` writes to: which are its own, which a dead run left half-written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from wdsctl.core.command_line import command
from wdsctl.core.errors import UsageError
from wdsctl.core.files import remove_file, sync
from wdsctl.core.folders import inside
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named

#: What a killed run leaves of the shard it was writing.
_PARTIAL = re.compile(r"\..+\.tar\.\d+\.partial")

_EXAMPLES = 3


def check_dest(dest: str, known: set[str]) -> list[str]:
    """The half-written files of dead runs. Raises UsageError where tars lie there that are not of this dataset."""
    if not os.path.lexists(dest):
        return []
    if not os.path.isdir(dest):
        raise UsageError("the destination is a file, not a folder", where=dest, hint="give another destination")
    names = list(_files(dest))
    unknown = sorted(name for name in names if name.endswith(".tar") and name not in known)
    if unknown:
        gone = sorted(known.difference(names))
        renamed = f"if shards were renamed, give them their names back ({_some(gone)}), or go on with"
        raise UsageError(
            f"the destination already holds other shards: {_some(unknown)}",
            where=dest,
            hint=f"{renamed} {command('index', dest)}"
            if gone
            else "give an empty folder, or one that was made from this raw folder",
        )
    return _partials(names)


def half_written(dest: str) -> list[str]:
    """What dead runs left of shards they were writing, relative to `dest`."""
    return _partials(_files(dest))


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _EXAMPLES:,} more" if len(names) > _EXAMPLES else ""
    return f"{', '.join(map(named, names[:_EXAMPLES]))}{more}"


def _partials(names: Iterable[str]) -> list[str]:
    return [name for name in names if _PARTIAL.fullmatch(os.path.basename(name))]


def _files(dest: str) -> Iterator[str]:
    """The paths, relative to `dest`, of all files outside hidden folders."""

    def fail(error: OSError) -> None:
        raise error

    with translated(dest, "list"):
        for folder, folders, names in os.walk(dest, onerror=fail):
            folders[:] = [name for name in folders if not name.startswith(".")]
            below = os.path.relpath(folder, dest)
            yield from (name if below == "." else f"{below}/{name}" for name in names)


def sizes_of(dest: str, names: Iterable[str]) -> dict[str, int]:
    """Bytes of the shards that are there."""
    sizes = {}
    for name in names:
        with suppress(FileNotFoundError):
            sizes[name] = os.stat(os.path.join(dest, name)).st_size
    return sizes


def remove(dest: str, names: Iterable[str]) -> None:
    """Remove files of `dest`, which is without links, those that are there."""
    for name in names:
        path = inside(dest, name)
        # A worker of a run that was killed may have put its file in place, or away, since it was listed.
        remove_file(path)
        with translated(path, "remove"), suppress(FileNotFoundError):
            sync(os.path.dirname(path))
