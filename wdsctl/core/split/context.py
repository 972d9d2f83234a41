"""The inputs of a split: the dataset's shards and keys, and the sets that it has now.

`SplitContext` has the inputs for assigning samples. `SplitState` has the splits of the catalog and of dataset.yaml.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from wdsctl.core.array_types import Int64Array, Uint64Array
from wdsctl.core.catalog.splits import AssignmentHistory, HistoryBySet, SplitShard
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.files import remove_tree
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.progress import Progress
from wdsctl.core.split.assignment import Assignment
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.rule import SplitRule, SplitRules
from wdsctl.core.storage.open import workers_for

KEY_BATCH_SAMPLES = 1 << 18  # samples whose keys are processed together


@dataclass(frozen=True)
class SplitContext:
    """The shards with samples, in the order of their ids, and how to work on them.

    `keeps_results`: whether the values of groups and strata may be written to the dataset's work folder. Otherwise
    `cached_hashes` has those that are read twice, by value and shard: 8 bytes a sample.
    """

    dataset: OpenDataset
    generation: int
    rows: tuple[ShardRow, ...]
    workers: int
    progress: Progress
    keeps_results: bool
    cached_hashes: dict[tuple[str, int], Uint64Array] = field(default_factory=dict)

    @property
    def location(self) -> DatasetLocation:
        return self.dataset.location

    @cached_property
    def offsets(self) -> Offsets:
        """The offsets file, opened at first use: many rules need no keys."""
        return Offsets(self.location.offsets_path(self.generation))

    @cached_property
    def offsets_index(self) -> dict[int, int]:
        """By id, the index of each shard in the offsets file."""
        return {shard.id: i for i, shard in enumerate(self.offsets.shards)}

    @cached_property
    def sample_counts(self) -> dict[int, int]:
        """By id, the number of samples of each shard."""
        return {row.id: row.samples for row in self.rows}

    @cached_property
    def by_path(self) -> dict[str, ShardRow]:
        return {row.path: row for row in self.rows}

    @property
    def samples(self) -> int:
        return sum(row.samples for row in self.rows)

    def first_row(self, row: ShardRow) -> int:
        """The row of a shard's first sample in the offsets file."""
        return int(self.offsets.shard_row[self.offsets_index[row.id]])

    def sample_name(self, row: ShardRow, position: int) -> str:
        """SHARD/KEY of a sample, as messages name it."""
        return f"{row.path}/{self.offsets.key(self.first_row(row) + position)}"

    def row_batches(self, rows: Sequence[ShardRow]) -> Iterator[tuple[list[ShardRow], Int64Array]]:
        """Batches of shards, with the rows of their samples in the offsets file."""
        batch: list[ShardRow] = []
        count = 0
        for row in rows:
            batch.append(row)
            count += row.samples
            if count >= KEY_BATCH_SAMPLES or row is rows[-1]:
                yield batch, np.concatenate([np.arange(first := self.first_row(r), first + r.samples) for r in batch])
                batch, count = [], 0

    def results_folder(self) -> str:
        """The folder for the values of groups and strata; empty if none may be kept."""
        return os.path.join(self.location.work_folder, "values") if self.keeps_results else ""

    def remove_results(self) -> None:
        """Remove the values of groups and strata, once the splits are written."""
        if self.keeps_results:
            remove_tree(self.results_folder())


def open_split_context(dataset: OpenDataset, workers: int, progress: Progress, *, keeps_results: bool) -> SplitContext:
    """Read the shards that have samples from the catalog. Raises CatalogError."""
    filled = tuple(row for row in dataset.catalog.shards() if row.samples)
    workers = workers_for(dataset.location.root, workers)
    return SplitContext(dataset, dataset.catalog.generation, filled, workers, progress, keeps_results)


@dataclass(frozen=True, slots=True)
class SplitState:
    """The rules and excludes in force. `new_rules`: sets of dataset.yaml that the catalog has never had."""

    rules: SplitRules
    excludes: Excludes
    new_rules: SplitRules = field(default_factory=dict)
    histories: HistoryBySet = field(default_factory=dict)
    excluded: dict[int, SplitShard] = field(default_factory=dict)
    inputs_digest: str = ""
    has_stored_rules: bool = False  # whether the catalog has more than the shares of its splits

    def with_authored(self, rule: SplitRule | None, excludes: Excludes) -> SplitState:
        """The state after dataset.yaml gained a rule for the default set, or its first excludes."""
        new_rules = self.new_rules if rule is None else {"": rule} | self.new_rules
        return replace(self, new_rules=new_rules, excludes=self.excludes or excludes)


def read_split_state(dataset: OpenDataset) -> SplitState:
    """Read the rules and excludes. Raises CatalogError, and DatasetError WDS220 for an invalid dataset.yaml."""
    location, reader = dataset.location, dataset.catalog.split_reader
    try:
        rules, excludes = reader.rules(), reader.excludes()
        histories, inputs_digest = reader.assignment_history(), reader.source_digest()
    except (ValueError, TypeError) as error:
        raise CatalogError(
            "cannot parse the split rules in the catalog",
            where=location.catalog_path,
            hint="split the dataset again: `wdsctl split DATASET 8,1,1`",
            code="WDS302",
        ) from error
    excluded = reader.excluded()
    if excludes is not None:
        return SplitState(rules, excludes, {}, histories, excluded, inputs_digest, has_stored_rules=True)
    # A new catalog, or one that only has shares, does not have the other rules of dataset.yaml yet.
    authored = dataset.config
    new = {name: rule for name, rule in authored.split_sets.items() if name not in rules}
    if authored.split is not None and "" not in rules:
        new = {"": authored.split} | new
    return SplitState(rules, authored.exclude, new, histories, excluded, inputs_digest)


def missing_set_error(name: str, state: SplitState, where: str = "") -> InputError:
    """The error of a set that does not exist, with the sets that do."""
    named_sets = ", ".join(filter(None, state.rules)) or "no named sets"
    message = f"the dataset has no split set {name!r}; it has {named_sets}" if name else "the dataset has no splits yet"
    return InputError(message, where=where, hint="run `wdsctl split DATASET` to list the split sets", code="WDS211")


def read_assignment(dataset: OpenDataset, split_set: str, state: SplitState) -> Assignment:
    """The splits of a set as the catalog has them."""
    reader = dataset.catalog.split_reader
    return Assignment(
        reader.split_shards(split_set),
        reader.former_split_shards(split_set),
        state.histories.get(split_set) or AssignmentHistory(),
    )
