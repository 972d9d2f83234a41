"""The pointer of a published catalog: a small JSON object that names the immutable files of the newest revision.

    {"format": 1, "id": "5f0c...", "revision": 7, "generation": 3, "wdsctl": "0.1.0",
     "published": {"host": "node-7", "pid": 4711, "time": "2026-01-31T09:20:05+00:00", "command": "wdsctl index ..."},
     "schemas": {"catalog.sqlite": 1, "ledger.sqlite": 1},
     "files": [{"name": "catalog.sqlite", "object": "files/9b1d...-catalog.sqlite", "size": 40960, "sha256": "9b1d..."},
               ...]}

`revision` counts publications, `generation` is that of the catalog. `id` is unique: a publisher that receives no answer
recognises its own pointer by it. The pointer comes with the data, so every name in it is checked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import accumulate
from typing import Any

from wdsctl.core.errors import CatalogError
from wdsctl.core.files import MALFORMED_ERRORS
from wdsctl.core.json_text import checked_count, read_json
from wdsctl.core.text import escape_unprintable
from wdsctl.core.urls import redact_secrets
from wdsctl.core.version import VERSION

POINTER_NAME = "current.json"
FILES_FOLDER = "files"
POINTER_FORMAT = 1
MAX_POINTER_BYTES = 16 << 20  # a column has up to three files of 200 bytes in the pointer

#: The schema versions that this wdsctl reads; those of `wdsctl.core.catalog`, which is above this room.
KNOWN_SCHEMAS = {"catalog.sqlite": 1, "ledger.sqlite": 1}

_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_TEXT_CHARS = 500
_MAX_NAME_CHARS = 255
_UNSAFE_IN_OBJECT = re.compile(r"[^A-Za-z0-9._-]")

#: Files of a catalog's folder that only its machine needs: locks, results of unfinished units, and files that the
#: loader computes for itself (`joins`). Hidden files are drafts.
_LOCAL_NAMES = re.compile(
    r"(?:.*/)?\.[^/]*(?:/.*)?|lock(?:\..*)?|(?:work|media|joins|convert|repair|uploads|columns/units|unpublished-[^/]*)(?:/.*)?"
    r"|.*\.damaged-\d+(?:-journal)?|.*-(?:journal|wal|shm)"
)


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of a catalog. `name`: relative to the catalog's folder, with /."""

    name: str
    size: int  # bytes
    sha256: str

    @property
    def object_name(self) -> str:
        """The name of the object, relative to the pointer."""
        base = _UNSAFE_IN_OBJECT.sub("_", self.name.rpartition("/")[2])[-100:]
        return f"{FILES_FOLDER}/{self.sha256}-{base}"


@dataclass(frozen=True, slots=True)
class Pointer:
    """What `current.json` says. `schemas`: schema versions of SQLite files, by name."""

    id: str
    revision: int
    generation: int
    files: tuple[PublishedFile, ...]
    schemas: Mapping[str, int]
    version: str
    host: str
    pid: int
    time: str
    command: str

    def describe_publisher(self) -> str:
        """Describe who published it, for messages."""
        host, time, command = (
            escape_unprintable(redact_secrets(each)) for each in (self.host, self.time, self.command)
        )
        return f"process {self.pid} on {host}, at {time} ({command})"

    def encode(self) -> bytes:
        document = {
            "format": POINTER_FORMAT,
            "id": self.id,
            "revision": self.revision,
            "generation": self.generation,
            "wdsctl": self.version,
            "published": {"host": self.host, "pid": self.pid, "time": self.time, "command": self.command},
            "schemas": dict(self.schemas),
            "files": [
                {"name": each.name, "object": each.object_name, "size": each.size, "sha256": each.sha256}
                for each in self.files
            ],
        }
        return json.dumps(document, indent=1).encode()


def new_pointer(revision: int, generation: int, files: Sequence[PublishedFile], schemas: Mapping[str, int]) -> Pointer:
    """The pointer of a catalog that this process publishes now."""
    return Pointer(
        id=uuid.uuid4().hex,
        revision=revision,
        generation=generation,
        files=tuple(sorted(files, key=lambda file: file.name)),
        schemas=schemas,
        version=VERSION,
        host=socket.gethostname(),
        pid=os.getpid(),
        time=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=_command_line(),
    )


