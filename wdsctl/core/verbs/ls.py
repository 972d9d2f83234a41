"""`ls`: the shards, samples or parts of a dataset, one after the other, however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from wdsctl.core.catalog.browse import Browser
from wdsctl.core.catalog.placed import Members, Placed, ShardLine
from wdsctl.core.place import Place
from wdsctl.core.verbs.locate_sample import chosen_of, open_root

What = Literal["shards", "samples", "parts"]


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
    size_bytes: int  # of all its parts
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPart:
    """`name`: as a file would be called, `key.part`."""

    name: str
    key: str
    part: str
    shard: str
    offset: int
    size_bytes: int


Listed = ListedShard | ListedSample | ListedPart


@dataclass(frozen=True, slots=True)
class Listing:
    """To be drawn while the block of `listing` is open: `entries`, or the `names` of them alone, which come sooner."""

    root: str
    what: What
    entries: Iterator[Listed]
    names: Iterator[str]


@contextmanager
def listing(
    root: str, prefix: str = "", *, what: What = "shards", split: str | None = None, catalog: str | None = None
) -> Iterator[Listing]:
    """Shards by path; samples and parts in tar order, or by key where a `prefix` is given. `split`: of its samples.

    Shards are matched by their path, samples and parts by their key. Cost: the first entry comes at once, memory does
    not grow. Raises InputError WDS211 where there is no such split, and what a catalog raises.
    """
    place, view = open_root(root, catalog)
    with Browser(place.catalog) as browser:
        members = chosen_of(place, browser, view, split)
        wanted = (place, browser, prefix, what, members)
        yield Listing(place.shown, what, _entries(*wanted), _names(*wanted))


def _entries(place: Place, browser: Browser, prefix: str, what: What, members: Members | None) -> Iterator[Listed]:
    if what == "shards":
        ids = None if members is None else browser.paths(members.shards)
        yield from (_shard(line) for line in browser.shards(prefix) if ids is None or line.path in ids)
        return
    for sample in _samples(place, browser, prefix):
        if members is None or members.has(sample.id):
            yield from (_parts(browser, sample) if what == "parts" else (_sample(sample),))


def _names(place: Place, browser: Browser, prefix: str, what: What, members: Members | None) -> Iterator[str]:
    if what == "samples" and browser.has_rows:
        yield from (key for number, key in browser.keys(prefix) if members is None or members.has(number))
        return
    yield from map(name_of, _entries(place, browser, prefix, what, members))


def name_of(entry: Listed) -> str:
    """A shard's path, a sample's key, a part's name as a file."""
    if isinstance(entry, ListedShard):
        return entry.path
    return entry.name if isinstance(entry, ListedPart) else entry.key


def _samples(place: Place, browser: Browser, prefix: str) -> Iterator[Placed]:
    if browser.has_rows:
        yield from browser.samples(prefix)
        return
    from wdsctl.core.stored_samples import StoredSamples

    yield from StoredSamples(place, browser.generation).samples(prefix)


def _shard(line: ShardLine) -> ListedShard:
    return ListedShard(path=line.path, size_bytes=line.size, samples=line.samples, status=line.status)


def _sample(sample: Placed) -> ListedSample:
    return ListedSample(
        key=sample.key,
        shard=sample.shard,
        position=sample.position,
        size_bytes=sum(part.size for part in sample.parts),
        parts=tuple(part.name for part in sample.parts),
    )


def _parts(browser: Browser, sample: Placed) -> Iterator[ListedPart]:
    for part in sample.parts:
        name = sample.key if browser.is_media_folder else f"{sample.key}.{part.name}"
        yield ListedPart(
            name=name, key=sample.key, part=part.name, shard=sample.shard, offset=part.offset, size_bytes=part.size
        )
