"""Unpack the zips of a source, so that every format is recognised and read as from a folder.

The files go to a folder in `DEST.unpacked`, beside the destination: an archive into the folder where it was, under its
own name unless everything in it is in one folder. The other files of a source folder are linked, or copied across file
systems. After `prepare`, the folder is removed; if `prepare` fails, it is kept, so that the hints of errors work.

A zip may claim any size. What it claims must fit the disk, and must not be more than its bytes can hold; no more bytes
are written than it claims. Names that lead out of the folder, links and encrypted files are refused.
"""

from __future__ import annotations

import calendar
import os
import re
import shlex
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, NamedTuple

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.dataset.raw_folder_walk import LITTER_NAMES
from wdsctl.core.errors import InputError, StorageError, UsageError, translate_os_errors
from wdsctl.core.file_limits import RAISE_LIMITS_HINT, check_zip_directory, stream_limit, unpacked_size_error
from wdsctl.core.files import remove_tree
from wdsctl.core.importers.common.folder_files import LITTER_FOLDERS
from wdsctl.core.importers.common.tables import iter_files
from wdsctl.core.importers.protocol import damaged_file_error
from wdsctl.core.safe_open import open_below
from wdsctl.core.shards.survey import survey_folder
from wdsctl.core.text import path_for_message as shown
from wdsctl.core.text import pluralize
from wdsctl.core.urls import is_url
from wdsctl.core.zip_errors import ZIP_ERRORS
from wdsctl.core.zip_names import decode_zip_name, guess_encoding, raw_zip_name

_UNREAD_ARCHIVES = (".rar", ".7z")
_SUFFIX = ".unpacked"
_MARKER = ".wdsctl-unpacked"  # in a folder that this module made, and may remove
_MAX_DEPTH = 3  # zips in zips
_MAX_RATIO = 1_100  # DEFLATE expands a byte to 1,032 at most
_FILE_BYTES = 4096  # counted for a file at least: its place on the disk
_SPARE_BYTES = 256 << 20  # of the disk, which stay free
_CHUNK_BYTES = 1 << 20
_DRIVE = re.compile("[A-Za-z]:")


class _Counts(NamedTuple):
    archives: int
    files: int
    size_bytes: int


@dataclass(slots=True)
class _Budget:
    """What may still come out of an archive of the source, with all zips in it."""

    archive: str
    allowed: int
    used: int = 0

    def take(self, members: Sequence[_Member]) -> None:
        """Raise DatasetError WDS233 if these files are too many."""
        self.used += sum(max(member.entry.file_size, _FILE_BYTES) for member in members)
        if self.used > self.allowed:
            raise unpacked_size_error(
                self.allowed, self.archive, hint=f"unpack it yourself, and name the folder; or {RAISE_LIMITS_HINT}"
            )


def _budget_of(archive: str) -> _Budget:
    return _Budget(archive, stream_limit(os.path.getsize(archive)))


@contextmanager
def unpack_archives(source: str, dest: str | None, note: Callable[[str], None]) -> Iterator[str]:
    """Yield a folder with the files of the source, whose zips are unpacked; the source itself if it has no zips.

    A zip that shares its name with another file, such as `7.zip` beside `7.jpg`, is a part of a sample. Raises
    InputError WDS240 for what cannot be unpacked, DatasetError WDS233 for damaged zips, StorageError; UsageError for a
    zip without `dest`.
    """
    is_zip = source.lower().endswith(".zip") and os.path.isfile(source)
    if is_zip and dest is None:
        raise UsageError(
            "missing DEST: wdsctl copies the files of the zip into shards in a separate folder",
            where=shown(source),
            hint=shell_command("prepare", source, "DEST"),
        )
    zips = [] if dest is None or is_url(source) else find_archives(source, (".zip",))
    if not zips or dest is None:
        yield source
        return
    above = f"{(source if is_url(dest) else dest).rstrip('/')}{_SUFFIX}"
    folder = os.path.join(above, os.path.splitext(os.path.basename(os.path.abspath(source)))[0])
    _make_folder(above, folder)
    counts = _unpack_all(source, zips, folder)
    note(
        f"unpacked {pluralize(counts.archives, 'zip')} with {pluralize(counts.files, 'file')} "
        f"({counts.size_bytes:,} bytes) into {shown(folder)}"
    )
    try:
        yield folder
    except BaseException:  # Ctrl-C too: hints of errors name unpacked files, so they stay
        note(f"the files of the zips stay in {shown(above)}, which the next attempt replaces")
        raise
    remove_tree(above)


