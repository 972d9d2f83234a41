"""`inspect --stats`: how samples are spread. What the catalog knows is told of all; the rest of some that are read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Literal

from wdsctl.core.catalog.browse import Browser
from wdsctl.core.catalog.placed import Members, PartPlace, Placed
from wdsctl.core.errors import PermissionDenied, StorageDown, StorageError
from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.facts import Facts, Unreadable
from wdsctl.core.part_view import HEAD
from wdsctl.core.place import Place
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.sample_pool import Pool, drawn, pool_of
from wdsctl.core.stats_content import Content, look_at
from wdsctl.core.stats_histogram import Bin, Histogram
from wdsctl.core.stats_keys import KeyFacts
from wdsctl.core.stats_media import media_stats
from wdsctl.core.stats_sizes import Sizes, sizes_of
from wdsctl.core.storage import Range, Storage
from wdsctl.core.stored_samples import StoredSamples
from wdsctl.core.stores import storage_for
from wdsctl.core.verbs.locate_sample import chosen_of, open_root

Origin = Literal["catalog", "sample"]

BATCH = 64  # samples whose first bytes are read together


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One distribution. `part`: empty for whole samples.

    `what`: bytes, parts, width, height, seconds, characters or words. `of`: the catalog knows all of them, or some
    samples were read. Percentiles are within 9.1 percent, or `exact`; the other figures are exact for what was counted.
    Bins that are empty are left out.
    """

    part: str
    what: str
    of: Origin
    count: int
    min: float
    p50: float
    p99: float
    max: float
    mean: float
    total: float
    bins: tuple[Bin, ...]
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KindLine:
    """What a part's content is: `JPEG RGB`, `json, object`, `array of float32, 3 x 224`."""

    part: str
    what: str
    count: int
    of: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLine:
    """A key of JSON. `share`: of the samples that have JSON in this part. Lengths: of its strings and lists."""

    part: str
    path: str
    samples: int
    share: float
    types: dict[str, int]
    length_min: float | None
    length_p50: float | None
    length_max: float | None
    length_exact: bool
    min: float | None  # of numbers
    max: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsReport:
    """`view`: empty where all is meant. `read`: samples that were read, drawn by `seed`. `failed`: parts that could not
    be, by the reason.
    """

    root: str
    view: str
    catalog: str
    generation: int
    split: str | None
    samples: int
    read: int
    seed: int
    read_bytes: int
    measures: tuple[Measure, ...]
    kinds: tuple[KindLine, ...]
    keys: tuple[KeyLine, ...]
    keys_left_out: int
    failed: dict[str, int]


def inspect_stats(
    root: str,
    *,
    count: int = 1_000,
    seed: int = 0,
    split: str | None = None,
    catalog: str | None = None,
    progress: Progress = SILENT,
) -> StatsReport:
    """Statistics of a dataset, of one of its splits or of a folder of media.

    Sizes are of all samples. So are facts of media where the catalog has them and no split is asked for. For the rest
    `count` samples are drawn by `seed` and the first 64 KiB of their parts read, of JSON and texts up to 1 MiB.
    Raises InputError WDS211, StorageDown, and what a catalog raises.
    """
    place, view = open_root(root, catalog)
    with Browser(place.catalog) as browser:
        members = chosen_of(place, browser, view, split)
        pool = pool_of(place, browser, members)
        sizes = _sizes(place, browser, members, progress)
        media = media_stats(browser, progress) if browser.has_facts and members is None else {}
        reader = _Reader(place, browser, skip_known=bool(media))
        reader.run(pool, count, seed, progress)
        generation = browser.generation
    return StatsReport(
        root=place.shown,
        view=view,
        catalog=place.catalog,
        generation=generation,
        split=split,
        samples=sizes.samples,
        read=reader.samples,
        seed=seed,
        read_bytes=reader.read_bytes,
        measures=(*_of_sizes(sizes), *_of_contents(media, "catalog"), *_of_contents(reader.found, "sample")),
        kinds=(*_kinds(media, "catalog"), *_kinds(reader.found, "sample")),
        keys=tuple(_keys(reader.found)),
        keys_left_out=sum(content.keys.left_out for content in reader.found.values()),
        failed=dict(reader.failed),
    )


def _sizes(place: Place, browser: Browser, members: Members | None, progress: Progress) -> Sizes:
    if not browser.is_media_folder:
        return sizes_of(StoredSamples(place, browser.generation).offsets, members, progress)
    sizes = Sizes()
    for line in browser.shards():
        sizes.bytes.add_one(line.size)
    return sizes


