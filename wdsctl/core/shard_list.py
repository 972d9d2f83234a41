"""Finds the shards of a dataset: every .tar, or every file of lines, below the root, sorted by path.

Compressed ones are told apart.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from stat import S_ISREG

from wdsctl.core.beneath import is_beneath, leads_outside, way_in
from wdsctl.core.findings import Finding
from wdsctl.core.line_files import SUFFIXES, UNPACKERS, is_lines, unpacker
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import printable
from wdsctl.core.selected_shards import EVERYTHING, Selection
from wdsctl.core.shard_kinds import is_of_lines, one_kind
from wdsctl.core.units import ShardFile
from wdsctl.core.urls import is_url

COMPRESSED = (".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.lz4")
PACKED_LINES = tuple(lines + packed for lines in SUFFIXES for packed in UNPACKERS)


@dataclass(frozen=True, slots=True)
class ShardListing:
    shards: tuple[ShardFile, ...]
    findings: tuple[Finding, ...]  # compressed tars, folders that cannot be read
    unmatched: tuple[str, ...] = ()  # what a selection names and is no shard here, and globs without a match
    unused: tuple[str, ...] = ()  # patterns of `exclude` that match nothing


def list_shards(
    root: str,
    exclude: Sequence[str] = (),
    *,
    only: str = "",
    known: Iterable[str] = (),
    selection: Selection = EVERYTHING,
) -> ShardListing:
    """List the shards below `root`; hidden names are passed over. `exclude`: shell patterns on the relative path.

    `selection`: which of them to look at. `only`: the one file in it that is the dataset, if it is a file. `known`: the
    paths that the catalog has, if any; their kind is the dataset's, and without them a folder of tars and lines raises
    InputError WDS127. Below a URL, what stands for a shard's time is made of its etag. Raises InputError where there is
    no such root.
    """
    shards: list[ShardFile] = []
    findings: list[Finding] = []
    there: list[str] = []
    used: set[str] = set()
    for path, entry in _entries(root, only, findings):
        lower = path.lower()
        if not selection.is_all:
            if not (selection.has(path) and lower.endswith((".tar", *COMPRESSED, *SUFFIXES, *PACKED_LINES))):
                continue
            there.append(path)
        if exclude and (excluding := [pattern for pattern in exclude if fnmatch.fnmatchcase(path, pattern)]):
            used.update(excluding)
            continue
        if lower.endswith((".tar", *SUFFIXES)):
            found = entry if isinstance(entry, ShardFile) else _shard(path, entry.path)
            if isinstance(found, ShardFile):
                shards.append(found)
            else:
                findings.append(found)
        elif lower.endswith(COMPRESSED):
            message = (
                "a compressed shard: it cannot be read at random places and is left out; `wdsctl convert` unpacks it"
            )
            findings.append(Finding(code="WDS113", severity="error", message=message, shard=printable(path)))
        elif tool := unpacker(lower):
            message = f"compressed lines cannot be read at random places, and are left out: `{tool}` them"
            findings.append(Finding(code="WDS113", severity="error", message=message, shard=printable(path)))
    shards, left_out = one_kind(root, shards, known)
    findings += left_out
    shards.sort(key=lambda shard: shard.path)
    findings.sort(key=lambda finding: finding.shard)
    unused = tuple(pattern for pattern in exclude if pattern not in used)
    return ShardListing(tuple(shards), tuple(findings), tuple(selection.unmatched(there)), unused)


def list_files(root: str, exclude: Sequence[str] = ()) -> ShardListing:
    """List all files below `root` that are not hidden, whatever they are, as `list_shards` lists shards."""
    files: list[ShardFile] = []
    findings: list[Finding] = []
    for path, entry in _remote(root) if is_url(root) else _files(root, "", findings, set()):
        if is_excluded(path, exclude):
            continue
        found = entry if isinstance(entry, ShardFile) else _shard(path, entry.path, "file")
        if isinstance(found, ShardFile):
            files.append(found)
        else:
            findings.append(found)
    files.sort(key=lambda file: file.path)
    findings.sort(key=lambda finding: finding.shard)
    return ShardListing(tuple(files), tuple(findings))


def is_excluded(path: str, exclude: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in exclude)


def some_shards(root: str, paths: Iterable[str]) -> list[ShardFile]:
    """Those of these files below `root`, a folder, that can be reached, as `list_shards` has them: a stat each."""
    found = (_shard(path, os.path.join(root, path)) for path in paths)
    return [each for each in found if isinstance(each, ShardFile)]


def _shard(path: str, whole: str, noun: str = "shard") -> ShardFile | Finding:
    if printable(path) != path:
        message = f"a {noun} whose name is not UTF-8: it is left out; rename it"
        return Finding(code="WDS116", severity="error", message=message, shard=printable(path))
    try:
        stat = os.stat(whole)
    except OSError as error:
        message = f"a {noun} that cannot be reached: {error.strerror}"
        return Finding(code="WDS002", severity="error", message=message, shard=path)
    if not S_ISREG(stat.st_mode):
        return Finding(code="WDS002", severity="error", message=f"a {noun} that is no regular file", shard=path)
    return ShardFile(path, stat.st_size, stat.st_mtime_ns, os.access(whole, os.R_OK))


class BarredFolder(Exception):  # noqa: N818 - it is an answer of a walk, which its caller words
    """A folder that a walk was not to come to; its path below the root."""


def holds_shards(root: str, only: str = "", *, barred: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """Whether there is a tar, compressed or not, anywhere below `root`: stops at the first. Or whether there are lines,
    and nothing beside them that could be raw data: labels among media are not what the folder is about.

    Raises BarredFolder where a link below `root` leads to a folder in `barred`, which are (device, inode).
    """
    if only:
        return True
    names = []
    for path, _ in _remote(root) if is_url(root) else _files(root, "", [], set(), barred):
        if path.lower().endswith((".tar", *COMPRESSED)):
            return True
        names.append(path)
    return is_of_lines(names)


def holds_tars(root: str) -> bool:
    """Whether there is a tar, compressed or not, anywhere below `root`."""
    return any(path.lower().endswith((".tar", *COMPRESSED)) for path in _paths(root))


def a_file_of_lines(root: str) -> str:
    """The path of one below `root`; empty where there is none."""
    return min((path for path in _paths(root) if is_lines(path)), default="")


def a_shard_outside(root: str) -> str:
    """The path below `root`, a folder, of a link to a shard that leads out of it; empty where there is none."""
    findings: list[Finding] = []
    for _ in _files(root, "", findings, set()):
        pass
    names = (finding.shard for finding in findings if finding.code == "WDS409")
    return min((name for name in names if name.lower().endswith((".tar", *COMPRESSED)) or is_lines(name)), default="")


def _paths(root: str) -> Iterator[str]:
    return (path for path, _ in (_remote(root) if is_url(root) else _files(root, "", [], set())))


def _entries(
    root: str, only: str, findings: list[Finding]
) -> Iterable[tuple[str, os.DirEntry[str]]] | Iterable[tuple[str, ShardFile]]:
    if not only:
        return _remote(root) if is_url(root) else _files(root, "", findings, set())
    if is_url(root):
        from wdsctl.core.remote_list import remote_file

        return [(only, remote_file(root, only))]
    with translated(root, "list"), os.scandir(root) as entries:
        return [(only, entry) for entry in entries if entry.name == only]


def is_empty(root: str) -> bool:
    """Whether there is nothing at all in it."""
    return not (any(_remote(root)) if is_url(root) else os.listdir(root))


def _remote(root: str) -> Iterator[tuple[str, ShardFile]]:
    from wdsctl.core.remote_list import remote_files

    return ((file.path, file) for file in remote_files(root))


def _files(
    root: str,
    below: str,
    findings: list[Finding],
    above: set[tuple[int, int]],
    barred: frozenset[tuple[int, int]] = frozenset(),
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below that is no folder, with its path relative to the root.

    Links are followed that stay inside, or lead to where the user allows; loops are not.
    """
    folder = os.path.join(root, below)
    with translated(folder, "list"):
        stat = os.stat(folder)
        mark = (stat.st_dev, stat.st_ino)
        if mark in above:
            return
        if below and mark in barred:
            raise BarredFolder(below)
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
        if leads_outside(entry, root):
            findings.append(outside_finding(root, path))
        elif _is_folder(entry):
            yield from _files(root, path, findings, above | {mark}, barred)
        else:
            yield path, entry


def leads_out_of(root: str, path: str) -> bool:
    """Whether the file at `path` below a folder is behind a link that leads out of it, to nothing that is allowed."""
    return not is_beneath(os.path.join(root, path), (root,))


def outside_finding(root: str, path: str) -> Finding:
    """What is said of such a file."""
    real = os.path.realpath(os.path.join(root, path))
    message = f"a link that leads out of the dataset, to {printable(real)}: left out; {way_in(real)}"
    return Finding(code="WDS409", severity="error", message=message, shard=printable(path))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False
