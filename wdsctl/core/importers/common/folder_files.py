"""List the files below a folder, report those that become no sample, and make samples of a list in memory.

Importers of folders use it. A link that leads out of the folder ends the listing (WDS409), unless its name is hidden.
"""

from __future__ import annotations

import os
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from hashlib import blake2b
from typing import Generic, NamedTuple, TypeVar

from wdsctl.core.dataset.raw_folder_walk import LITTER_NAMES
from wdsctl.core.dataset.shard_names import UNPACK_COMMANDS
from wdsctl.core.errors import Finding, WdsctlError, translate_os_errors
from wdsctl.core.file_limits import read_whole
from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.samples import SourceSample, failed_sample
from wdsctl.core.importers.protocol import FilePart
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION, MediaType
from wdsctl.core.safe_open import check_beneath, is_link_outside
from wdsctl.core.split_rules.names import SPLIT_VALUES, STANDARD_SPLITS, can_name_split, split_of_value
from wdsctl.core.storage import source_files
from wdsctl.core.text import join_with_and, path_for_message, pluralize

#: Names of folders, in lower case, that are splits.
SPLIT_NAMES = frozenset(STANDARD_SPLITS)

_PROBED_FOLDERS = 50

#: Characters that have a meaning in patterns of shards.
PATTERN_CHARACTERS = re.compile(r"[*?\[\]{}\\:]")

_SPLIT_FOLDER = re.compile(r"[A-Za-z0-9]+([-_][A-Za-z0-9_-]+)?")

_DATED_SPLIT = re.compile(f"({'|'.join(sorted(SPLIT_NAMES, key=len, reverse=True))})(?:[-_]?(?:set|data))?[-_]?[0-9]*")

#: A folder that archives made on a Mac have beside their contents.
LITTER_FOLDERS = frozenset({"__MACOSX", "@eaDir"})

_ARCHIVE_ENDINGS = (
    *(f".tar{ending}" for ending in UNPACK_COMMANDS),
    ".zip",
    ".rar",
    ".7z",
    ".tar",
    ".tgz",
    ".tbz2",
    ".txz",
)
_DOCUMENTS = re.compile(
    "(readme|license|licence|copying|notice|citation|changelog|authors|about)([-_. ].*)?", re.IGNORECASE
)


def partition_split(name: str) -> str:
    """The split that a folder of a Hive partition states, such as `split=val`; empty for all other folders.

    `subset` and `partition` often state something else: their value must be a name of a split.
    """
    field, _, value = name.partition("=")
    split = split_of_value(value)
    if field.lower() not in ("split", "subset", "partition") or not can_name_split(split):
        return ""
    is_split = field.lower() == "split" or split in SPLIT_VALUES
    return split if is_split and not PATTERN_CHARACTERS.search(name) else ""


def is_split_folder(name: str) -> bool:
    """Whether a folder is named after a split, such as `train`, `val_small` or `split=val`."""
    if partition_split(name):
        return True
    return bool(_SPLIT_FOLDER.fullmatch(name)) and re.split("[-_]", name.lower())[0] in SPLIT_NAMES


_DAY = re.compile(r"(?:19|20)[0-9]{2}[-_. ]?(?:0[1-9]|1[0-2])(?:[-_. ]?(?:0[1-9]|[12][0-9]|3[01]))?(?![0-9])")
_CAMERA = re.compile("[1-9][0-9]{2}[0-9A-Z_]{5}")  # JEITA CP-3461, Design rule for Camera File system


@lru_cache(maxsize=1024)
def split_of_folder(name: str) -> str:
    """The word for a split in the name of a folder: `train`, `val2017`, `test_data`, `split=val`; empty if none."""
    found = _DATED_SPLIT.fullmatch(name.lower())
    return found[1] if found else partition_split(name)


def is_recording_folder(name: str) -> bool:
    """Whether a folder is named after a day or month, or by a camera, such as `2024-05-06`, `202405` and `101CANON`: it
    says when files were recorded, and is neither a class nor a part.
    """
    return _DAY.match(name) is not None or (_CAMERA.fullmatch(name) is not None and not name.isdecimal())


def split_of_path(path: str) -> str:
    """The first word for a split in the names of the folders that a path leads through; empty if none."""
    return next(filter(None, map(split_of_folder, path.split("/")[:-1])), "")


