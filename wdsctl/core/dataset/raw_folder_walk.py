"""Walk a raw folder: find its files, group them by name into samples, and count the files that cannot be used.

Files in one folder with the same name up to the first dot are the parts of one sample.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from stat import S_ISREG
from sys import intern
from typing import NamedTuple

from wdsctl.core.errors import translate_os_errors
from wdsctl.core.progress import Progress
from wdsctl.core.safe_open import allow_path_hint, is_beneath, is_folder_entry, scan_beneath
from wdsctl.core.samples.naming import (
    KeyRuleName,
    RawPart,
    RawSample,
    split_name,
    split_part,
)
from wdsctl.core.storage.source_files import walk_facts
from wdsctl.core.text import path_for_message

#: Files that desktops create. The walk ignores them, like names that begin with a dot.
LITTER_NAMES = frozenset({"Thumbs.db", "desktop.ini"})

#: Keys of files in the raw folder itself, in lower case, that are about the data, unless other samples have such parts.
DOCUMENT_KEYS = frozenset({"readme", "license", "licence", "notice", "citation", "changelog"})

_READABLE_BY_ALL = 0o444
_FILES_PER_PROGRESS = 4_096  # files between two progress updates
_FOLDER_ERRNOS = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


class RawProblem(NamedTuple):
    """A sample that is incomplete, by its key, or a file or folder that cannot be used, by its path."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{path_for_message(self.name)}: {self.reason}"


@dataclass(slots=True)
class RawFolderScan:
    """The result of a walk. `faults`: all unusable files, with the reason."""

    samples: list[RawSample] = field(default_factory=list)
    strays: int = 0
    unreadable: int = 0
    outside_links: int = 0  # unreadable files that are links out of the folder
    ignored: int = 0
    unreadable_parts: dict[str, set[str]] = field(default_factory=dict)  # key -> names of its parts
    faults: list[RawProblem] = field(default_factory=list)

    @property
    def fault_count(self) -> int:
        return self.strays + self.unreadable

    def add_stray(self, path: str, reason: str) -> None:
        self.strays += 1
        self.faults.append(RawProblem(path, reason))

    def add_unreadable(self, path: str, reason: str) -> None:
        self.unreadable += 1
        self.faults.append(RawProblem(path, reason))


def walk_raw_folder(root: str, scan: RawFolderScan, progress: Progress) -> None:
    """Add all files below `root` to `scan`. Follows links to targets inside, and in folders the user allows."""
    folders = [_FolderToWalk("", None)]
    while folders:
        folder = folders.pop()
        path = os.path.join(root, folder.prefix)
        try:
            status = os.stat(path)
            above = _FolderChain((status.st_dev, status.st_ino), folder.above)
            with scan_beneath(path, (root,)) as entries:
                folders.extend(_scan_entries(root, entries, folder.prefix, above, scan, progress))
        except OSError as error:
            with translate_os_errors(path, "list"):
                if not folder.prefix or error.errno not in _FOLDER_ERRNOS:
                    raise  # a device error affects more than this folder
            scan.add_unreadable(folder.prefix, "cannot read the folder")


def walk_raw_store(root: str, scan: RawFolderScan, progress: Progress) -> None:
    """Add all objects below the URL `root` to `scan`, as `walk_raw_folder` does with files."""
    ignored: set[str] = set()
    samples: dict[str, list[RawPart]] = {}
    count = 0
    for count, (path, facts) in enumerate(walk_facts(root), 1):
        if count % _FILES_PER_PROGRESS == 0:
            progress.advance(items=_FILES_PER_PROGRESS)
        hidden = _find_hidden(path)
        if hidden:
            ignored.add(hidden)
        elif "//" in path:
            scan.add_stray(path, "the name has a folder without a name")
        else:
            split = _split_usable(path, scan)
            if split is not None:
                key, part = split
                samples.setdefault(key, []).append(RawPart(intern(part), facts.size, facts.version))
    progress.advance(items=count % _FILES_PER_PROGRESS)
    scan.ignored += len(ignored)
    scan.samples += [RawSample(key, tuple(sorted(parts))) for key, parts in samples.items()]


def _find_hidden(path: str) -> str:
    """The part of the path up to its first hidden name; empty if none is hidden."""
    names = path.split("/")
    for i, name in enumerate(names):
        if name.startswith(".") or name in LITTER_NAMES:
            return "/".join(names[: i + 1])
    return ""


