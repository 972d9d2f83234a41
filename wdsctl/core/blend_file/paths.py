"""What a path in a blend file means: beside the file, unless it is absolute or a URL. Text only."""

from __future__ import annotations

import os
import posixpath

from wdsctl.core.line_files import is_lines
from wdsctl.core.urls import is_url, plain, protocol

_FILESYSTEM = "filesystem://"


def meant(path: str, folder: str) -> str:
    """The absolute path, or the URL. `folder`: absolute or a URL, where the file is that has the path in it."""
    if protocol(path):
        return plain(path)
    if os.path.isabs(path):
        return path
    if is_url(folder):
        return _below(folder, path)
    joined = os.path.join(folder, path)
    # `..` behind a symbolic link leads elsewhere than the text says, so the system resolves it.
    return joined if ".." in path.split("/") else os.path.normpath(joined)


def aux_meant(path: str, folder: str) -> str:
    """The same for an auxiliary store, which may be a folder of files: `filesystem://dir`."""
    if not path.startswith(_FILESYSTEM):
        return meant(path, folder)
    inner = meant(path.removeprefix(_FILESYSTEM), folder)
    return f"filesystem+{inner}" if is_url(inner) else _FILESYSTEM + inner


def folder_of(path: str) -> str:
    if is_url(path):
        return path.partition("?")[0].rpartition("/")[0]
    return os.path.dirname(path)


def is_blend_file(path: str) -> bool:
    return _without_query(path).lower().endswith((".yaml", ".yml"))


def is_jsonl(path: str) -> bool:
    return is_lines(_without_query(path))


def identity(path: str) -> str:
    """The same for two names of one file."""
    return path if is_url(path) else os.path.realpath(path)


def _below(folder: str, path: str) -> str:
    scheme, _, rest = folder.partition("://")
    bucket, _, inside = rest.partition("/")
    return f"{scheme}://{bucket}{posixpath.normpath(posixpath.join('/', inside, path))}"


def _without_query(path: str) -> str:
    return path.partition("?")[0] if is_url(path) else path
