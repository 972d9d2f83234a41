"""The location of a test's datasets: local folders, or copies in a store.

The fixture `place` chooses. Builders of datasets return `placed(folder)`: the folder itself, or the URL of its copy. A
test that changes files later calls `placed` again, so that the copy has the same files. Catalogs are not copied:
only the commands under test read and write them there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pytest

#: Names of stores in `pytest.mark.parametrize("place", ..., indirect=True)`, beside `local`, and their servers.
STORES = {"s3": "moto", "rclone": "rclone", "azurite": "azurite", "google": "google", "memory": None}

#: The stores that `place` omits, for a smaller set of tests.
other_stores = pytest.mark.parametrize("place", [name for name in STORES if name != "s3"], indirect=True)

#: Instead of S3, where another test of the file reads from S3: a request to its server costs 5 ms.
in_folder_and_memory = pytest.mark.parametrize("place", ["local", "memory"], indirect=True)


class StorePlace:
    """Copies of folders below `base`, under the same names below the URL `root`."""

    def __init__(self, base: Path, root: str) -> None:
        self._base, self._root = base, root
        self._folders: set[Path] = set()
        self._copied: dict[Path, tuple[int, int]] = {}  # size and time, of the files that have a copy

    def url_of(self, folder: Path) -> str:
        name = os.path.relpath(folder, self._base)
        return self._root if name == "." else f"{self._root}/{name.replace('../', 'above/')}"

    def copy(self, folder: Path) -> str:
        """Make the copy equal to the folder; returns its URL."""
        self._folders.add(folder)
        filesystem, _ = fsspec.url_to_fs(self._root)
        found = dict(_files(folder))
        changed = [path for path, facts in found.items() if self._copied.get(path) != facts]
        filesystem.pipe({self.url_of(path): path.read_bytes() for path in changed})
        for path in [each for each in self._copied if each.is_relative_to(folder) and each not in found]:
            filesystem.rm_file(self.url_of(path))
            del self._copied[path]
        self._copied.update(found)
        return self.url_of(folder)

    def folder_of(self, url: str) -> Path:
        return next(folder for folder in self._folders if self.url_of(folder) == url)

    def has_copy_of(self, path: Path) -> bool:
        return path in self._copied


def _files(folder: Path) -> Iterator[tuple[Path, tuple[int, int]]]:
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".wdsctl"]
        for name in names:
            stat = os.stat(os.path.join(at, name))
            yield Path(at, name), (stat.st_size, stat.st_mtime_ns)


_current: list[StorePlace] = []  # of the running test; empty: local folders


def place_dataset(folder: str | Path) -> str:
    """Return where the dataset of a folder is: the folder itself, or the URL of its copy, brought up to date."""
    return _current[-1].copy(Path(folder)) if _current else str(folder)


def folder_of(root: str) -> Path:
    """Return the folder for which `placed` returned this location."""
    return _current[-1].folder_of(root) if _current else Path(root)


def update_copy(path: Path) -> None:
    """Bring the copy of a file up to date, if it has one."""
    if _current and _current[-1].has_copy_of(path):
        _current[-1].copy(path.parent)


@contextmanager
def datasets_in(place: StorePlace) -> Iterator[None]:
    """Make `placed` copy into a store."""
    _current.append(place)
    try:
        yield
    finally:
        _current.pop()