def regroup_samples(scan: RawFolderScan, rule: KeyRuleName) -> None:
    """Group the samples by another key rule than the first dot: one sample may become several."""
    samples = []
    for sample in scan.samples:
        if not any("." in part.name for part in sample.parts):
            samples.append(sample)
            continue
        groups: dict[str, list[RawPart]] = {}
        for part in sample.parts:
            key, name = _rekey(sample.key, part.name, rule)
            groups.setdefault(key, []).append(part._replace(name=intern(name)))
        samples += [RawSample(key, tuple(sorted(parts))) for key, parts in groups.items()]
    scan.samples = samples
    unreadable_parts: dict[str, set[str]] = {}
    for key, names in scan.unreadable_parts.items():
        for each in names:
            end, name = _rekey(key, each, rule)
            unreadable_parts.setdefault(end, set()).add(name)
    scan.unreadable_parts = unreadable_parts


def _rekey(key: str, part: str, rule: KeyRuleName) -> tuple[str, str]:
    inner, name = split_part(part, rule)
    return f"{key}.{inner}" if inner else key, name


class _FolderToWalk(NamedTuple):
    """A folder to walk. `prefix`: its path below the root with a trailing slash; empty for the root."""

    prefix: str
    above: _FolderChain | None


class _FolderChain(NamedTuple):
    """The enclosing folders as (device, inode): a link to one of them is a loop."""

    identity: tuple[int, int]
    above: _FolderChain | None


def _scan_entries(
    root: str,
    entries: Iterable[os.DirEntry[str]],
    prefix: str,
    above: _FolderChain,
    scan: RawFolderScan,
    progress: Progress,
) -> list[_FolderToWalk]:
    """Add one folder's samples to `scan`, and return its subfolders.

    Keeps no entries: each holds its `stat` result, and a folder may have a million.
    """
    folders: list[_FolderToWalk] = []
    samples: dict[str, list[RawPart]] = {}
    count = 0
    for count, entry in enumerate(entries, 1):
        if count % _FILES_PER_PROGRESS == 0:
            progress.advance(items=_FILES_PER_PROGRESS)
        name = entry.name
        if name[0] == "." or name in LITTER_NAMES:
            scan.ignored += 1
        elif entry.is_symlink() and not is_beneath(os.path.join(root, prefix, name), (root,)):
            _skip_outside_link(entry, root, prefix + name, scan)
        elif not is_folder_entry(entry):
            _add_file(entry, root, prefix + name, samples, scan)
        elif entry.is_symlink() and _is_link_loop(os.path.join(root, prefix, name), above):
            scan.ignored += 1
        else:
            folders.append(_FolderToWalk(f"{prefix}{name}/", above))
    progress.advance(items=count % _FILES_PER_PROGRESS)
    for key, parts in samples.items():
        parts.sort()
        scan.samples.append(RawSample(key, tuple(parts)))
    return folders


def _skip_outside_link(entry: os.DirEntry[str], root: str, path: str, scan: RawFolderScan) -> None:
    """Count a link that leads out of the folder as an unreadable part of its sample."""
    split = split_name(path)
    if split is not None and not is_folder_entry(entry):
        scan.unreadable_parts.setdefault(split[0], set()).add(intern(split[1]))
    scan.outside_links += 1
    target = os.path.realpath(os.path.join(root, path))
    scan.add_unreadable(path, f"a link that leads out of the folder, {allow_path_hint(target)}")


def _is_link_loop(path: str, above: _FolderChain | None) -> bool:
    status = os.stat(path)
    identity = (status.st_dev, status.st_ino)
    while above is not None:
        if above.identity == identity:
            return True
        above = above.above
    return False


def _add_file(
    entry: os.DirEntry[str], root: str, path: str, samples: dict[str, list[RawPart]], scan: RawFolderScan
) -> None:
    split = _split_usable(path, scan)
    if split is None:
        return
    key, part = split
    try:
        status = entry.stat()
    except OSError:
        status = None  # a broken link, or a folder that can be listed but not searched
    if status is not None and not S_ISREG(status.st_mode):
        scan.add_stray(path, "not a regular file")
    # Another system call per file, only if the mode is not conclusive.
    elif status is not None and (
        status.st_mode & _READABLE_BY_ALL == _READABLE_BY_ALL or os.access(os.path.join(root, path), os.R_OK)
    ):
        samples.setdefault(key, []).append(RawPart(intern(part), status.st_size, status.st_mtime_ns))
    else:
        scan.unreadable_parts.setdefault(key, set()).add(part)
        scan.add_unreadable(path, "cannot be read")


def _split_usable(path: str, scan: RawFolderScan) -> tuple[str, str] | None:
    """Split a path into key and part. None for a file that belongs to no sample, which is counted."""
    split = split_name(path)
    if split is None and path.lower() in DOCUMENT_KEYS:
        scan.ignored += 1
    elif split is None:
        scan.add_stray(path, "the name has no key and part")
    elif not _is_utf8(path):
        scan.add_stray(path, "the name is not UTF-8")
        return None
    return split


def _is_utf8(name: str) -> bool:
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
