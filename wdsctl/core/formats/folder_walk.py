"""Walks a raw folder: which files there are, which make samples, which cannot be used and why."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from stat import S_ISREG
from sys import intern
from typing import NamedTuple

from wdsctl.core.beneath import leads_outside, way_in
from wdsctl.core.naming import KeyUntil, split_name, split_part
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named
from wdsctl.core.progress import Progress
from wdsctl.core.raw_sample import RawPart, RawSample

#: What desktops leave behind. Names that begin with a dot are passed over as well.
LITTER = frozenset({"Thumbs.db", "desktop.ini"})

EXAMPLES = 5

_READABLE_BY_ALL = 0o444
_TELL_EVERY = 4_096  # files
_OF_THE_FOLDER = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


@dataclass(slots=True)
class Found:
    samples: list[RawSample] = field(default_factory=list)
    strays: int = 0
    unreadable: int = 0
    outside: int = 0  # of these, links that lead out of the folder
    ignored: int = 0
    unreadable_parts: dict[str, set[str]] = field(default_factory=dict)  # key -> names of its parts
    examples: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        return self.strays + self.unreadable

    def stray(self, path: str, reason: str) -> None:
        self.strays += 1
        self._example(path, reason)

    def no_access(self, path: str, reason: str) -> None:
        self.unreadable += 1
        self._example(path, reason)

    def _example(self, path: str, reason: str) -> None:
        """Keep the first few by name: file systems list in no order, and a message should not change between runs."""
        self.examples.append(f"{named(path)}: {reason}")
        if len(self.examples) > EXAMPLES:
            self.examples.sort()
            self.examples.pop()


def walk(root: str, found: Found, progress: Progress) -> None:
    """Add all files below `root` to `found`. Links are followed that stay inside, or lead to where the user allows."""
    folders = [_Folder("", None)]
    while folders:
        folder = folders.pop()
        path = os.path.join(root, folder.prefix)
        try:
            status = os.stat(path)
            above = _Above((status.st_dev, status.st_ino), folder.above)
            with os.scandir(path) as entries:
                folders.extend(_sort_out(root, entries, folder.prefix, above, found, progress))
        except OSError as error:
            with translated(path, "list"):
                _pass_over(folder.prefix, error, found)


def regroup(found: Found, rule: KeyUntil) -> None:
    """Make the samples of what was found, which are by the first dot, by another rule: one may become several."""
    samples = []
    for sample in found.samples:
        if not any("." in part.name for part in sample.parts):
            samples.append(sample)
            continue
        groups: dict[str, list[RawPart]] = {}
        for part in sample.parts:
            key, name = _rekeyed(sample.key, part.name, rule)
            groups.setdefault(key, []).append(part._replace(name=intern(name)))
        samples += [RawSample(key, tuple(sorted(parts))) for key, parts in groups.items()]
    found.samples = samples
    hidden: dict[str, set[str]] = {}
    for key, names in found.unreadable_parts.items():
        for each in names:
            end, name = _rekeyed(key, each, rule)
            hidden.setdefault(end, set()).add(name)
    found.unreadable_parts = hidden


def _rekeyed(key: str, part: str, rule: KeyUntil) -> tuple[str, str]:
    inner, name = split_part(part, rule)
    return f"{key}.{inner}" if inner else key, name


class _Folder(NamedTuple):
    """A folder to be walked, `prefix` being its path below the root with a slash at the end (empty for the root)."""

    prefix: str
    above: _Above | None


class _Above(NamedTuple):
    """The folders around one, as (device, inode): a link to any of them would lead round for ever."""

    identity: tuple[int, int]
    above: _Above | None


def _pass_over(prefix: str, error: OSError, found: Found) -> None:
    """Count a folder that cannot be listed. An error of the device is raised: it says nothing about the folder."""
    if not prefix or error.errno not in _OF_THE_FOLDER:
        raise error
    found.no_access(prefix, "the folder cannot be read")


def _sort_out(
    root: str, entries: Iterable[os.DirEntry[str]], prefix: str, above: _Above, found: Found, progress: Progress
) -> list[_Folder]:
    """Add one folder's samples to `found`. Returns the folders in it.

    The entries are not kept: each holds its whole `stat`, and a folder may have a million.
    """
    folders: list[_Folder] = []
    samples: dict[str, list[RawPart]] = {}
    count = 0
    for count, entry in enumerate(entries, 1):
        if count % _TELL_EVERY == 0:
            progress.advance(items=_TELL_EVERY)
        name = entry.name
        if name[0] == "." or name in LITTER:
            found.ignored += 1
        elif leads_outside(entry, root):
            _leave_outside(entry, prefix + name, found)
        elif not _is_folder(entry):
            _take_file(entry, prefix + name, samples, found)
        elif entry.is_symlink() and _leads_back(entry.path, above):
            found.ignored += 1
        else:
            folders.append(_Folder(f"{prefix}{name}/", above))
    progress.advance(items=count % _TELL_EVERY)
    for key, parts in samples.items():
        parts.sort()
        found.samples.append(RawSample(key, tuple(parts)))
    return folders


def _leave_outside(entry: os.DirEntry[str], path: str, found: Found) -> None:
    """Count a link that leads out of the folder. Its sample lacks a part that nobody may read."""
    split = split_name(path)
    if split is not None and not _is_folder(entry):
        found.unreadable_parts.setdefault(split[0], set()).add(intern(split[1]))
    found.outside += 1
    found.no_access(path, f"a link that leads out of the folder, {way_in(os.path.realpath(entry.path))}")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder or leads to one. A link that goes round in circles is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _leads_back(path: str, above: _Above | None) -> bool:
    status = os.stat(path)
    identity = (status.st_dev, status.st_ino)
    while above is not None:
        if above.identity == identity:
            return True
        above = above.above
    return False


def _take_file(entry: os.DirEntry[str], path: str, samples: dict[str, list[RawPart]], found: Found) -> None:
    split = split_name(path)
    if split is None:
        found.stray(path, "the name has no key and part")
        return
    if not _is_utf8(path):
        found.stray(path, "the name is not UTF-8")
        return
    key, part = split
    try:
        status = entry.stat()
    except OSError:
        status = None  # a link that leads nowhere, or a folder that may be listed and not searched
    if status is not None and not S_ISREG(status.st_mode):
        found.stray(path, "not a regular file")
    # Asking the system costs another call a file, and is needed only where the mode leaves a doubt.
    elif status is not None and (
        status.st_mode & _READABLE_BY_ALL == _READABLE_BY_ALL or os.access(entry.path, os.R_OK)
    ):
        samples.setdefault(key, []).append(RawPart(intern(part), status.st_size, status.st_mtime_ns))
    else:
        found.unreadable_parts.setdefault(key, set()).add(part)
        found.no_access(path, "cannot be read")


def _is_utf8(name: str) -> bool:
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