class _Reader:
    """Reads some samples, batch by batch, and counts what is in them."""

    def __init__(self, place: Place, browser: Browser, *, skip_known: bool) -> None:
        self._place = place
        self._browser = browser
        self._skip_known = skip_known
        self.found: dict[str, Content] = {}
        self.failed: Counter[str] = Counter()
        self.samples = self.read_bytes = 0

    def run(self, pool: Pool, count: int, seed: int, progress: Progress) -> None:
        numbers = drawn(count, len(pool), seed)
        progress.phase("samples", items=len(numbers))
        with closing(storage_for(self._place.root, self._sizes())) as storage:
            for batch in _batches(numbers):
                samples = [pool.at(number) for number in batch]
                self._batch(storage, samples)
                progress.advance(items=len(samples), doing=samples[-1].shard)

    def _sizes(self) -> dict[str, int]:
        """What shards must have: one that was replaced is not taken for what it was."""
        if self._browser.is_media_folder:
            return {}
        return {os.path.join(self._place.root, line.path): line.size for line in self._browser.shards()}

    def _batch(self, storage: Storage, samples: Sequence[Placed]) -> None:
        wanted = [
            (sample, part, known.get(part.name))
            for sample in samples
            for known in (self._browser.facts(sample),)
            for part in sample.parts
            if not (self._skip_known and part.name in known)
        ]
        storage.will_need(self._head(sample, part) for sample, part, known in wanted if known is None)
        for sample, part, known in wanted:
            try:
                self._part(storage, sample, part, known)
            except StorageDown:
                raise
            except (StorageError, PermissionDenied) as error:
                self.failed[error.message] += 1
        self.samples += len(samples)

    def _head(self, sample: Placed, part: PartPlace) -> Range:
        return Range(os.path.join(self._place.root, sample.shard), part.offset, min(part.size, HEAD))

    def _part(self, storage: Storage, sample: Placed, part: PartPlace, known: Facts | Unreadable | None) -> None:
        wanted = self._head(sample, part)
        head = storage.read(*wanted) if known is None else b""
        read = partial(_read, storage, wanted.path, part.offset)
        source = ByteRange(read, part.size, head=head)
        look_at(self.found.setdefault(part.name, Content()), source, known)
        if source.failure:
            raise source.failure
        self.read_bytes += len(head) + source.fetched


def _read(storage: Storage, path: str, offset: int, at: int, length: int) -> bytes:
    return storage.read(path, offset + at, length)


def _batches(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for at in range(0, len(numbers), BATCH):
        yield numbers[at : at + BATCH]


def _of_sizes(sizes: Sizes) -> Iterator[Measure]:
    yield from _measure("", "bytes", "catalog", sizes.bytes)
    yield from _measure("", "parts", "catalog", sizes.parts)
    for name, histogram in sizes.of_part.items():
        yield from _measure(name, "bytes", "catalog", histogram)


def _of_contents(found: dict[str, Content], of: Origin) -> Iterator[Measure]:
    for name, content in found.items():
        for what, histogram in content.numbers.items():
            yield from _measure(name, what, of, histogram)


def _measure(part: str, what: str, of: Origin, histogram: Histogram) -> Iterator[Measure]:
    """Nothing where nothing was counted."""
    low, high, mean = histogram.min, histogram.max, histogram.mean
    p50, p99 = histogram.percentile(0.5), histogram.percentile(0.99)
    if low is None or high is None or mean is None or p50 is None or p99 is None:
        return
    yield Measure(
        part=part,
        what=what,
        of=of,
        count=histogram.count,
        min=low,
        p50=p50,
        p99=p99,
        max=high,
        mean=mean,
        total=histogram.total,
        bins=histogram.bins(),
        exact=histogram.is_exact,
    )


def _kinds(found: dict[str, Content], of: Origin) -> Iterator[KindLine]:
    for name, content in found.items():
        for what, number in content.kinds.most_common():
            yield KindLine(part=name, what=what, count=number, of=of)


def _keys(found: dict[str, Content]) -> Iterator[KeyLine]:
    for name, content in found.items():
        for path, facts in content.keys.paths.items():
            yield _key(name, path, facts, content.keys.values)


def _key(part: str, path: str, facts: KeyFacts, values: int) -> KeyLine:
    lengths = facts.lengths
    return KeyLine(
        part=part,
        path=path,
        samples=facts.samples,
        share=facts.samples / values,
        types=dict(facts.types.most_common()),
        length_min=lengths.min,
        length_p50=lengths.percentile(0.5),
        length_max=lengths.max,
        min=facts.low,
        max=facts.high,
        length_exact=lengths.is_exact,
    )
