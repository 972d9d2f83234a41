"""`wdsctl trace`: list the samples of a step or batch, find where a sample was used, count the uses of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.errors import Finding, InputError, OptionConflict, Severity, WdsctlError, refuse_without_effect
from wdsctl.core.file_limits import scale_limit
from wdsctl.core.trace import Trace, TracedBatch, read_trace
from wdsctl.core.trace.datasets import TracedDatasets, parse_moved_roots
from wdsctl.core.trace.format import RunFacts, SourceFacts
from wdsctl.core.trace.read import TraceProblem
from wdsctl.core.trace.samples import (
    NO_RESTORE_KEY,
    SampleResolver,
    TracedBatchSamples,
    pair_with_sources,
    write_numbered_samples,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One rank of one run. `batches`: the number of batches it wrote, from number `first` to number `last`."""

    rank: int
    world: int
    started: int  # microseconds since 1970
    wdsctl: str
    batches: int
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSummary:
    number: int
    dataset: str
    split: str
    generation: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSample:
    step: int
    batch: int
    rank: int
    pass_number: int
    position: int  # in the batch
    dataset: str
    restore_key: tuple[int, ...]
    started: int  # start of the run, in microseconds since 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequentSample:
    sample_id: int
    key: str | None  # None if the dataset is unavailable
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCounts:
    """Counts of one dataset. `samples`: uses; `distinct`: different samples.

    `by_times`: the number of samples used once, twice, ...
    """

    dataset: str
    samples: int
    distinct: int
    by_times: Mapping[int, int]
    most: tuple[FrequentSample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReport:
    """`batches`, `seen` and `counts` are None unless requested. `written`: files below `out`."""

    folder: str
    runs: tuple[RunSummary, ...]
    sources: tuple[SourceSummary, ...]
    batches: tuple[TracedBatchSamples, ...] | None = None
    seen: tuple[SeenSample, ...] | None = None
    counts: tuple[SourceCounts, ...] | None = None
    batches_counted: int | None = None
    out: str | None = None
    written: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


_PENDING_IDS = 1 << 20  # ids that are buffered before they are counted


@dataclass
class SampleCounter:
    """Counts the samples of one dataset. `ids`: ascending; `counts`: uses of each. Takes 16 bytes per id."""

    ids: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    counts: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    _pending: list[Int64Array] = field(default_factory=list)
    _pending_count: int = 0

    def add(self, ids: Int64Array) -> None:
        self._pending.append(ids)
        self._pending_count += len(ids)
        if self._pending_count >= max(_PENDING_IDS, len(self.ids) // 4):
            self.merge_pending()

    def merge_pending(self) -> SampleCounter:
        """Count the buffered ids."""
        ids, times = np.unique(np.concatenate([np.empty(0, np.int64), *self._pending]), return_counts=True)
        every, where = np.unique(np.concatenate([self.ids, ids]), return_inverse=True)
        self.counts = np.bincount(where, np.concatenate([self.counts, times]), len(every)).astype(np.int64)
        self.ids, self._pending, self._pending_count = every, [], 0
        return self

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def samples_by_count(self) -> dict[int, int]:
        """Return the number of samples used once, twice, ..."""
        times, samples = np.unique(self.counts, return_counts=True)
        return dict(zip(times.tolist(), samples.tolist(), strict=True))

    def most_frequent(self, count: int) -> list[tuple[int, int]]:
        """Return (id, uses) of the most frequent samples; of equals, the lowest ids first."""
        first = np.argsort(-self.counts, kind="stable")[:count]
        return list(zip(self.ids[first].tolist(), self.counts[first].tolist(), strict=True))


def count_samples(batches: Iterable[TracedBatch]) -> tuple[dict[SourceFacts | None, SampleCounter], int]:
    """Return a counter per dataset (None: samples without a restore key), and the number of batches.

    Counts runs together if their headers have the same dataset.
    """
    tallies: dict[SourceFacts | None, SampleCounter] = {}
    count = 0
    for batch in batches:
        count += 1
        sources = batch.sources
        for number in np.unique(batch.origins[:, 0]).tolist():
            ids = batch.origins[batch.origins[:, 0] == number, 2]
            tallies.setdefault(sources.get(number), SampleCounter()).add(ids)
    return {source: each.merge_pending() for source, each in tallies.items()}, count


MAX_FREQUENT_SAMPLES = 10  # most frequent samples per dataset
MAX_LISTED_SAMPLES = 1_000_000  # of a step or batch: each takes 500 bytes
MAX_RANKS_NAMED = 8  # ranks without a file in one finding


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """The options of `trace`: at most one of step, batch, key, sample_id and counts; without them, an overview.

    `roots`: OLD=NEW for datasets that were moved. `out`: a folder for the samples of the step or batch. `overwrite`:
    replace existing files.
    """

    step: int | None = None
    batch: int | None = None
    key: str | None = None
    sample_id: int | None = None
    counts: bool = False
    rank: int | None = None
    pass_number: int | None = None
    roots: tuple[str, ...] = ()
    out: str | None = None
    overwrite: bool = False


def query_trace(folder: str, options: TraceOptions) -> TraceReport:
    """Answer a query from the trace in `folder`. Reports unreadable parts of the trace as findings.

    Raises InputError WDS540 if there is no trace, WDS542 if nothing matches, WDS543 if a key is requested and no
    dataset is available to resolve it.
    """
    _check(options)
    found = read_trace(folder)
    sources = _sources(found)
    known_paths = dict.fromkeys(path for source in sources for path in (source.root, source.catalog) if path)
    lines = SampleResolver(TracedDatasets(parse_moved_roots(list(options.roots), list(known_paths), folder)))
    batches = _batches(found, options)
    seen = (
        _find_seen(found, options, lines.datasets) if options.key is not None or options.sample_id is not None else None
    )
    counts, counted = _count_sources(found, options, lines) if options.counts else (None, None)
    listed = None if batches is None else tuple(map(lines.resolve_batch, batches))
    written: tuple[str, ...] = ()
    if batches is not None and listed is not None and options.out is not None:
        samples = list(chain.from_iterable(map(pair_with_sources, batches, listed)))
        written = write_numbered_samples(options.out, samples, lines, overwrite=options.overwrite)
    return TraceReport(
        folder=folder,
        runs=tuple(_summarize_run(file.facts, file.blocks) for file in found.files),
        sources=tuple(_summarize_source(source) for source in sources),
        batches=listed,
        seen=seen,
        counts=counts,
        batches_counted=counted,
        out=options.out,
        written=written,
        findings=(
            *map(_problem_finding, found.problems),
            *_missing_rank_findings(found, options.rank),
            *lines.findings,
        ),
    )


def _check(options: TraceOptions) -> None:
    selectors = {
        "--step": options.step is not None,
        "--batch": options.batch is not None,
        "--key": options.key is not None,
        "--id": options.sample_id is not None,
        "--counts": options.counts,
    }
    used = [name for name, is_used in selectors.items() if is_used]
    if len(used) > 1:
        raise OptionConflict(
            f"{' and '.join(used)} exclude each other", options=used, are_exclusive=True, hint="pass only one of them"
        )
    queries = "--step N, --batch N, --key KEY, --id ID or --counts"
    refuse_without_effect(
        ("--rank", options.rank is not None, queries, used),
        ("--pass", options.pass_number is not None, queries, used),
        ("--root", options.roots, queries, used),
        ("--out", options.out is not None, "--step N or --batch N", used in (["--step"], ["--batch"])),
    )


def _sources(trace: Trace) -> list[SourceFacts]:
    return list(dict.fromkeys(source for file in trace.files for source in file.facts.sources))


def _batches(found: Trace, options: TraceOptions) -> list[TracedBatch] | None:
    if options.step is not None:
        batches = found.step(options.step, rank=options.rank, pass_number=options.pass_number)
        described = f"step {options.step}"
    elif options.batch is not None:
        numbers = options.batch, options.batch + 1
        batches = list(found.batches(*numbers, rank=options.rank, pass_number=options.pass_number))
        described = f"batch {options.batch}"
    else:
        return None
    if not batches:
        raise _not_found_error(found, f"{described} is not in the trace{_describe_filters(options)}")
    samples = sum(len(batch.origins) for batch in batches)
    if samples > scale_limit(MAX_LISTED_SAMPLES):
        raise InputError(
            f"{described} has {samples:,} samples, and wdsctl lists {scale_limit(MAX_LISTED_SAMPLES):,} at most",
            where=found.folder,
            hint="pass --rank N for the batch of one rank",
            code="WDS421",
        )
    return batches


def _find_seen(found: Trace, options: TraceOptions, datasets: TracedDatasets) -> tuple[SeenSample, ...]:
    """Find the uses of a sample. Reads the whole trace, block by block."""
    if options.sample_id is not None:
        match, named = _id_matcher(options.sample_id), f"the sample {options.sample_id}"
    else:
        match, named = _key_matcher(found, options.key or "", datasets), f"the key {options.key!r}"
    seen = tuple(
        _seen_sample(batch, position)
        for batch in found.batches(rank=options.rank, pass_number=options.pass_number)
        for position in match(batch).tolist()
    )
    if not seen:
        raise _not_found_error(found, f"{named} is not in any batch of the trace{_describe_filters(options)}")
    return seen


def _id_matcher(sample_id: int) -> Callable[[TracedBatch], Int64Array]:
    return lambda batch: np.flatnonzero((batch.origins[:, 2] == sample_id) & (batch.origins[:, 0] >= 0))


def _key_matcher(found: Trace, key: str, datasets: TracedDatasets) -> Callable[[TracedBatch], Int64Array]:
    """Return a function that finds the samples with this key in a batch. Dataset numbers differ between runs."""
    ids: dict[SourceFacts, list[int]] = {}
    failed: list[WdsctlError] = []
    for source in _sources(found):
        opened = datasets.open(source)
        if isinstance(opened, WdsctlError):
            failed.append(opened)
        else:
            ids[source] = opened.find_ids(key)
    if failed and not any(ids.values()):
        raise failed[0]
    if not any(ids.values()):
        raise _not_found_error(found, f"no dataset of the trace has a sample with the key {key!r}")

    def match(batch: TracedBatch) -> Int64Array:
        is_match = np.zeros(len(batch.origins), bool)
        for source in batch.run.sources:
            if ids.get(source):
                is_match |= (batch.origins[:, 0] == source.number) & np.isin(batch.origins[:, 2], ids[source])
        return np.flatnonzero(is_match)

    return match


def _count_sources(
    found: Trace, options: TraceOptions, resolver: SampleResolver
) -> tuple[tuple[SourceCounts, ...], int]:
    tallies, batches = count_samples(found.batches(rank=options.rank, pass_number=options.pass_number))
    if not batches:
        raise _not_found_error(found, f"the trace has no matching batch{_describe_filters(options)}")
    counts = tuple(
        SourceCounts(
            dataset=NO_RESTORE_KEY if source is None else source.root,
            samples=each.total,
            distinct=len(each.ids) if source is not None else 0,
            by_times=each.samples_by_count() if source is not None else {},
            most=tuple(_frequent_samples(each.most_frequent(MAX_FREQUENT_SAMPLES), source, resolver))
            if source is not None
            else (),
        )
        for source, each in tallies.items()
    )
    return tuple(sorted(counts, key=lambda line: (-line.samples, line.dataset))), batches


def _frequent_samples(
    frequent: list[tuple[int, int]], source: SourceFacts, resolver: SampleResolver
) -> Iterator[FrequentSample]:
    for sample_id, times in frequent:
        located = resolver.locate(source, sample_id)
        yield FrequentSample(sample_id=sample_id, key=None if located is None else located.key, times=times)


def _seen_sample(batch: TracedBatch, position: int) -> SeenSample:
    restore_key = batch.restore_key(position)
    source = batch.sources.get(restore_key[0])
    return SeenSample(
        step=batch.step,
        batch=batch.number,
        rank=batch.run.rank,
        pass_number=batch.pass_number,
        position=position,
        dataset="" if source is None else source.root,
        restore_key=restore_key,
        started=batch.run.started,
    )


def _summarize_run(facts: RunFacts, blocks: Int64Array) -> RunSummary:
    return RunSummary(
        rank=facts.rank,
        world=facts.world,
        started=facts.started,
        wdsctl=facts.wdsctl,
        batches=int(blocks[:, 5].sum()),
        first=int(blocks[:, 0].min()) if len(blocks) else None,
        last=int(blocks[:, 1].max()) if len(blocks) else None,
    )


def _summarize_source(source: SourceFacts) -> SourceSummary:
    return SourceSummary(
        number=source.number,
        dataset=source.root,
        split=source.split,
        generation=source.generation,
        digest=source.digest,
    )


def _problem_finding(problem: TraceProblem) -> Finding:
    severity: Severity = "note" if problem.kind == "cut" else "error"
    return Finding(
        code="WDS541", severity=severity, message=problem.message, shard=problem.path, offset=problem.byte_offset
    )


def _missing_rank_findings(found: Trace, rank: int | None) -> Iterator[Finding]:
    """A finding for each number of ranks that wrote batches, if files of some ranks are not in the trace, as after a
    copy from some of the machines only. `rank`: the only one that is asked for."""
    worlds = {file.facts.world for file in found.files if len(file.blocks)}
    for world in sorted(worlds):
        present = {file.facts.rank for file in found.files if file.facts.world == world}
        missing_count = world - len(present)
        if missing_count <= 0 or rank in present:
            continue
        names = islice((str(each) for each in range(world) if each not in present), MAX_RANKS_NAMED)
        more = f" and {missing_count - MAX_RANKS_NAMED:,} more" if missing_count > MAX_RANKS_NAMED else ""
        yield Finding(
            code="WDS541",
            severity="error",
            message=f"the file of rank{'s' * (missing_count > 1)} {', '.join(names)}{more} of {world:,} is missing",
            shard=found.folder,
        )


def _describe_filters(options: TraceOptions) -> str:
    filters = [] if options.rank is None else [f"of rank {options.rank}"]
    filters += [] if options.pass_number is None else [f"of pass {options.pass_number}"]
    return f" ({', '.join(filters)})" if filters else ""


def _not_found_error(found: Trace, message: str) -> InputError:
    first = next(found.batches(), None)
    last = [int(file.blocks[:, 1].max()) for file in found.files if len(file.blocks)]
    there = f"it has batches {first.number} to {max(last)}" if first is not None else "it has no batches yet"
    damage = "; parts of it are damaged" if any(problem.kind != "cut" for problem in found.problems) else ""
    return InputError(
        message,
        where=found.folder,
        hint=f"run `wdsctl trace FOLDER` for an overview; {there}{damage}",
        code="WDS542",
    )
