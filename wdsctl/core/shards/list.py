"""List the shards of a dataset: every tar, JSONL file, or shard of another format below the root, sorted by path.

A dataset has one format of shards, which file names alone decide: tars and JSONL files first, then the formats that are
read in place. In a folder with an index.json (MDS, LitData), only the shards that it lists count. The listing reports
compressed files as findings. In a remote store, each file has a number derived from its etag in place of a modification
time: it changes with the content.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from stat import S_ISREG
from typing import TYPE_CHECKING

from wdsctl.core.dataset.root_spec import ALL_SHARDS, ShardSelection
from wdsctl.core.dataset.shard_names import (
    COMPRESSED_JSONL_SUFFIXES,
    COMPRESSED_TAR_SUFFIXES,
    ShardFormat,
    compressed_format,
    describe_format,
    is_jsonl_name,
    may_be_raw,
    shard_format,
    unpack_command,
)
from wdsctl.core.errors import Finding, InputError, translate_os_errors
from wdsctl.core.records import Records
from wdsctl.core.safe_open import allow_path_hint, is_beneath, is_folder_entry, is_link_outside
from wdsctl.core.shards.in_place.kinds import IN_PLACE_FORMATS
from wdsctl.core.shards.readers import read_small_file
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.remote_errors import etag_number
from wdsctl.core.text import pluralize, printable_path
from wdsctl.core.urls import is_url, redact_secrets

if TYPE_CHECKING:
    from wdsctl.core.shards.in_place.folder_index import FolderIndexes


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A shard as the listing of a folder describes it. `path` is relative to the root, with `/`."""

    path: str
    size: int  # bytes
    mtime_ns: int  # in a remote store, a number that changes with the content
    readable: bool = True


def keep_one_format(
    root: str, shards: Sequence[ShardFile], catalog_paths: Iterable[str]
) -> tuple[Sequence[ShardFile], list[Finding]]:
    """Keep the tars or the JSONL files, whichever is the dataset's format, and report the others in one finding.

    `catalog_paths`: the shard paths in the catalog; the first one decides the format. Raises InputError WDS127 if the
    folder has both tars and JSONL files and the catalog lists no shard.
    """
    if sum(is_jsonl_name(shard.path) for shard in shards) in (0, len(shards)):
        return shards, []
    lines = [shard for shard in shards if is_jsonl_name(shard.path)]
    tars = [shard for shard in shards if not is_jsonl_name(shard.path)]
    first = next(iter(catalog_paths), None)
    if first is None:
        raise InputError(
            f"{pluralize(len(tars), 'tar')} and {pluralize(len(lines), 'JSONL file')} in one folder: "
            "a dataset has one format",
            where=redact_secrets(root),
            hint=f"pass the file {lines[0].path} instead of the folder, or ignore one format: `--exclude '*.jsonl'` "
            "or `--exclude '*.tar'`",
            code="WDS127",
        )
    kept, left = (lines, tars) if is_jsonl_name(first) else (tars, lines)
    message = "tars in a JSONL dataset" if kept is lines else "JSONL files in a dataset of tars"
    finding = Finding(
        code="WDS127", severity="note", message=f"{message}: not indexed", shard=left[0].path, count=len(left)
    )
    return kept, [finding]


def _keep_in_place(root: str, shards: Sequence[ShardFile], known: str | None, *, is_mixed: bool) -> list[ShardFile]:
    """Keep the shards of one format: that of `known`, a path in the catalog, or the only one.

    `is_mixed`: other files may be raw data. Zips among them are raw data, too. Raises InputError WDS127 if there are
    several formats and no catalog.
    """
    by_format: dict[ShardFormat | None, list[ShardFile]] = {}
    for shard in shards:
        by_format.setdefault(shard_format(shard.path), []).append(shard)
    if known is not None:
        return by_format.get(shard_format(known), [])
    if len(by_format) > 1:
        counts = [f"{len(some):,} {describe_format(some[0].path)}" for some in by_format.values()]
        raise InputError(
            f"{' and '.join(counts)} in one folder: a dataset has one format",
            where=redact_secrets(root),
            hint="pass a folder that has one format, or ignore the others, for example with `--exclude '*.zip'`",
            code="WDS127",
        )
    return [] if is_mixed and shard_format(shards[0].path) == "zip" else list(shards)


