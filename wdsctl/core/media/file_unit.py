"""The unit of work of a folder of media: some files looked at, the result a file that a later run finds again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from zlib import crc32

from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.findings import Finding
from wdsctl.core.media.found import Found, FoundMedium, save_found
from wdsctl.core.media.look import AT_ONCE, HEAD, Candidate, look, medium_of, unreadable_findings
from wdsctl.core.media.selection import parse_selection
from wdsctl.core.storage import Range, Storage
from wdsctl.core.stores import storage_for
from wdsctl.core.units import ShardFile

_Failure = StorageError | PermissionDenied

_MEAN = 256  # files a unit has in the mean, and half of what it has at most


@dataclass(frozen=True, slots=True)
class FileUnit:
    root: str
    files: tuple[ShardFile, ...]
    selection: str
    result: str
    keyframes: bool = False


def file_units(
    root: str, files: Sequence[ShardFile], folder: str, selection: str, *, keyframes: bool = False, version: int = 1
) -> Iterator[FileUnit]:
    """Files in order of their paths, as units, with results in `folder`. `version`: of what is made of files.

    Where a unit ends depends on the paths, so that files that come or go between two runs change few of them.
    """
    some: list[ShardFile] = []
    for file in files:
        some.append(file)
        if len(some) == 2 * _MEAN or crc32(file.path.encode()) % _MEAN == 0:
            yield _unit(FileUnit(root, tuple(some), selection, folder, keyframes), version)
            some = []
    if some:
        yield _unit(FileUnit(root, tuple(some), selection, folder, keyframes), version)


def _unit(unit: FileUnit, version: int) -> FileUnit:
    """The unit with a name of its own for its result, in the place of the folder's."""
    digest = blake2b(f"{version}\0{unit.selection}\0{unit.keyframes}".encode(), digest_size=16)
    for file in unit.files:
        digest.update(f"\0{file.path}\0{file.size}\0{file.mtime_ns}".encode())
    return replace(unit, result=os.path.join(unit.result, digest.hexdigest()))


def run_file_unit(unit: FileUnit) -> None:
    """Look at the files of a unit, and save what is found."""
    save_found(found_among(unit), unit.result)


def found_among(unit: FileUnit) -> Found:
    """What is found of the files of a unit. One that cannot be read is told of, and stops nothing."""
    media: list[FoundMedium] = []
    unreadable: list[tuple[Candidate, str]] = []
    findings: list[Finding] = []
    failed: list[int] = []
    storage = storage_for(unit.root)
    try:
        for candidate, head in _with_heads(storage, _candidates(unit)):
            made = _looked(storage, candidate, head, keyframes=unit.keyframes)
            if isinstance(made, StorageError | PermissionDenied):
                failed.append(candidate.row)
                findings.append(Finding(code=made.code, severity="error", message=made.message, shard=candidate.name))
            elif made is not None:
                media.append(made)
                if made.form.kind == "unreadable":
                    unreadable.append((candidate, made.form.reason or ""))
    finally:
        storage.close()
    return Found(tuple(media), (*findings, *unreadable_findings(unreadable, "")), tuple(failed))


def part_of(path: str) -> str:
    """What stands for a part of a file that is no member of a shard: its last extension, in small letters."""
    return os.path.basename(path).rpartition(".")[2].lower() if "." in os.path.basename(path) else ""


def _candidates(unit: FileUnit) -> list[Candidate]:
    wanted = parse_selection(unit.selection)
    return [
        Candidate(i, file.path, part_of(file.path), os.path.join(unit.root, file.path), 0, file.size, claim)
        for i, file in enumerate(unit.files)
        if (claim := wanted.claim(os.path.basename(file.path))) != "no"
    ]


def _looked(
    storage: Storage, candidate: Candidate, head: bytes | _Failure, *, keyframes: bool
) -> FoundMedium | _Failure | None:
    if not isinstance(head, bytes):
        return head
    try:
        facts = look(storage, candidate, head)
        return None if facts is None else medium_of(storage, candidate, facts, keyframes=keyframes)
    except (StorageError, PermissionDenied) as error:
        return error


def _with_heads(storage: Storage, wanted: Sequence[Candidate]) -> Iterator[tuple[Candidate, bytes | _Failure]]:
    for at in range(0, len(wanted), AT_ONCE):
        some = wanted[at : at + AT_ONCE]
        ranges = [Range(each.path, 0, min(each.size, HEAD)) for each in some]
        try:
            heads: list[bytes] = storage.read_many(ranges)
        except (StorageError, PermissionDenied):
            yield from ((each, _read(storage, span)) for each, span in zip(some, ranges, strict=True))
            continue
        yield from zip(some, heads, strict=True)


def _read(storage: Storage, span: Range) -> bytes | _Failure:
    """One head by itself: which of many it was that could not be read, nobody says."""
    try:
        return storage.read(*span)
    except (StorageError, PermissionDenied) as error:
        return error
