"""`ls`: list the shards, samples or parts of a dataset, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from wdsctl.core.catalog.browse import CatalogBrowser
from wdsctl.core.catalog.values import SampleLocation, SplitMembers
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.inspect.get import select_members
from wdsctl.core.opened.handle import OpenDataset

ListingKind = Literal["shards", "samples", "parts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedShard:
    path: str
    size_bytes: int
    samples: int
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSample:
    key: str
    shard: str
    position: int
    size_bytes: int  # sum of its parts
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPart:
    """A part. `name`: as a file name, `key.part`."""

    name: str
    key: str
    part: str
    shard: str
    offset: int
    size_bytes: int


ListingEntry = ListedShard | ListedSample | ListedPart


@dataclass(frozen=True, slots=True)
class DatasetListing:
    """The entries, or only their names, which is faster. Iterate within the block of `open_listing`."""

    root: str
    what: ListingKind
    entries: Iterator[ListingEntry]
    names: Iterator[str]


@contextmanager
def open_listing(
    root: str, prefix: str = "", *, what: ListingKind = "shards", split: str | None = None, catalog: str | None = None
) -> Iterator[DatasetListing]:
    """List shards by path, and samples and parts in tar order, or by key if `prefix` is set.

    `split`: list only its samples. `prefix`: a prefix of paths for shards, of keys for samples and parts. The first
    entry is available at once. Raises InputError WDS211 if there is no such split, and the errors of catalogs.
    """
    with open_indexed(root, catalog, takes_view=True) as dataset:
        name = f"--{what}" if what != "shards" else "" if split is None else "--split"
        if dataset.catalog.is_media_folder and name:
            from wdsctl.core.catalog.presence import media_folder_option_error

            raise media_folder_option_error(name, dataset.location.display_path)
        members = select_members(dataset, split)
        arguments = (dataset, prefix, what, members)
        yield DatasetListing(dataset.location.display_path, what, _list_entries(*arguments), _list_names(*arguments))


def _list_entries(
    dataset: OpenDataset, prefix: str, what: ListingKind, members: SplitMembers | None
) -> Iterator[ListingEntry]:
    if what == "shards":
        ids = None if members is None else dataset.browser.paths(members.shards)
        for shard in dataset.browser.shards(prefix):
            if ids is None or shard.path in ids:
                yield ListedShard(path=shard.path, size_bytes=shard.size, samples=shard.samples, status=shard.status)
        return
    for sample in _samples(dataset, prefix):
        if members is None or members.has(sample.id):
            yield from (_listed_parts(dataset.browser, sample) if what == "parts" else (_listed_sample(sample),))


def _list_names(dataset: OpenDataset, prefix: str, what: ListingKind, members: SplitMembers | None) -> Iterator[str]:
    if what == "samples" and dataset.browser.has_rows:
        yield from (key for number, key in dataset.browser.keys(prefix) if members is None or members.has(number))
        return
    yield from map(entry_name, _list_entries(dataset, prefix, what, members))


def entry_name(entry: ListingEntry) -> str:
    """Return a shard's path, a sample's key, or a part's name as a file."""
    if isinstance(entry, ListedShard):
        return entry.path
    return entry.name if isinstance(entry, ListedPart) else entry.key


def _samples(dataset: OpenDataset, prefix: str) -> Iterator[SampleLocation]:
    if dataset.browser.has_rows:
        yield from dataset.browser.samples(prefix)
        return
    from wdsctl.core.catalog.samples import StoredSamples

    yield from StoredSamples(dataset.location, dataset.catalog.generation).samples(prefix)


def _listed_sample(sample: SampleLocation) -> ListedSample:
    return ListedSample(
        key=sample.key,
        shard=sample.shard,
        position=sample.position,
        size_bytes=sum(part.size for part in sample.parts),
        parts=tuple(part.name for part in sample.parts),
    )


def _listed_parts(browser: CatalogBrowser, sample: SampleLocation) -> Iterator[ListedPart]:
    for part in sample.parts:
        name = sample.key if browser.is_media_folder else f"{sample.key}.{part.name}"
        yield ListedPart(
            name=name, key=sample.key, part=part.name, shard=sample.shard, offset=part.offset, size_bytes=part.size
        )