@dataclass(frozen=True, slots=True)
class ShardListing:
    shards: Sequence[ShardFile]
    findings: tuple[Finding, ...]  # compressed tars, folders that cannot be read
    unmatched_selection: tuple[str, ...] = ()  # names and globs of the selection that match no shard
    unused_excludes: tuple[str, ...] = ()  # patterns of `exclude` that match nothing
    other_files: int = 0  # neither shards nor files that may lie beside shards
    other_example: str = ""  # the first of these


def list_shards(
    root: str,
    exclude: Sequence[str] = (),
    *,
    only: str = "",
    catalog_paths: Iterable[str] = (),
    selection: ShardSelection = ALL_SHARDS,
) -> ShardListing:
    """List the shards below `root`, sorted by path, without hidden files and folders.

    `exclude`: shell patterns on the relative path. `selection`: the shards to list. `only`: the name of the file below
    `root` if the dataset is one file. `catalog_paths`: the shard paths in the catalog, which decide the dataset's
    format. If the catalog has none, a folder with both tars and JSONL files raises InputError WDS127. Below a URL, a
    number derived from the etag replaces a shard's modification time. Raises InputError if `root` does not exist.
    """
    shards = Records(ShardFile)
    findings: list[Finding] = []
    there: list[str] = []
    last, is_sorted = "", True
    used: set[str] = set()
    in_place: list[ShardFile] = []
    unread: list[tuple[ShardFormat, Finding]] = []
    others, example = 0, ""
    known = next(iter(catalog_paths), None)
    for path, entry in _entries(root, only, findings):
        lower = path.lower()
        if not selection.is_all:
            if not (
                selection.includes(path)
                and (shard_format(path) or lower.endswith((*COMPRESSED_TAR_SUFFIXES, *COMPRESSED_JSONL_SUFFIXES)))
            ):
                continue
            there.append(path)
        if exclude and (excluding := [pattern for pattern in exclude if fnmatch.fnmatchcase(path, pattern)]):
            used.update(excluding)
            continue
        form = shard_format(path)
        if form is not None:
            found = entry if isinstance(entry, ShardFile) else _stat_file(path, entry)
            if isinstance(found, Finding):
                unread.append((form, found))
            elif form in IN_PLACE_FORMATS:
                in_place.append(found)
            else:
                shards.append(found)
                last, is_sorted = path, is_sorted and last <= path
            continue
        findings += _compressed_findings(path, lower)
        if may_be_raw(path):
            others += 1
            example = example or path
    kept: Sequence[ShardFile]
    if in_place and (shard_format(known) in IN_PLACE_FORMATS if known is not None else not shards):
        in_place = _keep_in_place(root, in_place, known, is_mixed=bool(others) and selection.is_all)
        kept, differences = _compare_with_indexes(root, in_place, exclude, selection)
        kept = sorted(kept, key=lambda shard: shard.path)
    else:
        kept, differences = keep_one_format(root, shards, () if known is None else (known,))
        others += len(in_place)
        example = example or next((shard.path for shard in in_place), "")
    # Without shards of their format, zips are raw data.
    kept_form = shard_format(kept[0].path) if kept else None
    findings += [found for form, found in unread if form != "zip" or kept_form == "zip"]
    findings += differences
    if not is_sorted:
        kept = sorted(kept, key=lambda shard: shard.path)
    findings.sort(key=lambda finding: finding.shard)
    unused = tuple(pattern for pattern in exclude if pattern not in used)
    return ShardListing(kept, tuple(findings), tuple(selection.unmatched(there)), unused, others, example)


def _compressed_findings(path: str, lower: str) -> list[Finding]:
    """The finding about a compressed shard; none for other files."""
    if lower.endswith(COMPRESSED_TAR_SUFFIXES):
        message = "a compressed shard has no random access and is skipped; run `wdsctl convert` to decompress it"
    elif tool := unpack_command(lower):
        message = f"compressed JSONL has no random access and is skipped; decompress it with `{tool}`"
    elif packed := compressed_format(path):
        command = IN_PLACE_FORMATS[packed].copy_command
        message = f"a compressed shard has no random access and is skipped; `{command}` copies its samples into tars"
    else:
        return []
    return [Finding(code="WDS113", severity="error", message=message, shard=printable_path(path))]


