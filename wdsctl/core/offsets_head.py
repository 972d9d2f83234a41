"""How an offsets file begins, and what is said of one that cannot be used. `wdsctl.core.offsets` has the rest."""

from __future__ import annotations

import os

from wdsctl.core.command_line import command_beside
from wdsctl.core.errors import CatalogError
from wdsctl.core.os_errors import translated

MAGIC = b"WDSOFF2\n"


def check_head(path: str) -> None:
    """Raise CatalogError WDS302 where there is no such file, or it is none from its first 16 bytes on.

    What is wrong further inside shows when it is opened, which costs its header: all shards.
    """
    with translated(path, "read"):
        try:
            with open(path, "rb") as file:
                head, size = file.read(16), os.fstat(file.fileno()).st_size
        except FileNotFoundError as error:
            raise unusable(path, "missing") from error
    if not head.startswith(MAGIC) or size < 16 + int.from_bytes(head[8:], "little"):
        raise unusable(path, "damaged")


def unusable(path: str, what: str) -> CatalogError:
    return CatalogError(
        f"the offsets file is {what}",
        where=path,
        hint=f"{command_beside(path, 'index')} makes it again",
        code="WDS302",
    )