def find_archives(source: str, endings: tuple[str, ...]) -> list[str]:
    """The archives of a source, relative to it; the name of a file that is one itself. Sorted.

    Leaves out archives that share their name with another file.
    """
    if os.path.isfile(source):
        return [os.path.basename(source)] if source.lower().endswith(endings) else []
    if not is_url(source) and os.path.isdir(source):
        found = survey_folder(source).endings
        if found is not None and found.isdisjoint(endings):
            return []
    archives = [path for path in iter_files(source) if path.lower().endswith(endings)]
    if not archives:
        return []
    others = (path for path in iter_files(source) if not path.lower().endswith(endings))
    shared = set(map(_stem, archives)).intersection(map(_stem, others))
    return sorted(path for path in archives if _stem(path) not in shared)


def _stem(path: str) -> str:
    return os.path.splitext(path)[0]


def check_no_unread_archives(source: str) -> None:
    """Raise InputError WDS240 if a raw folder has archives that wdsctl does not unpack: they may hold the samples. It
    unpacks zips, but not those at URLs."""
    archives = find_archives(source, (*_UNREAD_ARCHIVES, ".zip") if is_url(source) else _UNREAD_ARCHIVES)
    if archives:
        raise InputError(
            f"{pluralize(len(archives), 'archive')} in the source, such as {shown(archives[0])}",
            where=shown(source),
            hint="unpack them, and move the archives elsewhere; if they are parts of samples, name the parts: "
            "`--parts jpg,7z`",
            code="WDS240",
        )


def _make_folder(above: str, folder: str) -> None:
    """Make `above` and `folder` in it. Replaces what an earlier run left."""
    if os.path.lexists(above):
        if not os.path.isfile(os.path.join(above, _MARKER)):
            raise InputError(
                "the folder for the files of the zips exists",
                where=shown(above),
                hint="move it, or choose another DEST",
            )
        remove_tree(above)
    with translate_os_errors(above, "create"):
        os.makedirs(folder)
        with open(os.path.join(above, _MARKER), "xb"):
            pass


def _unpack_all(source: str, zips: list[str], folder: str) -> _Counts:
    """Unpack the zips, then those in them, and link the other files."""
    if os.path.isfile(source):
        return _unpack(source, source, folder, "", _budget_of(source), depth=1)
    counts, unpacked = _Counts(0, 0, 0), frozenset(zips)
    for path in iter_files(source):
        if path not in unpacked:
            _link(os.path.join(source, path), source, os.path.join(folder, path))
    for path in zips:
        full_path = os.path.join(source, path)
        counts = _sum(
            counts, _unpack(full_path, source, folder, _place(full_path, source, path), _budget_of(full_path), depth=1)
        )
    return counts


def _link(path: str, source: str, target: str) -> None:
    """Give a file of the source another name, or copy it with its time. A link in the source becomes its target."""
    with translate_os_errors(path, "read"), open_below(path, source) as file:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        handle = file.fileno()
        try:
            os.link(f"/proc/self/fd/{handle}", target, src_dir_fd=handle, follow_symlinks=True)
        except OSError:  # another file system, or one without links; or a system without /proc
            with open(target, "xb") as copy:
                shutil.copyfileobj(file, copy, _CHUNK_BYTES)
            found = os.fstat(handle)
            os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))


def _sum(one: _Counts, other: _Counts) -> _Counts:
    return _Counts(*(a + b for a, b in zip(one, other, strict=True)))


def _place(archive: str, root: str, path: str) -> str:
    """The folder, below the root, that an archive at `path` is unpacked into."""
    above = os.path.dirname(path)
    with _opened(archive, root) as opened:
        members = _members(opened, archive)
        tops = {member.name.partition("/")[0] for member in members if "/" in member.name}
        has_files = any("/" not in member.name for member in members)
    if len(tops) == 1 and not has_files:
        return above
    return os.path.join(above, os.path.splitext(os.path.basename(path))[0])


def _unpack(archive: str, root: str, folder: str, below: str, budget: _Budget, *, depth: int) -> _Counts:
    """Unpack an archive, which must be in `root`, into `folder`/`below`, and each zip in it, which is removed then."""
    if depth > _MAX_DEPTH:
        raise _refused(archive, f"zips are nested more than {_MAX_DEPTH} deep")
    inner = []
    with _opened(archive, root) as opened:
        members = _members(opened, archive)
        _check_sizes(members, archive, folder)
        budget.take(members)
        names = {os.path.splitext(each.name)[0] for each in members if not each.name.lower().endswith(".zip")}
        counts = _Counts(1, 0, 0)
        for member in members:
            target = os.path.join(folder, below, member.name)
            _extract(opened, member, archive, target)
            stem, ending = os.path.splitext(member.name)
            if ending.lower() == ".zip" and stem not in names:
                inner.append(os.path.join(below, member.name))
            else:
                counts = _sum(counts, _Counts(0, 1, member.entry.file_size))
    for path in inner:
        full_path = os.path.join(folder, path)
        counts = _sum(
            counts, _unpack(full_path, folder, folder, _place(full_path, folder, path), budget, depth=depth + 1)
        )
        os.unlink(full_path)
    return counts


