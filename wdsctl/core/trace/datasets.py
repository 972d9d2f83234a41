"""Resolves the sample ids of a trace to keys, shards and bytes, through the offsets files of the datasets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.catalog.splits import split_digest
from wdsctl.core.dataset.location import DatasetLocation, quote_shell_word
from wdsctl.core.errors import InputError, UsageError, WdsctlError
from wdsctl.core.offsets.bounds import ShardEntry
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.safe_open import check_store
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.trace.format import SourceFacts
from wdsctl.core.urls import is_url

_SEARCH_ROWS = 1 << 20  # rows per block of a key search


@dataclass(frozen=True, slots=True)
class TracedPart:
    name: str
    offset: int  # in the shard
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LocatedSample:
    """A sample with its key, its shard and the byte ranges of its parts in tar order.

    Shards with equal `layout_hash` have the same keys and parts at the same offsets, but maybe other bytes.
    """

    key: str
    shard: ShardEntry
    parts: tuple[TracedPart, ...]


class TracedDataset:
    """A dataset at the generation that the job read; at the current one if those offsets are gone.

    Changed shards get new ids, so an id always identifies the traced sample. `has_other_samples`: the split of this
    generation has other samples than the traced one, because the split or the catalog was recreated. Raises what
    `locate` and `Offsets` raise.
    """

    def __init__(self, location: DatasetLocation, facts: SourceFacts) -> None:
        self.location = location
        with OpenDataset(location) as dataset:
            is_kept = os.path.exists(location.offsets_path(facts.generation))
            self.offsets = dataset.offsets(facts.generation if is_kept else None)
            self.has_other_samples = bool(
                facts.split
                and facts.digest
                and self.offsets.generation == facts.generation
                and split_digest(self.offsets, dataset.catalog.split(facts.split)) != facts.digest
            )
        self._shard_index = {shard.id: i for i, shard in enumerate(self.offsets.shards)}

    @property
    def sizes(self) -> dict[str, int]:
        """Recorded shard sizes in bytes, by path."""
        return {os.path.join(self.location.root, shard.path): shard.size for shard in self.offsets.shards}

    def locate(self, sample_id: int) -> LocatedSample | None:
        """Find the sample with this id; None if its shard is no longer in the catalog."""
        i = self._shard_index.get(sample_id >> INDEX_BITS)
        index = sample_id & ((1 << INDEX_BITS) - 1)
        if i is None or index >= self.offsets.shards[i].samples:
            return None
        row = int(self.offsets.shard_row[i]) + index
        parts = tuple(TracedPart(*part) for part in self.offsets.parts(row))
        return LocatedSample(self.offsets.key(row), self.offsets.shards[i], parts)

    def find_ids(self, key: str) -> list[int]:
        """Return the ids of all samples with this key. Scans all keys: 10 ms per million samples."""
        key_bytes = key.encode("utf-8", "surrogateescape")
        ids: list[int] = []
        for start in range(0, self.offsets.samples, _SEARCH_ROWS):
            for row in self._rows_of(key_bytes, start, min(start + _SEARCH_ROWS, self.offsets.samples)).tolist():
                i = self.offsets.shard_of(row)
                ids.append(self.offsets.shards[i].id << INDEX_BITS | (row - int(self.offsets.shard_row[i])))
        return ids

    def _rows_of(self, key: bytes, start: int, stop: int) -> Int64Array:
        columns = self.offsets.check_range(start, stop)
        bounds = columns.key_start[start : stop + 1]
        rows = np.flatnonzero(np.diff(bounds) == len(key))
        # From the end: keys mostly differ in their last characters.
        for i in reversed(range(len(key))):
            rows = rows[columns.keys[bounds[rows] + i] == key[i]]
        return rows + start


class TracedDatasets:
    """The datasets of a trace. Each is opened at its first use."""

    def __init__(self, moved_roots: MovedRoots) -> None:
        self._moved_roots = moved_roots
        self._opened: dict[SourceFacts, TracedDataset | WdsctlError] = {}

    def open(self, facts: SourceFacts) -> TracedDataset | WdsctlError:
        """Return the dataset, or the error that explains why it cannot be used."""
        name = SourceFacts(0, facts.root, facts.split, facts.generation, facts.digest, facts.catalog)
        if name not in self._opened:
            try:
                self._opened[name] = TracedDataset(self._moved_roots.locate(facts), facts)
            except WdsctlError as error:
                self._opened[name] = _unavailable(facts, error)
        return self._opened[name]


@dataclass(frozen=True, slots=True)
class MovedRoots:
    """Maps the paths of datasets in the trace to their current folders or URLs.

    `folder`: the folder or URL of the trace. A trace is data: the datasets that it names lie in this folder, in one
    that the user allows, or where the user says that they are.
    """

    new_roots: Mapping[str, str]
    folder: str

    def locate(self, facts: SourceFacts) -> DatasetLocation:
        """Locate the dataset. Raises PermissionDenied WDS409 if the trace may not name it, and what `locate` raises."""
        root = self._current_path(facts.root)
        catalog = self._current_path(facts.catalog) if facts.catalog else ""
        return open_dataset(root, catalog if catalog and os.path.isdir(catalog) else None).location

    def _current_path(self, path: str) -> str:
        for old, new in self.new_roots.items():
            below = path[len(old.rstrip("/")) :]
            if path == old:
                return new.rstrip("/") + below
            if path.startswith(old.rstrip("/") + "/"):
                moved = new.rstrip("/") + below
                check_store(moved, os.path.abspath(new) if not is_url(new) else new, "")
                return moved
        check_store(path, self.folder, "")
        return path


def parse_moved_roots(options: list[str], known_paths: list[str], folder: str) -> MovedRoots:
    """Parse options OLD=NEW of a trace in `folder`. OLD is a dataset of the trace, its catalog, or a folder above.

    The trace has absolute paths; OLD may also be relative to the working directory, as messages show it. Paths may
    contain `=`. Raises UsageError if the trace has no such dataset.
    """
    folders: dict[str, str] = {}
    for word in options:
        cuts = [i for i, letter in enumerate(word) if letter == "="]
        named = [(i, old) for i in cuts if (old := _match_root(word[:i], known_paths))]
        if not named or not word[named[-1][0] + 1 :]:
            raise UsageError(
                f"--root {word}: expected a dataset of the trace before `=`",
                hint="write OLD=NEW; the trace has "
                f"{', '.join(known_paths[:4])}{' and others' if len(known_paths) > 4 else ''}",
            )
        cut, old = named[-1]
        folders[old] = word[cut + 1 :]
    return MovedRoots(folders, folder if is_url(folder) else os.path.abspath(folder))


def _match_root(text: str, known_paths: list[str]) -> str:
    """Return the text, as written or absolute, that a path in the trace equals or lies below; empty if none."""
    spelled = (text, os.path.abspath(text)) if text else ()
    return next(
        (old for old in spelled if any(f"{path}/".startswith(old.rstrip("/") + "/") for path in known_paths)), ""
    )


def _unavailable(facts: SourceFacts, error: WdsctlError) -> InputError:
    return InputError(
        f"cannot open a dataset of the trace: {error.message}",
        where=error.where or facts.root,
        hint=f"if the dataset was moved, pass `--root {quote_shell_word(facts.root)}=NEW`; otherwise: {error.hint}",
        code="WDS543",
    )