def has_split_name(name: str) -> bool:
    """Whether the name of a folder is that of a split and nothing else: `train`, `split=val`, but not `val2017`."""
    split = split_of_folder(name)
    return bool(split) and split in (name.lower(), partition_split(name))


def normalize_split_names(words: Iterable[str]) -> dict[str, str]:
    """The split that each word in the names of folders means: `dev`, `valid` and `validation` are `val`.

    Words keep their own names if two of them mean the same split, such as `dev` and `val`.
    """
    named = {word: STANDARD_SPLITS.get(word, word) for word in words}
    counts = Counter(named.values())
    return {word: split if counts[split] == 1 else word for word, split in named.items()}


def media_type_of(path: str) -> MediaType | None:
    """The media type of a file by its extension; None for files that are not media."""
    media_format = FORMAT_BY_EXTENSION.get(extension_of_name(path))
    return media_format.media_type if media_format else None


def is_document(path: str) -> bool:
    """Whether a file is about the data by its name, such as `README.md`."""
    return bool(_DOCUMENTS.fullmatch(path.rpartition("/")[2]))


class FolderNames(NamedTuple):
    """The names in one folder, sorted. `hidden`: the number of names that begin with a dot, and of desktop litter.
    `outside`: links that lead out of the root, which are in neither list.
    """

    folders: list[str]
    files: list[str]
    hidden: int
    outside: Sequence[str] = ()


_kept_listings: ContextVar[dict[tuple[str, str], FolderNames] | None] = ContextVar("kept listings", default=None)


@contextmanager
def keep_listings() -> Iterator[None]:
    """List every folder once within this context: all formats look at the names of a source to recognise it."""
    token = _kept_listings.set({})
    try:
        yield
    finally:
        _kept_listings.reset(token)


def list_folder(folder: str, root: str) -> FolderNames:
    """List a folder. Raises PermissionDenied WDS409 if an entry leads out of `root`, OSError."""
    names = scan_folder(folder, root)
    if names.outside:
        check_beneath(os.path.join(folder, names.outside[0]), root)
    return names


