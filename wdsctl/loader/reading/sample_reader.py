"""Single samples of a dataset by position or key, for `wdsctl.Dataset`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from wdsctl.core.catalog.splits import SplitShard
from wdsctl.core.dataset.config import DatasetConfig, parse_config, read_config_text
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import CatalogError, StateMismatch
from wdsctl.core.offsets.key_index import KeyIndex, open_key_index
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.samples.naming import dotless_key
from wdsctl.core.samples.types import CRUDE
from wdsctl.core.views.selections import intersect_selections, require_unchanged_view
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.reading.first_use import read_or_index
from wdsctl.loader.reading.selection import SampleSelection
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.reading.user_code import resolve_user_code

KEYS_PER_READ = 4096  # keys that are read at a time


class SampleChoice(NamedTuple):
    """Which samples to read, and how. `split` None: all samples; `view` None: no view; `decoder` None: bytes.
    `is_crude`: samples are dicts of all parts, whatever dataset.yaml says. `delta_timestamps`, `tolerance_s`: time
    windows of frames."""

    split: str | None
    view: str | None
    decoder: SampleDecoder | None
    is_crude: bool
    trust_code: bool
    delta_timestamps: Mapping[str, Sequence[float]] | None = None
    tolerance_s: float = 1e-4


class SampleReader:
    """The samples of a choice at positions 0 to n - 1, in the order of the shards.

    Opening costs some numbers per shard, a sample one read, for any number of samples. A pickle has the dataset's
    location, its generation and the choice: it opens the dataset on first use, and raises StateMismatch if the samples
    have changed. Forked processes open shards themselves; threads take turns.
    """

    _raw_source: SplitSource | None  # of all parts as bytes, opened on first use
    _key_index: KeyIndex | None

    def __init__(self, location: DatasetLocation, choice: SampleChoice, catalog: str | None = None) -> None:
        """Open the dataset. Raises InputError WDS211 and WDS330, CatalogError, UsageError WDS222."""
        self.choice = choice
        self._lock = RLock()

        def read(dataset: OpenDataset) -> list[SplitShard] | None:
            if choice.split is not None:
                return dataset.catalog.split(choice.split)
            dataset.catalog.check_not_media_folder()
            return None

        with OpenDataset(location) as dataset:
            shards = read_or_index(dataset, catalog, read, divides=choice.split is not None)
            self.location, self.generation = dataset.location, dataset.catalog.generation
            self._open(dataset, shards)
        self.n = self._selection.n
        self.digest = self._selection.digest(self._offsets)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("location", "choice", "generation", "n", "digest")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock, self._pid = RLock(), -1

    def with_choice(self, choice: SampleChoice) -> SampleReader:
        """Another choice of samples of the same dataset."""
        return type(self)(self.location, choice, self.location.meta)

    @property
    def sample_type(self) -> str:
        with self._opened():
            return self._config.sample_type

    def load(self, positions: Sequence[int]) -> list[Any]:
        """The samples at these positions, as in a training. Raises WdsctlError that names shard, key and part."""
        with self._opened() as source:
            block = source.block(np.array(positions, np.int64), np.zeros(len(positions), np.int64))
            return [source.load(block, i) for i in range(len(block))]

    def load_bytes(self, position: int) -> dict[str, Any]:
        """All parts of a sample by name as bytes, with the base fields."""
        with self._opened():
            if self._raw_source is None:
                self._raw_source = self._new_source(DatasetConfig(sample_type=CRUDE), None)
            source = self._raw_source
            block = source.block(np.array([position], np.int64), np.zeros(1, np.int64))
            sample: dict[str, Any] = source.load(block, 0)
            return sample

    def part_sizes(self, position: int) -> dict[str, int]:
        """The size of each part of a sample in bytes. Does not read the shard."""
        with self._opened():
            return {name: size for name, _, size in self._offsets.parts(self._row(position))}

    def keys(self, positions: range) -> Iterator[str]:
        """The keys at these positions. Does not read shards."""
        for start in range(0, len(positions), KEYS_PER_READ):
            chunk = positions[start : start + KEYS_PER_READ]
            with self._opened():
                rows = self._selection.rows(np.array(chunk, np.int64)).tolist()
                chunk_keys = [self._offsets.key(row) for row in rows]
            yield from chunk_keys

    def positions_of(self, key: str) -> list[int]:
        """The positions of the samples with this key, as in the shards or as in the raw files. Costs microseconds; the
        first lookup opens the key index, or creates it in 0.5 s per million samples."""
        with self._opened():
            if self._key_index is None:
                self._key_index = open_key_index(self.location, self._offsets)
            rows = self._key_index.find(key).rows or self._key_index.find(dotless_key(key)).rows
            positions = [self._selection.position_of(row) for row in rows]
            return [position for position in positions if position is not None]

    def is_in_dataset(self, key: str) -> bool:
        """Whether the dataset has a sample with this key, in the choice or not."""
        with self._opened():
            index = self._key_index or open_key_index(self.location, self._offsets)
            return bool(index.find(key).rows)

    def shard_and_row(self, position: int) -> tuple[str, int]:
        """(path of the shard, index of the sample in it)."""
        with self._opened():
            row = self._row(position)
            shard = self._offsets.shard_of(row)
            return self._offsets.shards[shard].path, row - int(self._offsets.shard_row[shard])

    def _row(self, position: int) -> int:
        return int(self._selection.rows(np.array([position], np.int64))[0])

    @contextmanager
    def _opened(self) -> Iterator[SplitSource]:
        """The source, opened in this process, for one thread at a time."""
        if self._pid != os.getpid():
            # Forked or unpickled: maps stay valid, shards are opened again, and the parent's lock may be held.
            self._lock = RLock()
            with self._lock:
                if self._pid == -1:
                    self._reopen()
                else:
                    self._open_sources()
        with self._lock:
            yield self._source

    def _reopen(self) -> None:
        split = self.choice.split
        with OpenDataset(self.location) as dataset:
            shards = None if split is None else dataset.catalog.split(split)
            try:
                self._open(dataset, shards)
            except CatalogError as error:
                if error.code != "WDS302":
                    raise
                raise self._changed_error(f"the catalog no longer has generation {self.generation}") from error
        if self._selection.digest(self._offsets) != self.digest:
            self._pid = -1  # each later use is refused as well
            raise self._changed_error("its samples are different")

    def _changed_error(self, why: str) -> StateMismatch:
        return StateMismatch(
            f"the dataset has changed since it was opened: {why}",
            where=self.location.display_path,
            hint="open the dataset again: wdsctl.Dataset(...)",
        )

    def _open(self, dataset: OpenDataset, split_shards: list[SplitShard] | None) -> None:
        choice = self.choice
        self._offsets = dataset.offsets(self.generation)
        if split_shards is None:
            split_shards = [SplitShard(shard.id, shard.samples) for shard in self._offsets.shards if shard.samples]
        if choice.view is not None:
            chosen = require_unchanged_view(dataset, choice.view).selection
            split_shards = list(intersect_selections({part.shard: part for part in split_shards}, chosen).values())
        self._selection = SampleSelection(self._offsets, split_shards)
        config, path = DatasetConfig(sample_type=CRUDE), self._config_path
        if not choice.is_crude and os.path.exists(path):
            config = parse_config(read_config_text(path), path)
        self._config = resolve_user_code(config, dataset.location, path, trust_code=choice.trust_code)
        self._key_index = None
        self._open_sources()

    def _open_sources(self) -> None:
        self._source = self._new_source(self._config, self.choice.decoder)
        self._raw_source = None
        self._pid = os.getpid()

    @property
    def _config_path(self) -> str:
        return self.location.config_path

    def _new_source(self, config: DatasetConfig, decoder: SampleDecoder | None) -> SplitSource:
        location, name = self.location, self.choice.split or ""
        return SplitSource(
            location.root, self._offsets, self._selection, config, decoder, location=location, split_name=name
        )
