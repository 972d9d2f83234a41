"""Evaluates the definition of a view: the samples of each condition, then their intersection."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.catalog.ledger import ViewShard
from wdsctl.core.catalog.open_catalog import no_sample_rows_error, open_catalog_connection
from wdsctl.core.catalog.rows import add_implied_rows
from wdsctl.core.catalog.splits import SplitShard, sample_flags
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.location import shell_command_at
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.hashing import derive_seed, hash_values
from wdsctl.core.offsets.key_list import SampleSelector, read_sample_list
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.progress import Progress
from wdsctl.core.safe_open import check_store
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.text import pluralize
from wdsctl.core.urls import is_url, redact_secrets
from wdsctl.core.views.definition import ViewDefinition, parse_sample
from wdsctl.core.views.selections import (
    SampleSelection,
    count_selected,
    intersect_selections,
    select_all,
    select_split,
    selection_hash,
    shard_selection,
    to_view_shards,
)
from wdsctl.core.views.sql import first_column
from wdsctl.core.views.where import POSITION_MASK, RowQuery

Ids = NDArray[np.int64]

_DRAW_BATCH_HASHES = 1 << 20  # hashes that are drawn from together: 8 bytes each
_MAX_NAMED_KEYS = 3  # keys that a message names


@dataclass(frozen=True, slots=True)
class EvaluatedView:
    """The samples of a view in the current catalog. `unknown_count`: keys of its file that the dataset lacks."""

    selection: SampleSelection
    shards: tuple[ShardRow, ...]  # of the catalog
    generation: int
    unknown_count: int = 0
    unknown_keys: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        return count_selected(self.selection)

    @property
    def view_shards(self) -> list[ViewShard]:
        return to_view_shards(self.selection, self.shards)

    @property
    def hash(self) -> str:
        return selection_hash(self.view_shards)


#: The time limit of a definition from a ledger. The ledger may come from another user, who is not trusted.
STORED_TIMEOUT_SECONDS = 600.0


def evaluate_stored(
    dataset: OpenDataset,
    definition: ViewDefinition,
    progress: Progress,
    *,
    skip_unknown: bool = False,
    timeout_seconds: float = STORED_TIMEOUT_SECONDS,
) -> EvaluatedView:
    """`evaluate_definition` for a stored definition: its key file must be inside the dataset or an allowed folder.

    Also raises PermissionDenied WDS409.
    """
    if is_url(definition.keys):
        check_store(definition.keys, dataset.location.root, redact_secrets(definition.keys))
    return evaluate_definition(
        dataset,
        definition,
        progress,
        skip_unknown=skip_unknown,
        timeout_seconds=timeout_seconds,
        key_folder=dataset.location.root,
    )


def evaluate_definition(
    dataset: OpenDataset,
    definition: ViewDefinition,
    progress: Progress,
    *,
    skip_unknown: bool = False,
    timeout_seconds: float = 0,
    key_folder: str = "",
) -> EvaluatedView:
    """The samples that currently meet a definition. `key_folder`: where a file of keys must be; empty for anywhere.

    Raises UsageError WDS332 for a query or expression that is wrong, WDS334 if one takes longer than the timeout (0:
    none), InputError for unknown keys (unless `skip_unknown`) and an unknown split, CatalogError if the catalog cannot
    be used or has no rows of samples.
    """
    definition.check()
    dataset.catalog.check_not_media_folder()
    shards = dataset.catalog.shards()
    chosen = select_split(dataset, definition.split) if definition.split else select_all(shards)
    unknown: list[str] = []
    count = 0
    if definition.where:
        chosen = intersect_selections(
            chosen, _select_where(dataset, definition.where, shards, progress, timeout_seconds)
        )
    if definition.sql:
        progress.phase("run the query")
        ids = first_column(dataset, definition.sql, source="--sql", timeout_seconds=timeout_seconds)
        chosen = intersect_selections(chosen, _select_ids(np.frombuffer(ids, np.int64), shards, "--sql"))
    if definition.keys:
        progress.phase("look up keys")
        ids, count, unknown = _look_up_keys(dataset, read_sample_list(definition.keys, key_folder), shards)
        if count and not skip_unknown:
            raise _unknown_keys_error(dataset, definition.keys, count, unknown)
        chosen = intersect_selections(chosen, _select_ids(np.frombuffer(ids, np.int64), shards, "--keys"))
    if definition.sample:
        progress.phase("draw")
        chosen = draw_samples(chosen, shards, parse_sample(definition.sample), definition.seed)
    return EvaluatedView(chosen, tuple(shards), dataset.catalog.generation, count, tuple(unknown))


def draw_samples(
    selection: Mapping[int, SplitShard], shards: Iterable[ShardRow], share: Fraction | int, seed: int
) -> SampleSelection:
    """Draw exactly this share of the samples, rounded, or this number: all if there are fewer, and at least one if
    there are any, as `validate --sample` does.

    Draws the samples with the smallest hashes of seed, path of the shard, and position. So with one seed, a smaller
    share is part of a larger one, and new shards change little. Memory: 8 bytes per drawn sample.
    """
    total = count_selected(selection)
    count = min(total, share if isinstance(share, int) else max(1, round(total * share)))
    if count == total or not count:
        return dict(selection) if count else {}
    selected_shards = [shard for shard in shards if shard.id in selection]
    lowest, waiting = np.empty(0, np.uint64), [np.empty(0, np.uint64)]
    for i, shard in enumerate(selected_shards):
        waiting.append(_draw_hashes(shard, seed)[sample_flags(selection[shard.id], shard.samples)])
        if sum(map(len, waiting)) >= max(_DRAW_BATCH_HASHES, count) or i == len(selected_shards) - 1:
            lowest = np.concatenate([lowest, *waiting])
            waiting = []
            if len(lowest) > count:
                lowest = np.partition(lowest, count - 1)[:count]
    last = lowest.max()
    taken = (
        shard_selection(
            shard.id, sample_flags(selection[shard.id], shard.samples) & (_draw_hashes(shard, seed) <= last)
        )
        for shard in selected_shards
    )
    return {part.shard: part for part in taken if part.samples}


def _draw_hashes(shard: ShardRow, seed: int) -> NDArray[np.uint64]:
    return hash_values(derive_seed("view", seed, shard.path), np.arange(shard.samples))


def _select_where(
    dataset: OpenDataset, text: str, shards: Sequence[ShardRow], progress: Progress, seconds: float
) -> SampleSelection:
    found: SampleSelection = {}
    with RowQuery(dataset, shards) as rows:
        fitting = rows.find_samples(text, timeout_seconds=seconds)
        progress.phase("read samples", items=sum(shard.samples for shard in shards))
        for shard, flags in fitting:
            part = shard_selection(shard, flags)
            if part.samples:
                found[shard] = part
            progress.advance(items=len(flags))
    return found


def _select_ids(ids: Ids, shards: Sequence[ShardRow], source: str) -> SampleSelection:
    """The samples with these ids. Raises UsageError WDS332 for an id without a sample."""
    ids = np.unique(ids)
    if not len(ids):  # np.split would return one empty piece
        return {}
    numbers, firsts = np.unique(ids >> INDEX_BITS, return_index=True)
    by_id = {shard.id: shard for shard in shards}
    found: SampleSelection = {}
    for number, positions in zip(numbers.tolist(), np.split(ids & POSITION_MASK, firsts[1:]), strict=True):
        shard = by_id.get(number)
        if shard is None or positions[-1] >= shard.samples:
            wrong = number << INDEX_BITS | int(positions[-1])
            raise UsageError(
                f"no sample has the id {wrong}",
                where=source,
                hint="write a query whose first column is the id of v_sample, v_part or v_media",
                code="WDS332",
            )
        flags = np.zeros(shard.samples, np.bool_)
        flags[positions] = True
        found[number] = shard_selection(number, flags)
    return found


def _look_up_keys(
    dataset: OpenDataset, listed: Iterable[SampleSelector], shards: Sequence[ShardRow]
) -> tuple[array[int], int, list[str]]:
    """(ids of the listed samples, how many are unknown, the first of those). 3 us per key."""
    paths = {shard.id: shard.path for shard in shards}
    catalog_path = dataset.location.catalog_path
    ids, count = array("q"), 0
    unknown: list[str] = []
    with open_catalog_connection(catalog_path) as connection:
        add_implied_rows(connection, catalog_path, by_key=True)
        if shards and connection.execute("SELECT 1 FROM sample LIMIT 1").fetchone() is None:
            raise no_sample_rows_error(catalog_path)
        for key, shard, position in listed:
            found = [row[0] for row in connection.execute("SELECT id FROM sample WHERE key = ?", (key,))]
            if shard is not None:
                found = [each for each in found if paths.get(each >> INDEX_BITS) == shard]
            if position is not None:
                found = [each for each in found if each & POSITION_MASK == position]
            ids.extend(found)
            if not found:
                count += 1
                unknown += [key] if len(unknown) < _MAX_NAMED_KEYS else []
    return ids, count, unknown


def _unknown_keys_error(dataset: OpenDataset, path: str, count: int, keys: Sequence[str]) -> InputError:
    named = ", ".join(keys) + (", ..." if count > len(keys) else "")
    return InputError(
        f"{pluralize(count, 'key')} of the list {'is' if count == 1 else 'are'} not in the dataset: {named}",
        where=path,
        hint=f"pass `--unknown skip` to ignore such keys; {shell_command_at(dataset.location, 'inspect')} shows "
        "examples of valid keys",
    )