def scan_folder(folder: str, root: str) -> FolderNames:
    """List a folder, with entries that lead out of `root` apart. Callers do not change the lists. Raises OSError."""
    kept = _kept_listings.get()
    if kept is not None and (folder, root) in kept:
        return kept[folder, root]
    folders, files, outside, hidden = list[str](), list[str](), list[str](), 0
    with source_files.scan(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name in LITTER_NAMES or entry.name in LITTER_FOLDERS:
                hidden += 1
            elif is_link_outside(entry, root):
                outside.append(entry.name)
            else:
                (folders if entry.is_dir() else files).append(entry.name)
    names = FolderNames(sorted(folders), sorted(files), hidden, sorted(outside))
    if kept is not None:
        kept[folder, root] = names
    return names


def walk_folders(
    root: str, prefix: str = "", above: frozenset[tuple[int, int]] = frozenset()
) -> Iterator[tuple[str, FolderNames]]:
    """Yield (path below the root with a trailing slash, its names) for a folder and all below, in the order of names.

    Follows links, except to a folder that contains them. Keeps the names of one folder per level.
    """
    folder = os.path.join(root, prefix)
    with translate_os_errors(folder, "list"):
        here = source_files.folder_identity(folder)
        names = list_folder(folder, root)
    if here in above:
        return
    yield prefix, names
    for name in names.folders:
        yield from walk_folders(root, f"{prefix}{name}/", above | {here})


def probe_folders(root: str, *, depth: int, limit: int | None = _PROBED_FOLDERS) -> Iterator[tuple[str, FolderNames]]:
    """Yield (path below the root with a trailing slash, its names) for a folder, those in it, and so on to `depth`.

    At most `limit` folders, so that recognising a source does not list all of it. Nothing if the root is no folder.
    Raises OSError.
    """
    folders = deque([("", 0)] if source_files.is_folder(root) else [])
    while folders and (limit is None or limit > 0):
        prefix, level = folders.popleft()
        names = scan_folder(os.path.join(root, prefix), root)
        yield prefix, names
        limit = limit if limit is None else limit - 1
        if level < depth:
            folders.extend((f"{prefix}{name}/", level + 1) for name in names.folders)


def walk_files(root: str) -> Iterator[str]:
    """Yield the paths of all files below the root, relative to it."""
    for prefix, names in walk_folders(root):
        yield from (f"{prefix}{name}" for name in names.files)


def digest_of_folder(root: str, paths: Iterable[str]) -> bytes:
    """16 bytes that change when the name, size or modification time of one of these files changes."""
    digest = blake2b(digest_size=16)
    for path in paths:
        try:
            status = source_files.stat_file(os.path.join(root, path))
            facts = f"{status.size}\0{status.version}"
        except OSError as error:
            facts = str(error.errno)
        digest.update(f"{path}\0{facts}\0".encode("utf-8", "surrogateescape"))
    return digest.digest()


class FolderFiles:
    """All files below a folder, listed once. About 200 bytes of memory per file.

    `paths`: relative to `root`, in order, as keys. `hidden`: see `FolderNames`.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.paths: dict[str, None] = {}
        self.hidden = 0
        for prefix, names in walk_folders(root):
            self.paths.update((f"{prefix}{name}", None) for name in names.files)
            self.hidden += names.hidden

    def part(self, name: str, path: str) -> FilePart:
        """A part that is the file at `path`. Raises StorageError if it cannot be read, such as a broken link."""
        full_path = os.path.join(self.root, path)
        with translate_os_errors(full_path, "read"):
            size = source_files.stat_file(full_path).size
        return FilePart(name, full_path, 0, size, self.root)

    def read(self, path: str, max_bytes: int) -> bytes:
        """The content of a small file. Raises InputError WDS421 if it is larger, StorageError."""
        full_path = os.path.join(self.root, path)
        with translate_os_errors(full_path, "read"), source_files.open_file(full_path) as file:
            return read_whole(file, full_path, max_bytes)


Row = TypeVar("Row")


class ListedSamples(Generic[Row]):
    """The samples of a list in memory. `make` turns a row into a sample; its errors become the sample's `fault`.

    `close` closes what `make` reads.
    """

    def __init__(
        self,
        files: FolderFiles,
        rows: Sequence[Row],
        make: Callable[[Row], SourceSample],
        *,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._files = files
        self._rows = rows
        self._make = make
        self.close = close

    def samples(self, start: int) -> Iterator[SourceSample]:
        for sample_index in range(start, len(self._rows)):
            try:
                sample = self._make(self._rows[sample_index])
            except WdsctlError as error:
                sample = failed_sample(sample_index, error)
            yield sample._replace(parts=tuple(sorted(sample.parts, key=lambda part: part.name)))

    def digest(self) -> bytes:
        """A digest of the names, sizes and times of all files of the folder."""
        return digest_of_folder(self._files.root, self._files.paths)


def unused_files_findings(paths: Iterable[str], reason: str, hidden: int = 0) -> list[Finding]:
    """Findings about files that are in no sample: archives (WDS240), documents and all others (WDS239).

    Documents, such as README, are a warning, hidden files a note, all others an error. `reason`: why no sample has the
    others.
    """
    archives, documents, others = list[str](), list[str](), list[str]()
    for path in paths:
        name = path.rpartition("/")[2]
        is_archive = name.lower().endswith(_ARCHIVE_ENDINGS)
        (archives if is_archive else documents if is_document(path) else others).append(path)
    findings = []
    if archives:
        findings.append(
            Finding(
                code="WDS240",
                severity="error",
                message=f"{pluralize(len(archives), 'archive')} in the source, such as "
                f"{path_for_message(archives[0])}: wdsctl does not read archives; unpack them in place, move the "
                "archives elsewhere, and run the command again",
                count=len(archives),
            )
        )
    if others:
        findings.append(unused_finding(others, reason))
    if documents:
        findings.append(unused_finding(documents, "a document about the data", severity="warning"))
    if hidden:
        findings.append(
            Finding(
                code="WDS239",
                severity="note",
                message=f"{pluralize(hidden, 'hidden file or folder', 'hidden files or folders')} left out",
                count=hidden,
            )
        )
    return findings


def unused_finding(paths: Sequence[str], reason: str, *, severity: str = "error") -> Finding:
    """The finding WDS239 about files that are in no sample."""
    endings = Counter(os.path.splitext(path)[1].lower() or "without an extension" for path in paths)
    kinds = join_with_and([f"{count:,} {ending}" for ending, count in sorted(endings.items())][:6])
    are = "file is" if len(paths) == 1 else "files are"
    return Finding(
        code="WDS239",
        severity="warning" if severity == "warning" else "error",
        message=f"{len(paths):,} {are} in no sample ({kinds}), such as {path_for_message(paths[0])}: {reason}",
        count=len(paths),
    )