@contextmanager
def _opened(archive: str, root: str) -> Iterator[zipfile.ZipFile]:
    with translate_os_errors(archive, "read"), open_below(archive, root) as file:
        check_zip_directory(file, archive)
        try:
            opened = zipfile.ZipFile(file)
        except ZIP_ERRORS as error:
            raise damaged_file_error(f"the zip cannot be read: {error}", archive) from error
        with opened:
            yield opened


class _Member(NamedTuple):
    name: str
    entry: zipfile.ZipInfo


def _members(opened: zipfile.ZipFile, archive: str) -> list[_Member]:
    """The files of an archive, without hidden ones and litter of desktops. Raises InputError WDS240."""
    found: dict[str, _Member] = {}
    for name, member in _decode_names(opened, archive):
        steps = name.split("/")
        if name.startswith("/") or ".." in steps or "\0" in name or _DRIVE.match(name):
            raise _refused(archive, f"the name {shown(name)} leads out of it")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise _refused(archive, f"{shown(name)} is a link")
        if member.flag_bits & 1:
            raise _refused(archive, f"{shown(name)} is encrypted")
        is_hidden = any(step.startswith(".") or step in LITTER_FOLDERS or step in LITTER_NAMES for step in steps)
        if name.endswith("/") or is_hidden:
            continue
        if name in found:
            raise _refused(archive, f"it has {shown(name)} twice")
        found[name] = _Member(name, member)
    return list(found.values())


def _decode_names(opened: zipfile.ZipFile, archive: str) -> list[_Member]:
    """All entries with their names. Raises InputError WDS240 if the encoding of a name is not known."""
    found, unknown = list[_Member](), list[bytes]()
    for entry in opened.infolist():
        raw = raw_zip_name(entry)
        try:
            name = decode_zip_name(raw, entry.flag_bits, entry.extra)
        except UnicodeDecodeError:
            name = None
        unknown += [raw] if name is None else []
        found.append(_Member((name or "").replace("\\", "/"), entry))
    if unknown:
        encoding, folder = guess_encoding(unknown), os.path.splitext(archive)[0]
        unpack = f"python -m zipfile --metadata-encoding {encoding} -e {shlex.quote(archive)} {shlex.quote(folder)}"
        raise InputError(
            f"the zip does not say the encoding of its names, and {len(unknown):,} of {len(found):,} are not UTF-8; in "
            f"{encoding}, the first is {shown(unknown[0].decode(encoding))}",
            where=shown(archive),
            hint=f"unpack it with its encoding, by Python 3.11 or newer: `{unpack}`; then run "
            f"{shell_command('prepare', folder, 'DEST')}; names that look wrong have another encoding",
            code="WDS240",
        )
    return found


def _check_sizes(members: Sequence[_Member], archive: str, folder: str) -> None:
    claimed = sum(member.entry.file_size for member in members)
    packed = os.path.getsize(archive)
    if claimed > packed * _MAX_RATIO:
        raise _refused(archive, f"it has {packed:,} bytes and claims to hold {claimed:,}")
    with translate_os_errors(folder, "read"):
        free = shutil.disk_usage(folder).free
    if claimed + _SPARE_BYTES > free:
        raise StorageError(
            f"the zip holds {claimed:,} bytes, and the disk of the destination has {free:,} free",
            where=shown(archive),
            hint="choose a DEST on a larger disk: the files are unpacked beside it",
            code="WDS401",
        )


def _extract(opened: zipfile.ZipFile, member: _Member, archive: str, target: str) -> None:
    """Write one file, with the time that the archive has for it, so that the next run finds the same file."""
    if os.path.lexists(target):
        raise _refused(archive, f"{shown(member.name)} is in the source twice")
    left = member.entry.file_size
    try:
        with translate_os_errors(target), opened.open(member.entry) as content:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "xb") as file:
                while chunk := _read_chunk(content):
                    left -= len(chunk)
                    if left < 0:
                        raise zipfile.BadZipFile(f"{member.name} is longer than the zip says")
                    file.write(chunk)
    except ZIP_ERRORS as error:
        raise damaged_file_error(f"the zip cannot be read: {error}", archive) from error
    seconds = 0
    with suppress(ValueError):  # month 0 in files of odd tools
        seconds = calendar.timegm((*member.entry.date_time, 0, 0, 0))
    os.utime(target, (seconds, seconds))


def _read_chunk(content: IO[bytes]) -> bytes:
    try:
        return content.read(_CHUNK_BYTES)
    except OSError as error:
        if error.errno is not None:
            raise
        raise ValueError(error) from error  # damage that bzip2 found


def _refused(archive: str, why: str) -> InputError:
    return InputError(
        f"the zip is not unpacked: {why}",
        where=shown(archive),
        hint="unpack it yourself, and name the folder of its files",
        code="WDS240",
    )
