"""Finds the shards of a dataset: every .tar below the root, sorted by path. Compressed ones are told apart."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from stat import S_ISREG

from wdsctl.core.findings import Finding
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import printable
from wdsctl.core.units import ShardFile
from wdsctl.core.urls import is_url

COMPRESSED = (".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.lz4")


@dataclass(frozen=True, slots=True)
class ShardListing:
    shards: tuple[ShardFile, ...]
    findings: tuple[Finding, ...]  # compressed tars, folders that cannot be read


def list_shards(root: str, exclude: Sequence[str] = ()) -> ShardListing:
    """List the shards below `root`; hidden names are passed over. `exclude`: shell patterns on the relative path.

    Below a URL, what stands for a shard's time is made of its etag. Raises InputError where there is no such root.
    """
    shards: list[ShardFile] = []
    findings: list[Finding] = []
    for path, entry in _remote(root) if is_url(root) else _files(root, "", findings, set()):
        if is_excluded(path, exclude):
            continue
        lower = path.lower()
        if lower.endswith(COMPRESSED):
            message = "a compressed shard: it cannot be read at random places and is left out"
            findings.append(Finding(code="WDS113", severity="warning", message=message, shard=printable(path)))
        elif lower.endswith(".tar"):
            found = entry if isinstance(entry, ShardFile) else _shard(path, entry)
            if isinstance(found, ShardFile):
                shards.append(found)
            else:
                findings.append(found)
    shards.sort(key=lambda shard: shard.path)
    findings.sort(key=lambda finding: finding.shard)
    return ShardListing(tuple(shards), tuple(findings))


def is_excluded(path: str, exclude: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in exclude)


def _shard(path: str, entry: os.DirEntry[str]) -> ShardFile | Finding:
    if printable(path) != path:
        message = "a shard whose name is not UTF-8: it is left out; rename it"
        return Finding(code="WDS116", severity="error", message=message, shard=printable(path))
    try:
        stat = entry.stat()
    except OSError as error:
        message = f"a shard that cannot be reached: {error.strerror}"
        return Finding(code="WDS002", severity="error", message=message, shard=path)
    if not S_ISREG(stat.st_mode):
        return Finding(code="WDS002", severity="error", message="a shard that is no regular file", shard=path)
    return ShardFile(path, stat.st_size, stat.st_mtime_ns, os.access(entry.path, os.R_OK))


def holds_shards(root: str) -> bool:
    """Whether there is a tar, compressed or not, anywhere below `root`. Stops at the first."""
    files = _remote(root) if is_url(root) else _files(root, "", [], set())
    return any(path.lower().endswith((".tar", *COMPRESSED)) for path, _ in files)


def is_empty(root: str) -> bool:
    """Whether there is nothing at all in it."""
    return not (any(_remote(root)) if is_url(root) else os.listdir(root))


def _remote(root: str) -> Iterator[tuple[str, ShardFile]]:
    from wdsctl.core.remote_list import remote_files

    return ((file.path, file) for file in remote_files(root))


def _files(
    root: str, below: str, findings: list[Finding], above: set[tuple[int, int]]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below that is no folder, with its path relative to the root. Links are followed, loops are not."""
    folder = os.path.join(root, below)
    with translated(folder, "list"):
        stat = os.stat(folder)
        mark = (stat.st_dev, stat.st_ino)
        if mark in above:
            return
        try:
            entries = list(os.scandir(folder))
        except PermissionError as error:
            if not below:
                raise
            message = f"a folder that cannot be read: {error.strerror}"
            findings.append(Finding(code="WDS402", severity="error", message=message, shard=printable(below)))
            return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = f"{below}/{entry.name}" if below else entry.name
        if _is_folder(entry):
            yield from _files(root, path, findings, above | {mark})
        else:
            yield path, entry


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False