def _compare_with_indexes(
    root: str, shards: Sequence[ShardFile], exclude: Sequence[str], selection: ShardSelection
) -> tuple[Sequence[ShardFile], list[Finding]]:
    """Return the shards that their index.json lists, and how they differ from it. Only MDS and LitData have one."""
    form = shard_format(shards[0].path) if shards else None
    if form not in ("mds", "litdata"):
        return shards, []
    indexes = folder_indexes(
        root, form, shards, lambda path: selection.includes(path) and not is_excluded(path, exclude)
    )
    unlisted = set(indexes.unlisted)
    return [shard for shard in shards if shard.path not in unlisted] if unlisted else shards, indexes.findings


def folder_indexes(
    root: str, form: ShardFormat, shards: Sequence[ShardFile], is_selected: Callable[[str], bool] = lambda _: True
) -> FolderIndexes:
    """Read the index.json of the folders of these shards. Raises storage errors.

    `is_selected`: whether a path belongs to the dataset: others are not missing.
    """
    from wdsctl.core.shards.in_place.folder_index import read_folder_indexes  # brings readers that few datasets need

    with closing(storage_for(root)) as storage:
        return read_folder_indexes(
            form,
            {shard.path: shard.size for shard in shards},
            lambda path: read_small_file(storage, f"{root}/{path}"),
            is_selected,
        )


def list_files(root: str, exclude: Sequence[str] = ()) -> ShardListing:
    """List all files below `root` that are not hidden, with any extension, in the form of `list_shards`."""
    files: list[ShardFile] = []
    findings: list[Finding] = []
    for path, entry in walk_remote(root) if is_url(root) else walk_local(root, "", findings, set()):
        if is_excluded(path, exclude):
            continue
        found = entry if isinstance(entry, ShardFile) else _stat_file(path, entry, "file")
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
    """Return a `ShardFile` for each of these paths below the folder `root` that is an accessible regular file.

    Cost: one stat a path.
    """
    found = (_stat_file(path, os.path.join(root, path)) for path in paths)
    return [each for each in found if isinstance(each, ShardFile)]


def _stat_file(path: str, whole: str, noun: str = "shard") -> ShardFile | Finding:
    if printable_path(path) != path:
        message = f"a {noun} whose name is not UTF-8 is skipped; rename it"
        return Finding(code="WDS116", severity="error", message=message, shard=printable_path(path))
    try:
        stat = os.stat(whole)
    except OSError as error:
        message = f"cannot access the {noun}: {error.strerror}"
        return Finding(code="WDS002", severity="error", message=message, shard=path)
    if not S_ISREG(stat.st_mode):
        return Finding(code="WDS002", severity="error", message=f"the {noun} is not a regular file", shard=path)
    return ShardFile(path, stat.st_size, stat.st_mtime_ns, os.access(whole, os.R_OK))


class ForbiddenFolder(Exception):  # noqa: N818 - a result of the walk; the caller writes the message
    """A walk reached a forbidden folder. The argument is the folder's path below the root."""


def list_paths(root: str) -> Iterator[str]:
    """The paths below `root`, a folder or URL, of all files that are not hidden. Cost: a walk, or a listing."""
    return (path for path, _ in (walk_remote(root) if is_url(root) else walk_local(root, "", [], set())))


def _entries(
    root: str, only: str, findings: list[Finding]
) -> Iterable[tuple[str, str]] | Iterable[tuple[str, ShardFile]]:
    if not only:
        return walk_remote(root) if is_url(root) else walk_local(root, "", findings, set())
    if is_url(root):
        return [(only, remote_file(root, only))]
    with translate_os_errors(root, "list"), os.scandir(root) as entries:
        return [(only, entry.path) for entry in entries if entry.name == only]


def is_empty_folder(root: str) -> bool:
    """Whether `root` has no entries. On a disk, hidden files count; in a remote store they do not."""
    return not (any(walk_remote(root)) if is_url(root) else os.listdir(root))


