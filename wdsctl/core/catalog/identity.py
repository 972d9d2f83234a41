"""Is this file a catalog of ours, whole, and of a version we know? Standard library only: quick commands ask too."""

from __future__ import annotations

import os
import sqlite3
import struct

from wdsctl.core.command_line import command, command_beside, root_beside
from wdsctl.core.errors import CatalogError
from wdsctl.core.os_errors import translated

APPLICATION_ID = 0x57445343  # "WDSC"
VERSION = 4

#: The fact that says, where it is "0", that samples have no rows.
SAMPLE_ROWS = "sample_rows"

#: What the driver raises over a damaged file. The text of its own message may be damaged, too.
DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)

_MAGIC = b"SQLite format 3\0"


def check(path: str) -> None:
    """Raise CatalogError unless `path` is a catalog that this version can read. Reads 100 bytes."""
    try:
        with translated(path, "read"), open(path, "rb") as file:
            head = file.read(100)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise missing(path) from error
        if isinstance(error.__cause__, IsADirectoryError):
            raise damaged(path, "it is a folder") from error
        raise
    if len(head) < 100 or not head.startswith(_MAGIC):
        raise damaged(path, "it is no SQLite database")
    page, pages = struct.unpack(">H", head[16:18])[0], struct.unpack(">I", head[28:32])[0]
    if size < (65536 if page == 1 else page) * pages:
        raise damaged(path, "it is shorter than it says it is")
    version, application = struct.unpack(">I", head[60:64])[0], struct.unpack(">I", head[68:72])[0]
    if application != APPLICATION_ID:
        raise damaged(path, "it is a database of something else")
    if version > VERSION:
        own = command("index", root_beside(path), "--catalog", "DIR")
        raise CatalogError(
            f"the catalog has schema version {version}, this wdsctl knows versions up to {VERSION}",
            where=path,
            hint=f"upgrade wdsctl (`pip install -U wdsctl`), or make one of your own: {own}",
            code="WDS303",
        )


def missing(path: str) -> CatalogError:
    return CatalogError(
        "there is no catalog",
        where=path,
        hint=f"{command_beside(path, 'prepare')} makes it; one that is kept elsewhere is named by --catalog, "
        "in Python by catalog=",
        code="WDS301",
    )


def without_rows(path: str) -> CatalogError:
    return CatalogError(
        "the catalog has no rows of samples",
        where=path,
        hint=f"{command_beside(path, 'index', '--sample-rows')} adds them; every shard is read once for it, "
        "so all must be there",
        code="WDS307",
    )


def damaged(path: str, reason: str) -> CatalogError:
    return CatalogError(
        f"the catalog is damaged: {reason}",
        where=path,
        hint=f"{command_beside(path, 'index', '--rebuild')} makes it again from the shards",
        code="WDS302",
    )
