"""Open one side of a comparison, a dataset or view with its samples and splits, and match shards of two sides."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.catalog.splits import SampleFlags, SplitReader, sample_flags
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.offsets.bounds import ShardEntry
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.views.selections import SampleSelection, require_unchanged_view

_OFFSETS_FILE_NAME = re.compile(r"offsets-(\d+)\.bin")


@dataclass(frozen=True, slots=True)
class DiffSide:
    """One side of a comparison. `selection`: the samples of a view; None for all samples.

    `splits`: None for an older generation, which has no splits.
    """

    location: DatasetLocation
    view: str
    generation: int
    offsets: Offsets
    selection: SampleSelection | None
    splits: SplitReader | None
    hashes: dict[int, str]  # SHA-256 by shard id, if known
    hashed_times: dict[int, int]  # for the same shards, the time (at a URL a number) of the file that was hashed

    @property
    def shards(self) -> Sequence[ShardEntry]:
        return self.offsets.shards

    def selection_flags(self, i: int) -> SampleFlags:
        """Return (samples,): which samples of the i-th shard are compared."""
        shard = self.shards[i]
        if self.selection is None:
            return np.ones(shard.samples, np.bool_)
        return sample_flags(self.selection.get(shard.id), shard.samples)

    def has_shard(self, i: int) -> bool:
        """Whether the i-th shard is compared: for a view, whether the view contains samples of it."""
        return self.selection is None or self.shards[i].id in self.selection

    def split_flags(self, name: str, i: int) -> SampleFlags:
        """Return (samples,): which samples of the i-th shard are in a split; none if splits are unknown."""
        shard = self.shards[i]
        return sample_flags(self.splits.split_shard(name, shard.id) if self.splits else None, shard.samples)

    def split_size(self, name: str) -> int | None:
        """Count the compared samples in a split; None if the split does not exist or splits are unknown."""
        if self.splits is None or name not in self.splits.names:
            return None
        indices = (i for i in range(len(self.shards)) if self.has_shard(i))
        return sum(int(np.count_nonzero(self.selection_flags(i) & self.split_flags(name, i))) for i in indices)

    def split_bits(self, i: int, names: Sequence[str]) -> NDArray[np.uint8]:
        """Return (samples, bytes): for each sample, one bit per split of `names`."""
        shard = self.shards[i]
        table = np.zeros((shard.samples, len(names)), np.bool_)
        for column, name in enumerate(names):
            table[:, column] = self.split_flags(name, i)
        return np.packbits(table, axis=1, bitorder="little")


@contextmanager
def open_side(root: str, catalog: str | None = None, generation: int | None = None) -> Iterator[DiffSide]:
    """Open `ROOT` or `ROOT@VIEW`, at the current or an older generation. A dataset keeps the last three.

    Raises InputError WDS322 for a folder of media, WDS330 and CatalogError WDS331 for views, InputError WDS009 if the
    dataset no longer has the generation, UsageError for a view at an older generation.
    """
    with open_indexed(root, catalog, takes_view=True) as dataset:
        dataset.catalog.check_not_media_folder()
        current = dataset.catalog.generation
        target = current if generation is None else generation
        is_current = target == current
        if dataset.view and not is_current:
            hint = f"remove @{dataset.view}, or the generation"
            raise UsageError("a view exists only in the current generation", hint=hint)
        if not is_current:
            _check_generation_kept(dataset.location, target, current)
        yield DiffSide(
            location=dataset.location,
            view=dataset.view,
            generation=target,
            offsets=dataset.offsets(target),
            selection=require_unchanged_view(dataset, dataset.view).selection if dataset.view else None,
            splits=dataset.catalog.split_reader if is_current else None,
            hashes=dataset.catalog.shard_hashes(),
            hashed_times={row.id: row.mtime_ns for row in dataset.catalog.shards() if row.sha256},
        )


def _check_generation_kept(location: DatasetLocation, generation: int, current: int) -> None:
    matches = (_OFFSETS_FILE_NAME.fullmatch(name) for name in os.listdir(location.meta))
    kept = sorted(int(match[1]) for match in matches if match)
    if generation in kept:
        return
    listed = ", ".join(map(str, kept)) or "none"
    raise InputError(
        f"the catalog no longer has generation {generation}; it has {listed}",
        where=location.display_path,
        hint=f"run {shell_command_at(location, 'log')} to list the generations of all runs; the current one is "
        f"{current}",
        code="WDS009",
    )


def find_renamed_shards(
    first: DiffSide, second: DiffSide, first_indices: Mapping[str, int], second_indices: Mapping[str, int]
) -> dict[str, str]:
    """Find shards with a new path on the second side, by layout: first path -> second path.

    Empty shards never match. `first_indices` and `second_indices` map paths to shard indices.
    """
    new_paths: dict[str, list[str]] = {}  # by layout hash
    for path in sorted(second_indices.keys() - first_indices.keys(), reverse=True):
        new_paths.setdefault(second.shards[second_indices[path]].layout_hash, []).append(path)
    renamed = {}
    for path in sorted(first_indices.keys() - second_indices.keys()):
        shard = first.shards[first_indices[path]]
        candidates = new_paths.get(shard.layout_hash)
        if candidates and shard.samples:
            renamed[path] = candidates.pop()
    return renamed


def has_same_layout(first: DiffSide, second: DiffSide, i: int, j: int) -> bool:
    """Whether two shards have the same keys and parts at the same offsets."""
    one, other = first.shards[i], second.shards[j]
    return (one.layout_hash, one.samples) == (other.layout_hash, other.samples)


def can_have_same_bytes(first: DiffSide, second: DiffSide, i: int, j: int) -> bool:
    """Whether two shards may have equal bytes: their hashes are equal, or not both known."""
    hashes = {first.hashes.get(first.shards[i].id), second.hashes.get(second.shards[j].id)} - {None}
    return len(hashes) < 2
