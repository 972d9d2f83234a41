"""What files a process has open, and how much is read of disks.

Its sockets and pipes are not among them, which other threads may close meanwhile.
"""

from __future__ import annotations

import gc
import os
from contextlib import suppress

import pytest

from wdsctl.core.storage.storage import LocalStorage


def open_files(below: str = "/", process: int | None = None) -> list[str]:
    """The paths of all open files of a process (this one) below a folder, as often as they are open.

    Garbage is closed first. Files in memory have paths as well: `/memfd:NAME (deleted)`.
    """
    gc.collect()
    found = []
    folder = f"/proc/{process or os.getpid()}/fd"
    for entry in os.listdir(folder):
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"{folder}/{entry}"))
    return sorted(path for path in found if path.startswith(below))


def sizes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of every single read of a disk from now on, in this process."""
    sizes: list[int] = []
    read = LocalStorage.read

    def counted(self: LocalStorage, path: str, offset: int, size: int) -> bytes:
        sizes.append(size)
        return read(self, path, offset, size)

    monkeypatch.setattr(LocalStorage, "read", counted)
    return sizes
