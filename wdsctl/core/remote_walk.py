"""Which files a store has below a folder: all of them, or an error."""

from __future__ import annotations

from typing import Any


def below(filesystem: Any, base: str) -> dict[str, dict[str, Any]]:
    """What the driver, which is fsspec's, says of every file below a folder, by name. Raises what it raises."""
    found: dict[str, dict[str, Any]]
    found = _walked(filesystem, base) if _walks(filesystem) else filesystem.find(base, detail=True)
    return found


def _walks(filesystem: Any) -> bool:
    """Whether its `find` is fsspec's own, folder by folder, which passes over folders that it cannot list."""
    from fsspec.asyn import AsyncFileSystem
    from fsspec.spec import AbstractFileSystem

    kind = type(filesystem)
    if filesystem.async_impl:
        return kind._find is AsyncFileSystem._find  # noqa: SLF001 - so fsspec names its coroutines
    return bool(kind.find is AbstractFileSystem.find)


def _walked(filesystem: Any, base: str) -> dict[str, dict[str, Any]]:
    """Every file below a folder. A folder that cannot be listed raises: its shards would seem to have vanished."""
    found: dict[str, dict[str, Any]] = {}
    folders, seen = [base], set()
    while folders:
        folder = folders.pop()
        seen.add(folder)
        for facts in filesystem.ls(folder, detail=True):
            if facts["type"] != "directory":
                found[facts["name"]] = facts
            elif facts["name"] not in seen:
                folders.append(facts["name"])
    return found
