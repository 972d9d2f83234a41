"""`megatron.energon.epathlib`: paths of files and URLs."""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from wdsctl.core.errors import UsageError
from wdsctl.core.storage.open import storage_for
from wdsctl.core.urls import is_url, normalize_root, redact_secrets
from wdsctl.loader.energon.submodules import publish_submodules

if TYPE_CHECKING:
    from wdsctl.core.storage.remote import FsspecStorage

__all__ = ["DEFAULT_PROFILE_NAME", "EPath"]

DEFAULT_PROFILE_NAME = "default"  # of multi-storage-client: the local file system
_LOCAL_URL = f"msc://{DEFAULT_PROFILE_NAME}/"


class EPath:
    """The absolute path of a file, or a URL such as `s3://bucket/shards`: `pathlib` for both.

    At URLs, files can be read and listed: `open`, `read_bytes`, `read_text`, `size`, `is_file`, `is_dir`, `walk`,
    `glob`. Other operations on files of URLs raise UsageError; paths can be taken apart and joined without requests.
    `msc://default/...` is a local path. `os.fspath` returns the path or URL, so that an `EPath` can be passed to all
    functions of wdsctl.
    """

    __slots__ = ("_text",)

    def __init__(self, initial_path: str | EPath | Path) -> None:
        text = normalize_root(os.fspath(initial_path))
        if text.startswith(_LOCAL_URL):
            text = text.removeprefix(_LOCAL_URL[:-1])
        if is_url(text):
            scheme, _, rest = text.partition("://")
            host, slash, path = rest.partition("/")
            self._text = f"{scheme}://{host}{slash}{posixpath.normpath(path) if path else ''}".rstrip("/")
        else:
            self._text = os.path.abspath(text)

    # -- paths -------------------------------------------------------------------------------------------------------

    def __fspath__(self) -> str:
        return self._text

    __str__ = __fspath__

    def __repr__(self) -> str:
        return f"EPath({redact_secrets(self._text)!r})"

    def __truediv__(self, other: str | EPath) -> EPath:
        name = os.fspath(other)
        if is_url(name) or name.startswith("/"):
            return EPath(name)
        return EPath(f"{self._text.rstrip('/')}/{name}")

    def __lt__(self, other: EPath) -> bool:
        return self._text < other._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EPath) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __getstate__(self) -> str:
        return self._text

    def __setstate__(self, state: str) -> None:
        self._text = state

    @property
    def name(self) -> str:
        return posixpath.basename(self._text)

    @property
    def parent(self) -> EPath:
        return EPath(posixpath.dirname(self._text))

    @property
    def url(self) -> str:
        """The URL; of a local file, its path."""
        return self._text

    @property
    def display_name(self) -> str:
        """The path or URL, without passwords."""
        return redact_secrets(self._text)

    def absolute(self) -> EPath:
        """The path itself: all are absolute."""
        return self

    def is_local(self) -> bool:
        return not is_url(self._text)

    @property
    def local_path(self) -> Path:
        """The path of a local file. Raises UsageError for a URL."""
        return self._local("local_path")

    def with_suffix(self, suffix: str) -> EPath:
        return EPath(posixpath.splitext(self._text)[0] + suffix)

    def relative_to(self, other: EPath) -> str:
        """The path from `other` to this one. Raises ValueError, as `pathlib` does, if it is not below `other`."""
        base = other._text.rstrip("/") + "/"
        if self._text != other._text and not self._text.startswith(base):
            raise ValueError(f"{self.display_name!r} is not below {other.display_name!r}")
        return self._text[len(base) :]

    # -- files -------------------------------------------------------------------------------------------------------

    def is_file(self) -> bool:
        if self.is_local():
            return os.path.isfile(self._text)
        with self._remote_storage() as storage:
            return storage.is_file(self._text)

    def size(self) -> int:
        """Bytes of the file."""
        if self.is_local():
            return os.path.getsize(self._text)
        with closing(storage_for(self._text)) as storage:
            return storage.size(self._text)

    def read_bytes(self) -> bytes:
        if self.is_local():
            return Path(self._text).read_bytes()
        with closing(storage_for(self._text)) as storage:
            return storage.read(self._text, 0, storage.size(self._text))

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def is_dir(self) -> bool:
        """Whether there is a folder; in an object store, files below the path."""
        if self.is_local():
            return os.path.isdir(self._text)
        with self._remote_storage() as storage:
            return bool(storage.list_folder(self._text))

    def open(self, mode: str = "r", block_size: int | None = None) -> IO[Any]:  # noqa: ARG002 - Energon's
        """Open the file. At a URL only for reading: the whole file is read into memory."""
        if not self.is_local() and set(mode) <= set("rbt"):
            data = BytesIO(self.read_bytes())
            return data if "b" in mode else TextIOWrapper(data, "utf-8")
        path = self._local("open")
        if mode[0] in "wax":
            path.parent.mkdir(parents=True, exist_ok=True)
        return path.open(mode, encoding=None if "b" in mode else "utf-8")

    def write_bytes(self, data: bytes) -> None:
        """Write the file, and create its folder if necessary."""
        with self.open("wb") as file:
            file.write(data)

    def write_text(self, text: str) -> None:
        self.write_bytes(text.encode())

    def mkdir(self, exist_ok: bool = True, parents: bool = False) -> None:
        self._local("mkdir").mkdir(exist_ok=exist_ok, parents=parents)

    def glob(self, pattern: str) -> Iterator[EPath]:
        """The files and folders that match, in order; at URLs, files. `**` follows links."""
        if self.is_local() and "**" not in pattern:
            yield from map(EPath, sorted(Path(self._text).glob(pattern)))
            return
        parts = pattern.split("/")
        yield from (path for path in self.walk() if _matches(path.relative_to(self).split("/"), parts))

    def walk(self) -> Iterator[EPath]:
        """All files below, in order. Follows links."""
        if not self.is_local():
            with self._remote_storage() as storage:
                names = sorted(name for name, _ in storage.files())
            yield from (EPath(f"{self._text}/{name}") for name in names)
            return
        for folder, folders, files in os.walk(self._text, followlinks=True):
            folders.sort()
            for name in sorted(files):
                yield EPath(os.path.join(folder, name))

    def copy(self, target: EPath) -> None:
        """Copy the file to a local path."""
        if self.is_local():
            target._local("copy").parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._text, target._local("copy"))
        else:
            target.write_bytes(self.read_bytes())

    def move(self, target: EPath) -> None:
        shutil.move(self._local("move"), target._local("move"))

    def unlink(self) -> None:
        self._local("unlink").unlink()

    def _remote_storage(self) -> closing[FsspecStorage]:
        from wdsctl.core.storage.remote import FsspecStorage  # only for URLs

        return closing(FsspecStorage(self._text))

    def _local(self, operation: str) -> Path:
        if not self.is_local():
            raise UsageError(
                f"EPath.{operation} works on local files only",
                where=self.display_name,
                hint="use fsspec, or the client of the store, for this operation",
            )
        return Path(self._text)


def _matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether the components of a path match those of a pattern: `**` is any number of folders."""
    if not parts:
        return not names
    if parts[0] == "**":
        return _matches(names, parts[1:]) or (bool(names) and _matches(names[1:], parts))
    return bool(names) and fnmatchcase(names[0], parts[0]) and _matches(names[1:], parts[1:])


publish_submodules(__name__)