def walk_remote(root: str) -> Iterator[tuple[str, ShardFile]]:
    """(path below the URL, file) of every file that is not hidden. Raises as `remote_files`."""
    return ((file.path, file) for file in remote_files(root))


def walk_local(
    root: str,
    below: str,
    findings: list[Finding],
    above: set[tuple[int, int]],
    forbidden: frozenset[tuple[int, int]] = frozenset(),
    links: list[str] | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield (path relative to `root`, whole path) of every file below the folder `root`/`below` that is not hidden.

    Sorted by path. Memory: the names in the folders that lead to a file.

    Follows links that stay inside `root` or lead to a path that the user allows, but no loops. `above`: (device, inode)
    of the folders that lead here. `links`: gets the names of links to folders.
    """
    folder = os.path.join(root, below)
    with translate_os_errors(folder, "list"):
        stat = os.stat(folder)
        mark = (stat.st_dev, stat.st_ino)
        if mark in above:
            return
        if below and mark in forbidden:
            raise ForbiddenFolder(below)
        try:
            with os.scandir(folder) as entries:
                names, links_outside, linked = _read_folder(entries, root)
        except PermissionError as error:
            if not below:
                raise
            message = f"cannot read the folder: {error.strerror}"
            findings.append(Finding(code="WDS402", severity="error", message=message, shard=printable_path(below)))
            return
    if links is not None:
        links.extend(linked)
    start = folder if folder.endswith("/") else f"{folder}/"
    names.sort()  # a folder ends with "/", so this is the order of the paths below
    for name in names:
        path = f"{below}/{name}" if below else name
        if name in links_outside:
            findings.append(outside_finding(root, path))
        elif name.endswith("/"):
            yield from walk_local(root, path[:-1], findings, above | {mark}, forbidden, links)
        else:
            yield path, start + name


def _read_folder(entries: Iterable[os.DirEntry[str]], root: str) -> tuple[list[str], set[str], list[str]]:
    """(names, those of links that leave `root`, those of links to folders inside).

    Leaves out hidden files; a folder has `/` after its name.
    """
    names: list[str] = []
    links_outside: set[str] = set()
    linked: list[str] = []
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if is_link_outside(entry, root):
            links_outside.add(entry.name)
            names.append(entry.name)
        elif is_folder_entry(entry):
            names.append(f"{entry.name}/")
            if entry.is_symlink():
                linked.append(entry.name)
        else:
            names.append(entry.name)
    return names, links_outside, linked


def is_linked_outside(root: str, path: str) -> bool:
    """Whether a link takes `path` out of the folder `root`, to a place that the user has not allowed."""
    return not is_beneath(os.path.join(root, path), (root,))


def outside_finding(root: str, path: str) -> Finding:
    """Return the finding WDS409 for a link that leads out of the dataset."""
    real = os.path.realpath(os.path.join(root, path))
    message = f"a link that leads out of the dataset, to {printable_path(real)}, is skipped; {allow_path_hint(real)}"
    return Finding(code="WDS409", severity="error", message=message, shard=printable_path(path))


def remote_files(root: str) -> list[ShardFile]:
    """List every file below the URL `root` that is not hidden, with its path relative to `root`.

    Raises InputError if the bucket or folder does not exist or is a file, PermissionDenied, StorageError.
    """
    from wdsctl.core.storage.remote import FsspecStorage  # brings asyncio, which local datasets do not need

    found = FsspecStorage(root).files()
    if any(not path for path, _ in found):
        raise InputError(
            "the dataset is a file, not a folder",
            where=redact_secrets(root),
            hint="pass the folder of the shards",
        )
    files = [ShardFile(path, int(facts["size"]), etag_number(facts)) for path, facts in found]
    return [file for file in files if not any(name.startswith(".") for name in file.path.split("/"))]


def remote_file(root: str, name: str) -> ShardFile:
    """Return one file of a remote store as a `ShardFile`. Raises InputError if the file does not exist."""
    from wdsctl.core.storage.remote import FsspecStorage

    facts = FsspecStorage(root).facts(f"{root}/{name}")
    return ShardFile(name, int(facts["size"]), etag_number(facts))