def _command_line() -> str:
    return shlex.join([os.path.basename(sys.argv[0]), *map(redact_secrets, sys.argv[1:])])[:_MAX_TEXT_CHARS]


def parse_pointer(data: bytes, where: str) -> Pointer:
    """Parse a pointer. `where`: its URL, for errors.

    Raises CatalogError WDS302 if it is damaged, WDS303 if it or a file that it names is from a newer version.
    """
    try:
        document = read_json(data)
        newer = document["format"] > POINTER_FORMAT
    except MALFORMED_ERRORS as error:
        raise damaged_pointer_error(where, "it was not written by wdsctl") from error
    if newer:
        raise _newer_error(where, f"has format {document['format']}", document.get("wdsctl"))
    try:
        pointer = _pointer_of(document)
    except MALFORMED_ERRORS as error:
        raise damaged_pointer_error(where, "it has invalid values") from error
    for name, version in pointer.schemas.items():
        if version > KNOWN_SCHEMAS.get(name, version):
            raise _newer_error(where, f"has {name} with schema version {version}", pointer.version)
    return pointer


def _pointer_of(document: Mapping[str, Any]) -> Pointer:
    """Raises what a damaged document causes."""
    files = tuple(
        PublishedFile(_checked_name(each["name"]), checked_count(each["size"]), _checked_sha256(each["sha256"]))
        for each in document["files"]
    )
    if any(file.object_name != each["object"] for file, each in zip(files, document["files"], strict=True)):
        raise ValueError("an object whose name does not match its checksum")
    if len({file.name for file in files}) != len(files):
        raise ValueError("two files with the same name")
    if {folder for file in files for folder in _folders_of(file.name)} & {file.name for file in files}:
        raise ValueError("a file that is the folder of another")
    by = document["published"]
    return Pointer(
        id=_text(document["id"]),
        revision=checked_count(document["revision"]),
        generation=checked_count(document["generation"]),
        files=files,
        schemas={_text(name): checked_count(version) for name, version in document["schemas"].items()},
        version=_text(document["wdsctl"]),
        host=_text(by["host"]),
        pid=checked_count(by["pid"]),
        time=_text(by["time"]),
        command=_text(by["command"]),
    )


def _folders_of(name: str) -> Iterator[str]:
    return accumulate(name.split("/")[:-1], "{}/{}".format)


def is_published_name(name: str) -> bool:
    """Whether a file with this name, relative to the catalog's folder, is part of the published catalog."""
    return not _LOCAL_NAMES.fullmatch(name)


def damaged_pointer_error(where: str, reason: str) -> CatalogError:
    return CatalogError(
        f"the published catalog is damaged: {reason}",
        where=where,
        hint="restore an older version of this object; or remove the object and run `wdsctl index` on the dataset, "
        "which publishes a catalog again",
        code="WDS302",
    )


def _newer_error(where: str, what: str, version: object) -> CatalogError:
    by = f" (wdsctl {version})" if isinstance(version, str) else ""
    return CatalogError(
        f"the published catalog {what}, written by a newer wdsctl{by}",
        where=where,
        hint="upgrade wdsctl (`pip install -U wdsctl`), or create a local catalog: `wdsctl index URL --catalog DIR`",
        code="WDS303",
    )


def _checked_name(name: object) -> str:
    text = _text(name)
    pieces = text.split("/")
    if len(text) > _MAX_NAME_CHARS or any(each in ("", ".", "..") for each in pieces) or not text.isprintable():
        raise ValueError("an invalid file name")
    if "\\" in text or not is_published_name(text):
        raise ValueError("a file that wdsctl never publishes")
    return text


def _checked_sha256(value: object) -> str:
    if not _SHA256.fullmatch(_text(value)):
        raise ValueError("an invalid checksum")
    return str(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT_CHARS:
        raise ValueError("an invalid text")
    return value
