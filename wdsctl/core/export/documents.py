"""Documents that an export writes beside the shards: each whole or absent, and none in place of a user's file."""

from __future__ import annotations

import os
from collections.abc import Mapping

from wdsctl.core.errors import UsageError
from wdsctl.core.files import write_text
from wdsctl.core.safe_open import open_below


def write_documents(folder: str, documents: Mapping[str, str], *, overwrite: bool) -> None:
    """Write texts by name. Raises UsageError, before anything is written, if one exists with another content."""
    if not overwrite:
        for name, text in documents.items():
            path = os.path.join(folder, name)
            if os.path.lexists(path) and not _has_content(path, text.encode()):
                raise UsageError(
                    "the file exists, with other content",
                    where=path,
                    hint="pass --overwrite to replace it, or export into another folder: add OUT to the command",
                )
    for name, text in documents.items():
        write_text(os.path.join(folder, name), text)


def _has_content(path: str, content: bytes) -> bool:
    """Whether the path is a regular file with this content."""
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open_below(path, os.path.dirname(path)) as file:
        return file.read(len(content) + 1) == content
