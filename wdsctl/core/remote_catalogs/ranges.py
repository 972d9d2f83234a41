"""Large offsets files that are fetched in part: a node that reads 1 % of the samples does not fetch all of the file.

The local file is sparse. It has the bytes of the whole file at their places, as far as they were fetched, and 40 more:
`WDSPART\\n` and the file's SHA-256. No whole file has such a length, so a reader that does not know partial files
refuses one. Beside it are, in the control folder of the mirror, `ranges/SHA256`, a byte for each chunk that is 1 if the
chunk is there, and `ranges/SHA256.json`, which names the object. A chunk is flushed before it is marked, so a process
or a machine that dies leaves no chunk that is marked and not there.

The SHA-256 of a file can only be checked as a whole. The reader checks each block by the checksums in the file
(`wdsctl.core.offsets.block_checksums`), which are fetched as the block is.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from wdsctl.core.directories import is_private, user_data_folder
from wdsctl.core.errors import CatalogError, translate_os_errors
from wdsctl.core.file_limits import read_whole
from wdsctl.core.files import MALFORMED_ERRORS, make_folder, open_own, remove_file, write_pieces
from wdsctl.core.json_text import read_json
from wdsctl.core.remote_catalogs.mirror import PARTIAL_SUFFIX_BYTES, Mirror, is_offsets_file, take_lock
from wdsctl.core.remote_catalogs.pointer import PublishedFile
from wdsctl.core.remote_catalogs.store import CatalogStore
from wdsctl.core.urls import redact_secrets

CHUNK_BYTES = 1 << 20  # fetched together
MIN_PARTIAL_BYTES = 64 << 20  # smaller files are fetched as a whole
_FETCH_BYTES = 64 << 20  # of chunks in memory
_MAGIC = b"WDSPART\n"

#: Mirror -> the URL of its catalog with user and password, in the processes that have located the dataset.
_URLS: dict[str, str] = {}


def remember_url(folder: str, url: str) -> None:
    """Let this process, and its forks, fetch ranges for the mirror in `folder` with the user's own URL."""
    _URLS[folder] = url


def is_mirror(folder: str) -> bool:
    """Whether a folder is the mirror of a URL that this process, or an earlier one of this user, has located.

    Only the notes in such a folder name URLs: a dataset may have the same files from anyone.
    """
    return folder in _URLS or (os.path.dirname(folder) == user_data_folder() and is_private(user_data_folder()))


def is_fetched_in_part(file: PublishedFile) -> bool:
    return is_offsets_file(file.name) and file.size >= MIN_PARTIAL_BYTES


def create_partial_file(mirror: Mirror, store: CatalogStore, file: PublishedFile, path: str) -> None:
    """Create the sparse file at `path` with its first chunk, which has the header."""
    ranges = mirror.ranges_path(file.sha256)
    make_folder(os.path.dirname(ranges))
    for each in (path, ranges):
        remove_file(each)
    first_end = min(CHUNK_BYTES, file.size)
    [first] = store.read_ranges(file, [(0, first_end)])
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with translate_os_errors(path), open(os.open(path, flags, 0o666), "wb") as draft:
        draft.write(first)
        draft.truncate(file.size)
        draft.seek(file.size)
        draft.write(_MAGIC + bytes.fromhex(file.sha256))
        draft.flush()
        os.fsync(draft.fileno())
    facts = {"url": redact_secrets(store.url), "name": file.name, "size": file.size}
    write_pieces(f"{ranges}.json", [json.dumps(facts).encode()])
    chunks = -(-file.size // CHUNK_BYTES)
    write_pieces(ranges, [b"\1", bytes(chunks - 1)])


def forget_ranges(mirror: Mirror, files: Iterable[PublishedFile]) -> None:
    """Remove the notes about partial files other than these."""
    kept = {each for file in files for each in (file.sha256, f"{file.sha256}.json")}
    folder = mirror.control_path("ranges")
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if name not in kept:
            remove_file(os.path.join(folder, name))


class PartialFile:
    """The partial file at `path`, in a mirror, of which `data` is the map. Works after a fork.

    Raises CatalogError WDS302 if the file, or what is noted about it, is damaged.
    """

    def __init__(self, path: str, data: memoryview) -> None:
        suffix = bytes(data[-PARTIAL_SUFFIX_BYTES:])
        if not suffix.startswith(_MAGIC):
            raise _damaged_error(path)
        folder = os.path.dirname(path)
        self._path = path
        sha256 = suffix[len(_MAGIC) :].hex()
        self._ranges = ranges = Mirror(folder, "").ranges_path(sha256)
        try:
            with open_own(f"{ranges}.json") as file:
                facts = read_json(read_whole(file, f"{ranges}.json"))
            self._file = PublishedFile(str(facts["name"]), len(data) - PARTIAL_SUFFIX_BYTES, sha256)
            url = _URLS.get(folder) or str(facts["url"])
            with open(os.open(ranges, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b") as present:
                self._is_present = mmap.mmap(present.fileno(), 0)
        except (OSError, *MALFORMED_ERRORS) as error:
            raise _damaged_error(path) from error
        if len(self._is_present) != -(-self._file.size // CHUNK_BYTES):
            raise _damaged_error(path)
        self._store = CatalogStore(url)

    @property
    def size(self) -> int:
        """The size of the whole file in bytes."""
        return self._file.size

    def fetch(self, spans: Sequence[tuple[int, int]]) -> None:
        """Fetch the chunks that these spans of bytes, (start, stop), need and that are not there yet."""
        needed: set[int] = set()
        for start, stop in spans:
            needed.update(range(start // CHUNK_BYTES, -(-min(stop, self.size) // CHUNK_BYTES)))
        missing = sorted(chunk for chunk in needed if not self._is_present[chunk])
        per_step = _FETCH_BYTES // CHUNK_BYTES
        for start in range(0, len(missing), per_step):
            with self._lock():  # the processes of a machine fetch a chunk once
                some = [chunk for chunk in missing[start : start + per_step] if not self._is_present[chunk]]
                if some:
                    self._fetch_chunks(some)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with translate_os_errors(self._ranges):
            handle = os.open(self._ranges, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            take_lock(handle, self._ranges, shared=False, wait=True)
            yield
        finally:
            os.close(handle)

    def _fetch_chunks(self, chunks: Sequence[int]) -> None:
        ranges = [(chunk * CHUNK_BYTES, min((chunk + 1) * CHUNK_BYTES, self.size)) for chunk in chunks]
        found = self._store.read_ranges(self._file, ranges)
        with translate_os_errors(self._path):
            handle = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                for (start, _), data in zip(ranges, found, strict=True):
                    _write_at(handle, data, start)
                os.fdatasync(handle)
            finally:
                os.close(handle)
        for chunk in chunks:
            self._is_present[chunk] = 1


def _write_at(handle: int, data: bytes, start: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(handle, memoryview(data)[done:], start + done)


def _damaged_error(path: str) -> CatalogError:
    return CatalogError(
        "the local copy of a part of the offsets file is damaged",
        where=path,
        hint="remove the local file: the next command fetches the part again",
        code="WDS302",
    )
