"""Opening the store of a reference in a blend file; and prepared datasets as stores.

`PreparedStore` looks up samples and parts of tar or JSONL shards, in the generation in which it was opened.
`PrimaryStore` is the dataset of one crude sample: `.jpg` is a part of this sample, any other name an entry.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from wdsctl.core.catalog.keyframe_file import KeyframeFile, open_keyframes
from wdsctl.core.dataset.location import DatasetLocation, shell_command
from wdsctl.core.dataset.view_root import is_blend_file
from wdsctl.core.errors import CatalogError, InputError, PermissionDenied, SampleFailed, StateMismatch, UsageError
from wdsctl.core.media.facts import MediumFacts
from wdsctl.core.offsets.key_index import KeyIndex, offsets_digest, open_key_index
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.samples.naming import INDEX_BITS, dotless_key, possible_keys
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import Storage
from wdsctl.core.urls import is_url, normalize_root, redact_secrets
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.reading.first_use import index_if_first_use
from wdsctl.loader.samples.lazy_part import LazyPart
from wdsctl.loader.stores.folder import FolderStore, RemoteFolderStore
from wdsctl.loader.stores.media_facts import MediaFactsIndex
from wdsctl.loader.stores.store import FileStore, StoreEntry, ambiguous_entry_error, missing_entry_error
from wdsctl.loader.workers.status_page import heartbeat_on_retry, log_silence

if TYPE_CHECKING:
    from typing_extensions import Self

_JSONL_SUFFIXES = ".jsonl", ".ndjson"
_MAX_HINT_NAMES = 5  # in a hint


class PreparedStore(FileStore):
    """A prepared dataset as a store. Entries are `<key>.<part>`, or `<key>` for a sample: a dict of its parts, or the
    object of a JSONL line.

    A key of several samples is ambiguous if more than one of them has the part. If a sample has a part twice, the last
    one counts, as everywhere. Raw files whose keys had dots are also found by their original names, though shards have
    `_` instead (`dotless_key`).
    """

    def __init__(self, location: DatasetLocation, offsets: Offsets, decoder: SampleDecoder | None) -> None:
        super().__init__(location.display_path, offsets_digest(offsets), decoder)
        self.location = location
        self.offsets = offsets
        self._paths = [os.path.join(location.root, shard.path) for shard in offsets.shards]
        self._sizes = dict(zip(self._paths, (shard.size for shard in offsets.shards), strict=True))
        self._media_facts = MediaFactsIndex(location.catalog_path)

    @cached_property
    def name_index(self) -> KeyIndex:
        """The index of keys, opened on first access; access it before forking to share it."""
        return open_key_index(self.location, self.offsets)

    def find(self, name: str) -> StoreEntry:
        if not isinstance(name, str):
            raise missing_entry_error(self.path, str(name), hint="pass a str, such as 'a/0001.jpg'")
        candidate_rows: list[int] = []
        found: list[StoreEntry] = []
        for key, part in possible_keys(name):
            matches = self.name_index.find(key)
            found = [entry for row in matches.rows if (entry := self._part_entry(row, key, part)) is not None]
            if found:
                break
            candidate_rows += (*matches.rows, *matches.case_variants)
        if not found:
            samples = self.name_index.find(name)
            found = [self._sample_entry(row) for row in samples.rows or self.name_index.find(dotless_key(name)).rows]
            if not found:
                raise self._missing_error(name, candidate_rows, samples.case_variants)
        if len(found) > 1:
            raise ambiguous_entry_error(self.path, name, [f"shard {each.shard}, index {each.row}" for each in found])
        return found[0]

    def find_part(self, sample_id: int, part: str) -> StoreEntry:
        """A part of the sample with this id. Raises SampleFailed WDS550."""
        row = self._first_rows[sample_id >> INDEX_BITS] + (sample_id & ((1 << INDEX_BITS) - 1))
        key = self.offsets.key(row)
        entry = self._part_entry(row, key, part)
        if entry is None:
            raise self._missing_error(f"{key}.{part}", (row,), ())
        return entry

    def get_media_metadata(self, name: str) -> MediumFacts:
        return self.facts_of(self.find(name))

    def facts_of(self, entry: StoreEntry) -> MediumFacts:
        return self._media_facts.facts_of(self.path, entry)

    @cached_property
    def keyframe_file(self) -> KeyframeFile | None:
        """Keyframes of the store's videos, opened on first access; access it before forking to share it."""
        return open_keyframes(self.location, self.offsets.generation)

    def _keyframes(self, entry: StoreEntry) -> bytes:
        if self.keyframe_file is None:
            return b""
        i = self.offsets.shard_of(entry.row)
        sample = self.offsets.shards[i].id << INDEX_BITS | entry.row - int(self.offsets.shard_row[i])
        return self.keyframe_file.find(sample, entry.part)

    def _part_entry(self, row: int, key: str, part: str) -> StoreEntry | None:
        i = self.offsets.shard_of(row)
        ranges = [(offset, size) for name, offset, size in self.offsets.parts(row) if name == part]
        if not ranges:
            return None
        shard = self.offsets.shards[i]
        return StoreEntry(f"{key}.{part}", part, self._paths[i], shard.path, *ranges[-1], row, shard.size)

    def _sample_entry(self, row: int) -> StoreEntry:
        """All parts of a sample, or the object of a JSONL line."""
        key, shard = self.offsets.key(row), self.offsets.shards[self.offsets.shard_of(row)]
        parts = [
            self._part_entry(row, key, part) for part in dict.fromkeys(name for name, _, _ in self.offsets.parts(row))
        ]
        each = tuple(part for part in parts if part is not None)
        if len(each) == 1 and shard.path.endswith(_JSONL_SUFFIXES):
            return each[0]
        begin = min((part.offset for part in each), default=0)
        end = max((part.offset + part.size for part in each), default=0)
        path = os.path.join(self.location.root, shard.path)
        return StoreEntry(key, "", path, shard.path, begin, end - begin, row, shard.size, parts=each)

    @cached_property
    def _first_rows(self) -> dict[int, int]:
        """Shard id -> its first row."""
        starts = self.offsets.shard_row.tolist()
        return {shard.id: start for shard, start in zip(self.offsets.shards, starts[:-1], strict=True)}

    def _missing_error(self, name: str, rows: Sequence[int], similar_rows: Sequence[int]) -> SampleFailed:
        """`rows`: samples with the key, ignoring case; `similar_rows`: samples whose key is the name, ignoring case."""
        names = [self.offsets.key(row) for row in similar_rows]
        existing: list[str] = []
        for row in rows[:_MAX_HINT_NAMES]:
            key = self.offsets.key(row)
            parts = [part for part, _, _ in self.offsets.parts(row)]
            existing += [f"{key}.{part}" for part in parts]
            names += [f"{key}.{part}" for part in parts if f"{key}.{part}".lower() == name.lower()]
        hint = f"the key has the parts {', '.join(map(repr, existing[:_MAX_HINT_NAMES]))}" if existing else ""
        return missing_entry_error(self.path, name, names, hint)

    def _new_storage(self) -> Storage:
        return storage_for(self.location.root, self._sizes, on_retry=heartbeat_on_retry, on_silence=log_silence)

    def _is_gone(self) -> bool:
        some = {self._paths[0], self._paths[len(self._paths) // 2], self._paths[-1]} if self._paths else set()
        return not any(self.storage.exists(path) for path in some)

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen_prepared_store, (self.location, self.offsets.generation, self.digest, self.decoder)


FILESYSTEM_PREFIX = "filesystem://"
_REMOTE_FOLDER_PREFIX = "filesystem+"
_SHARD_SUFFIXES = (".tar", ".tgz", ".tar.gz", ".jsonl", ".ndjson")
_MAX_OPEN_STORES = 32  # unpickled stores that a process keeps open


def open_store(
    reference: str, decoder: SampleDecoder | None = None, *, generation: int | None = None, where: str = ""
) -> FileStore:
    """Open the store of a reference: a prepared dataset (path, URL or `.jsonl`), a folder (`filesystem://PATH`, or the
    path of a folder that was not prepared), or a folder at a URL (`filesystem+s3://...`).

    `generation`: of a prepared dataset, by default the current one. `where`: the line of the blend file. Indexes a
    dataset that Energon prepared if it has no catalog. Raises InputError, UsageError, PermissionDenied;
    CatalogError if the catalog is unusable, StateMismatch if the generation is no longer kept.
    """
    if reference.startswith(_REMOTE_FOLDER_PREFIX):
        return RemoteFolderStore(normalize_root(reference.removeprefix(_REMOTE_FOLDER_PREFIX)), decoder)
    if reference.startswith(FILESYSTEM_PREFIX):
        return _open_folder(reference.removeprefix(FILESYSTEM_PREFIX), decoder, where)
    if is_blend_file(reference):
        raise UsageError(
            "a blend file cannot be a store: a store is one dataset or folder",
            where=where or reference,
            hint="list each of its datasets under `aux` with its own name",
        )
    with open_dataset(reference) as dataset:
        if dataset.has_catalog() or index_if_first_use(dataset, divides=False):
            return _open_catalogued(dataset, decoder, generation)
        location = dataset.location
    if is_url(reference):
        raise InputError(
            "the store at this URL has no catalog",
            where=where or redact_secrets(reference),
            hint=f"run {shell_command('index', redact_secrets(reference))} if the store has shards; for plain files, "
            f"write {_REMOTE_FOLDER_PREFIX}{redact_secrets(reference)}",
        )
    if _has_shards(location.root) or not os.path.isdir(reference):
        raise InputError(
            "the store has shards but no catalog",
            where=where or reference,
            hint=f"run {shell_command('prepare', reference)}; for a folder of plain files, write "
            f"{FILESYSTEM_PREFIX}{reference}",
            code="WDS301",
        )
    return _open_folder(location.root, decoder, where)


def reopen_prepared_store(
    location: DatasetLocation, generation: int, digest: str, decoder: SampleDecoder | None
) -> PreparedStore:
    """Open an unpickled store. Raises StateMismatch if its dataset no longer has that generation."""
    try:
        store = _open_prepared(location, generation, decoder)
    except CatalogError as error:
        raise _generation_gone_error(location, generation) from error
    if store.digest != digest:
        raise _generation_gone_error(location, generation)
    return store


@lru_cache(maxsize=_MAX_OPEN_STORES)
def _open_prepared(location: DatasetLocation, generation: int, decoder: SampleDecoder | None) -> PreparedStore:
    return PreparedStore(location, Offsets(location.offsets_path(generation)), decoder)


def _open_catalogued(dataset: OpenDataset, decoder: SampleDecoder | None, generation: int | None) -> FileStore:
    location, current = dataset.location, dataset.catalog.generation
    if dataset.catalog.is_media_folder:
        return FolderStore(location.root, decoder, location.catalog_path, f"folder-{current}")
    try:
        return PreparedStore(location, dataset.offsets(generation), decoder)
    except CatalogError as error:
        if generation is None or generation == current:
            raise
        raise _generation_gone_error(location, generation) from error


def _open_folder(path: str, decoder: SampleDecoder | None, where: str) -> FolderStore:
    root = os.path.abspath(path)
    if not os.path.isdir(root):
        raise InputError(
            "the store is a file, not a folder" if os.path.exists(root) else "the store's folder does not exist",
            where=f"{where}, {root}" if where else root,
            hint="correct the path: relative paths in a blend file start at the folder of that file",
        )
    if not os.access(root, os.R_OK | os.X_OK):
        raise PermissionDenied(
            "cannot read the folder of the store", where=root, hint="check the owner and the mode of the folder"
        )
    with open_dataset(root) as dataset:
        if dataset.has_catalog() and dataset.catalog.is_media_folder:
            return FolderStore(root, decoder, dataset.location.catalog_path, f"folder-{dataset.catalog.generation}")
    return FolderStore(root, decoder)


def _has_shards(root: str) -> bool:
    """Whether a folder has shards at its top level. Searching millions of files in subfolders takes minutes."""
    with os.scandir(root) as entries:
        return any(entry.name.lower().endswith(_SHARD_SUFFIXES) for entry in entries)


def _generation_gone_error(location: DatasetLocation, generation: int) -> StateMismatch:
    return StateMismatch(
        f"the auxiliary store no longer has generation {generation}",
        where=location.display_path,
        hint="save a state and resume from it to use the current generation of the store",
    )


class PrimaryStore(FileStore):
    """A view of a store for one sample. The sample's own parts are found by its id, so they are never ambiguous."""

    def __init__(self, store: PreparedStore, sample_id: int) -> None:
        # Created per sample, so it does not call the constructor of FileStore.
        self.path, self.digest, self.decoder = store.path, store.digest, store.decoder
        self._store = store
        self._sample_id = sample_id

    @property
    def base_store(self) -> FileStore:
        return self._store

    def find(self, name: str) -> StoreEntry:
        if str(name).startswith("."):  # JSON may have a null in the place of a name
            return self._store.find_part(self._sample_id, name[1:])
        return self._store.find(name)

    def get_media_metadata(self, name: str) -> MediumFacts:
        return self._store.facts_of(self.find(name))

    def with_decoder(self, decoder: SampleDecoder | None) -> Self:
        return type(self)(self._store.with_decoder(decoder), self._sample_id)

    def read(self, entry: StoreEntry) -> bytes:
        return self._store.read(entry)

    def decode(self, entry: StoreEntry, data: bytes) -> Any:
        return self._store.decode(entry, data)

    def load(self, entry: StoreEntry) -> Any:
        return self._store.load(entry)

    def is_read_by_range(self, entry: StoreEntry) -> bool:
        return self._store.is_read_by_range(entry)

    def open_part(self, entry: StoreEntry) -> LazyPart:
        return self._store.open_part(entry)

    def close(self) -> None:
        self._store.close()

    def _new_storage(self) -> Storage:
        return self._store.storage

    def _is_gone(self) -> bool:
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return PrimaryStore, (self._store, self._sample_id)
