"""What all targets of `export` read: the shards of the catalog, their splits, and the sample type."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from wdsctl.core.catalog.totals import CatalogSummary, PartCount
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.dataset.shard_names import describe_format, is_tar_name
from wdsctl.core.errors import CatalogError, DatasetError, InputError
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.index.freshness import MAX_CHECKED_SHARDS, check_freshness
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.split.context import missing_set_error, read_split_state
from wdsctl.core.split.report import ShardSplits, read_shard_splits
from wdsctl.core.text import pluralize
from wdsctl.core.urls import is_url


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSource:
    """One generation of a catalog. `shards`: those with samples, in the order of the loader."""

    dataset: OpenDataset
    generation: int
    shards: tuple[ShardRow, ...]
    parts: tuple[PartCount, ...]
    config: DatasetConfig

    @property
    def location(self) -> DatasetLocation:
        return self.dataset.location

    @property
    def samples(self) -> int:
        return sum(shard.samples for shard in self.shards)


@contextmanager
def open_export_source(root: str, catalog: str | None) -> Iterator[ExportSource]:
    """Read what targets need, and compare the sizes of all shards with the catalog.

    Raises CatalogError WDS305 if a shard has changed, InputError WDS003 without samples, and InputError for JSONL.
    """
    with open_indexed(root, catalog) as dataset:
        location, published = dataset.location, dataset.catalog
        published.check_not_media_folder()
        rows = published.shards()
        _check_current(location, rows, published.summary(first=0, spread=MAX_CHECKED_SHARDS))
        shards = tuple(row for row in rows if row.samples)
        if not shards:
            raise InputError(
                "the dataset has no samples",
                where=location.display_path,
                hint=f"{shell_command_at(location, 'validate')} tells why",
                code="WDS003",
            )
        if any(not is_tar_name(shard.path) for shard in shards):
            raise InputError(
                f"the dataset has {describe_format(shards[0].path)}, and export describes tars",
                where=location.display_path,
                hint=f"write tars: {shell_command_at(location, 'convert', 'DEST')}",
            )
        yield ExportSource(
            dataset=dataset,
            generation=published.generation,
            shards=shards,
            parts=tuple(published.parts()),
            config=dataset.config,
        )


def check_catalog_stayed(source: ExportSource) -> None:
    """Raise CatalogError WDS305 if the catalog was replaced since it was read: the shards may be others, too."""
    if not source.dataset.is_current():
        raise CatalogError(
            "another command changed the catalog during the export, so what was written may fit neither",
            where=source.location.display_path,
            hint="run the same command again with --overwrite",
            code="WDS305",
        )


def read_splits(source: ExportSource, split_set: str, target: str) -> ShardSplits:
    """The splits of a set, as whole shards.

    Raises DatasetError WDS256 if a shard has samples in several splits, InputError WDS211 if there is no such set, and
    DatasetError WDS217 for excluded samples that have no name of their own.
    """
    dataset, location = source.dataset, source.location
    state = read_split_state(dataset)
    if split_set not in state.rules:
        raise missing_set_error(split_set, state, location.display_path)
    splits = dataset.catalog.split_reader.split_shards(split_set).values()
    divided = [row.path for row in source.shards if sum(row.id in shards for shards in splits) > 1]
    if divided:
        raise DatasetError(
            f"{target} has splits of whole shards, but {pluralize(len(divided), 'shard')} of "
            f"{len(source.shards):,} {'has' if len(divided) == 1 else 'have'} samples in several splits, such as "
            f"{divided[0]}",
            where=location.display_path,
            hint=f"write shards by split: {shell_command_at(location, 'convert', 'DEST', '--naming', 'hub')}",
            code="WDS256",
        )
    return read_shard_splits(dataset, split_set)


def read_splits_if_whole(source: ExportSource, split_set: str, target: str) -> tuple[ShardSplits | None, str]:
    """What `read_splits` returns, or None and the reason, for a target that can do without splits.

    Raises what `read_splits` raises if the user has named the set.
    """
    try:
        return read_splits(source, split_set, target), ""
    except (DatasetError, InputError) as error:
        if split_set or error.code not in ("WDS211", "WDS217", "WDS256"):
            raise
        return None, error.message


def _check_current(location: DatasetLocation, rows: Iterable[ShardRow], summary: CatalogSummary) -> None:
    """Raise CatalogError WDS305 if shards have other sizes than in the catalog, or `check_freshness` finds errors."""
    _, findings = check_freshness(location, summary)
    stale = [(finding.shard, finding.message) for finding in findings if finding.severity != "note"]
    if not summary.has_all and not is_url(location.root):
        stale += [(row.path, "has changed since it was indexed") for row in rows if not _has_size(location, row)]
    if stale:
        shard, message = stale[0]
        more = f" (and {pluralize(len(stale) - 1, 'more finding')})" if len(stale) > 1 else ""
        raise CatalogError(
            f"the catalog does not describe the shards: {f'{shard} ' if shard else ''}{message}{more}",
            where=location.display_path,
            hint=f"update the catalog: {shell_command_at(location, 'index')}",
            code="WDS305",
        )


def _has_size(location: DatasetLocation, row: ShardRow) -> bool:
    try:
        return os.stat(os.path.join(location.root, row.path)).st_size == row.size
    except OSError:
        return False
