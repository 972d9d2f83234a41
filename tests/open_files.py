"""The open files of a process, and the sizes of reads from disks.

Sockets and pipes are not included, since other threads may close them meanwhile.
"""

from __future__ import annotations

import gc
import os
from contextlib import suppress

import pytest

from wdsctl.core.storage.storage import LocalStorage


def open_files(below: str = "/", process: int | None = None) -> list[str]:
    """Return the paths of all open files of a process (by default this one) below a folder, one per descriptor.

    Garbage is collected first. Files in memory have paths as well: `/memfd:NAME (deleted)`.
    """
    gc.collect()
    found = []
    folder = f"/proc/{process or os.getpid()}/fd"
    for entry in os.listdir(folder):
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"{folder}/{entry}"))
    return sorted(path for path in found if path.startswith(below))


def sizes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the size of every read from a disk in this process from now on."""
    sizes: list[int] = []
    read = LocalStorage.read

    def recording_read(self: LocalStorage, path: str, offset: int, size: int) -> bytes:
        sizes.append(size)
        return read(self, path, offset, size)

    monkeypatch.setattr(LocalStorage, "read", recording_read)
    return sizes
