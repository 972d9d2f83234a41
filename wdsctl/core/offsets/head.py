"""The first bytes of the offsets file, and the digest of the shards that it lists. Imports no numpy.

Commands that only check whether a catalog is complete start faster without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import blake2b

from wdsctl.core.dataset.location import shell_command_for_file
from wdsctl.core.errors import CatalogError, translate_os_errors
from wdsctl.core.files import open_own

OFFSETS_MAGIC = b"WDSOFF1\n"


def check_offsets_head(path: str) -> None:
    """Raise CatalogError WDS302 if the file is missing, or does not begin with the 16 bytes of an offsets file.

    Further damage is detected when the file is opened, which reads the header with all shards.
    """
    with translate_os_errors(path, "read"):
        try:
            with open_own(path) as file:
                head, size = file.read(16), os.fstat(file.fileno()).st_size
        except FileNotFoundError as error:
            raise offsets_error(path, "missing") from error
    if not head.startswith(OFFSETS_MAGIC) or size < 16 + int.from_bytes(head[8:], "little"):
        raise offsets_error(path, "damaged")


def offsets_error(path: str, what: str) -> CatalogError:
    return CatalogError(
        f"the offsets file is {what}",
        where=path,
        hint=f"run {shell_command_for_file(path, 'index')} to write it again",
        code="WDS302",
    )


def digest_shard_rows(rows: Iterable[tuple[int, int, str]]) -> str:
    """A digest of shards, (id, size in bytes, layout hash), in order. 32 hex digits. 0.7 us per shard."""
    digest = blake2b(digest_size=16)
    for number, size, layout_hash in rows:
        digest.update(f"{number},{size},{layout_hash};".encode())
    return digest.hexdigest()
