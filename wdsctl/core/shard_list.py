"""Finds the shards of a dataset: every .tar below the root, sorted by path. Compressed ones are told apart."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wdsctl.core.findings import Finding
from wdsctl.core.os_errors import translated
from wdsctl.core.units import ShardFile

COMPRESSED = (".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.lz4")


@dataclass(frozen=True, slots=True)
class ShardListing:
    shards: tuple[ShardFile, ...]
    findings: tuple[Finding, ...]  # compressed tars, folders that cannot be read


def list_shards(root: str, exclude: Sequence[str] = ()) -> ShardListing:
    """List the shards below `root`. `exclude`: shell patterns on the path relative to it. Hidden names are passed over."""
    shards: list[ShardFile] = []
    findings: list[Finding] = []
    for path, entry in _files(root, "", findings, set()):
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in exclude):
            continue
        lower = path.lower()
        if lower.endswith(".tar"):
            stat = entry.stat()
            shards.append(ShardFile(path, stat.st_size, stat.st_mtime_ns, os.access(entry.path, os.R_OK)))
        elif lower.endswith(COMPRESSED):
            message = "a compressed shard: it cannot be read at random places and is left out"
            findings.append(Finding(code="WDS113", severity="warning", message=message, shard=path))
    shards.sort(key=lambda shard: shard.path)
    findings.sort(key=lambda finding: finding.shard)
    return ShardListing(tuple(shards), tuple(findings))


def holds_shards(root: str) -> bool:
    """Whether there is a tar, compressed or not, anywhere below `root`. Stops at the first."""
    return any(path.lower().endswith((".tar", *COMPRESSED)) for path, _ in _files(root, "", [], set()))


def _files(
    root: str, below: str, findings: list[Finding], above: set[tuple[int, int]]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every file below, with its path relative to the root. Links are followed, loops are not."""
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
            findings.append(Finding(code="WDS402", severity="error", message=message, shard=below))
            return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = f"{below}/{entry.name}" if below else entry.name
        if entry.is_dir():
            yield from _files(root, path, findings, above | {mark})
        elif entry.is_file():
            yield path, entry
