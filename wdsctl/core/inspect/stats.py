"""`inspect --stats`: distributions of sizes, media, texts and JSON keys.

Statistics of facts in the catalog cover all samples. Others are estimates from samples that are drawn and read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from wdsctl.core.catalog.samples import SamplePool, StoredSamples, draw_numbers, open_sample_pool
from wdsctl.core.catalog.values import PartLocation, SampleLocation, SplitMembers
from wdsctl.core.errors import PermissionDenied, StorageDown, StorageError
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.inspect.contents import PartContentStats, count_catalog_media, count_part_content
from wdsctl.core.inspect.get import select_members
from wdsctl.core.inspect.histograms import Bin, Histogram, SizeStats, measure_sizes
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import MediumFacts, Unreadable
from wdsctl.core.offsets.probe import probes_of
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.preview import PART_HEAD_BYTES
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import FileRange, Storage

StatsOrigin = Literal["catalog", "sample"]

SAMPLES_READ = 1_000  # default
READ_BATCH_SAMPLES = 64  # samples per read of first bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One distribution. `part`: empty for a distribution over samples.

    `what`: bytes, parts, width, height, seconds, characters or words. `of`: whether it covers everything in the
    catalog, or the samples that were read. Percentiles are `exact` or within 9.1 percent; other numbers are always
    exact. `bins`: without empty ones.
    """

    part: str
    what: str
    of: StatsOrigin
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
class ContentKindCount:
    """A kind of content of a part: `JPEG RGB`, `json, object`, `array of float32, 3 x 224`."""

    part: str
    what: str
    count: int
    of: StatsOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonKeySummary:
    """A key of JSON. `share`: its share of the samples with JSON in this part.

    Lengths are those of strings and lists.
    """

    part: str
    path: str
    samples: int
    share: float
    types: dict[str, int]
    length_min: float | None
    length_p50: float | None
    length_max: float | None
    length_exact: bool
    min: float | None  # for numbers
    max: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsReport:
    """The report. `view`: empty for the whole dataset. `read`: the number of samples read, drawn by `seed`.

    `keys_left_out`: values under JSON keys beyond the limit. `failed`: parts that could not be read, by reason.
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
    kinds: tuple[ContentKindCount, ...]
    keys: tuple[JsonKeySummary, ...]
    keys_left_out: int
    failed: dict[str, int]


def inspect_stats(
    root: str,
    *,
    count: int = SAMPLES_READ,
    seed: int = 0,
    split: str | None = None,
    catalog: str | None = None,
    progress: Progress = SILENT_PROGRESS,
) -> StatsReport:
    """Compute statistics of a dataset, a view, a split or a folder of media.

    Sizes cover all samples. So do media facts, if the catalog has them and no split or view is selected. For the
    rest, draws `count` samples by `seed`, and reads the first 64 KiB of their parts, up to 1 MiB of JSON and texts.
    Raises InputError WDS211, StorageDown, and the errors of catalogs.
    """
    with open_indexed(root, catalog, takes_view=True) as dataset:
        location, browser = dataset.location, dataset.browser
        members = select_members(dataset, split)
        pool = open_sample_pool(location, browser, members)
        sizes = _measure_sizes(dataset, members, progress)
        media = count_catalog_media(browser, progress) if browser.has_facts and members is None else {}
        reader = _ContentReader(dataset, skip_known=bool(media))
        reader.read_samples(pool, count, seed, progress)
        generation = dataset.catalog.generation
    return StatsReport(
        root=location.display_path,
        view=dataset.view,
        catalog=location.catalog_path,
        generation=generation,
        split=split,
        samples=sizes.samples,
        read=reader.samples,
        seed=seed,
        read_bytes=reader.read_bytes,
        measures=(
            *_measure("", "bytes", "catalog", sizes.bytes),
            *_measure("", "parts", "catalog", sizes.parts),
            *(
                each
                for name, histogram in sizes.bytes_by_part.items()
                for each in _measure(name, "bytes", "catalog", histogram)
            ),
            *_content_measures(media, "catalog"),
            *_content_measures(reader.contents, "sample"),
        ),
        kinds=(*_content_kinds(media, "catalog"), *_content_kinds(reader.contents, "sample")),
        keys=tuple(_json_keys(reader.contents)),
        keys_left_out=sum(content.json_keys.skipped_values for content in reader.contents.values()),
        failed=dict(reader.failures),
    )


def _measure_sizes(dataset: OpenDataset, members: SplitMembers | None, progress: Progress) -> SizeStats:
    if not dataset.catalog.is_media_folder:
        return measure_sizes(StoredSamples(dataset.location, dataset.catalog.generation).offsets, members, progress)
    sizes = SizeStats()
    for file in dataset.browser.shards():
        sizes.bytes.add_one(file.size)
    return sizes


class _ContentReader:
    """Reads samples in batches, and collects statistics of their content."""

    def __init__(self, dataset: OpenDataset, *, skip_known: bool) -> None:
        self._root = dataset.location.root
        self._dataset = dataset
        self._skip_known = skip_known
        self.contents: dict[str, PartContentStats] = {}
        self.failures: Counter[str] = Counter()
        self.samples = self.read_bytes = 0

    def read_samples(self, pool: SamplePool, count: int, seed: int, progress: Progress) -> None:
        numbers = draw_numbers(count, len(pool), seed)
        progress.phase("samples", items=len(numbers))
        # Reading a shard of another size, or with other members, fails, since it was replaced.
        shard_sizes: dict[str, int] = {}
        numbers_by_path: dict[str, int] = {}
        if not self._dataset.catalog.is_media_folder:
            offsets = StoredSamples(self._dataset.location, self._dataset.catalog.generation).offsets
            shard_sizes = {os.path.join(self._root, shard.path): shard.size for shard in offsets.shards}
            numbers_by_path = {path: number for number, path in enumerate(shard_sizes)}
        probes = dict.fromkeys(shard_sizes, lambda path: probes_of(offsets, numbers_by_path[path]))
        with closing(storage_for(self._root, shard_sizes, probes)) as storage:
            for start in range(0, len(numbers), READ_BATCH_SAMPLES):
                samples = [pool.at(number) for number in numbers[start : start + READ_BATCH_SAMPLES]]
                self._read_batch(storage, samples)
                progress.advance(items=len(samples), doing=samples[-1].shard)

    def _read_batch(self, storage: Storage, samples: Sequence[SampleLocation]) -> None:
        parts: list[tuple[PartLocation, FileRange, MediumFacts | Unreadable | None]] = []
        for sample in samples:
            facts = self._dataset.catalog.media_reader.facts_of_sample(sample)
            path = os.path.join(self._root, sample.shard)
            for part in sample.parts:
                if not (self._skip_known and part.name in facts):
                    head_range = FileRange(path, part.offset, min(part.size, PART_HEAD_BYTES))
                    parts.append((part, head_range, facts.get(part.name)))
        storage.will_need(head_range for _, head_range, facts in parts if facts is None)
        for part, head_range, known_facts in parts:
            try:
                self._read_part(storage, part, head_range, known_facts)
            except StorageDown:
                raise
            except (StorageError, PermissionDenied) as error:
                self.failures[error.message] += 1
        self.samples += len(samples)

    def _read_part(
        self, storage: Storage, part: PartLocation, head_range: FileRange, known_facts: MediumFacts | Unreadable | None
    ) -> None:
        head = storage.read(*head_range) if known_facts is None else b""
        source = ByteRangeFile.from_storage(storage, head_range.path, part.offset, part.size, head=head)
        stats = self.contents.setdefault(part.name, PartContentStats())
        count_part_content(stats, part.name, source, known_facts)
        if source.failure:
            raise source.failure
        self.read_bytes += len(head) + source.fetched_bytes


def _content_measures(contents: dict[str, PartContentStats], origin: StatsOrigin) -> Iterator[Measure]:
    for name, content in contents.items():
        for what, histogram in content.histograms.items():
            yield from _measure(name, what, origin, histogram)


def _measure(part: str, what: str, origin: StatsOrigin, histogram: Histogram) -> Iterator[Measure]:
    """Yield a measure, unless the histogram is empty."""
    low, high, mean = histogram.min, histogram.max, histogram.mean
    p50, p99 = histogram.percentile(0.5), histogram.percentile(0.99)
    if low is None or high is None or mean is None or p50 is None or p99 is None:
        return
    yield Measure(
        part=part,
        what=what,
        of=origin,
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


def _content_kinds(contents: dict[str, PartContentStats], origin: StatsOrigin) -> Iterator[ContentKindCount]:
    for name, content in contents.items():
        for what, count in content.kinds.most_common():
            yield ContentKindCount(part=name, what=what, count=count, of=origin)


def _json_keys(contents: dict[str, PartContentStats]) -> Iterator[JsonKeySummary]:
    for name, content in contents.items():
        for path, stats in content.json_keys.paths.items():
            yield JsonKeySummary(
                part=name,
                path=path,
                samples=stats.samples,
                share=stats.samples / content.json_keys.values,
                types=dict(stats.types.most_common()),
                length_min=stats.lengths.min,
                length_p50=stats.lengths.percentile(0.5),
                length_max=stats.lengths.max,
                min=stats.low,
                max=stats.high,
                length_exact=stats.lengths.is_exact,
            )
