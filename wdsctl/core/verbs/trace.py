"""`trace`: which samples a job had in a step or a batch, when it had a sample, and how often each came."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from wdsctl.core.errors import InputError, UsageError, WdsctlError
from wdsctl.core.findings import Finding, Severity
from wdsctl.core.trace import Trace, TracedBatch, read_trace
from wdsctl.core.trace.block import Ints
from wdsctl.core.trace.counts import tally
from wdsctl.core.trace.datasets import Moved, TracedDatasets, parse_moved
from wdsctl.core.trace.facts import RunFacts, SourceFacts
from wdsctl.core.trace.file import Flaw
from wdsctl.core.verbs.trace_report import CountLine, FrequentLine, RunLine, SeenLine, SourceLine, TraceReport
from wdsctl.core.verbs.trace_samples import Lines
from wdsctl.core.verbs.trace_write import samples_of, write_samples

MOST = 10  # samples that came most often


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """What is asked: one of step, batch, key, sample_id and counts, or nothing for an overview.

    `roots`: OLD=NEW of datasets that were moved. `out`: a folder to write the samples of the step or batch into;
    `overwrite`: over files that are there.
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


def trace(folder: str, options: TraceOptions) -> TraceReport:
    """What the trace in `folder` tells. What cannot be read of it is in the findings; the rest is told.

    Raises InputError WDS540 where there is no trace, WDS542 where nothing in it matches, WDS543 where a key is asked
    for and no dataset is there to tell whose it is.
    """
    _check(options)
    found = read_trace(folder)
    sources = _sources(found)
    lines = Lines(TracedDatasets(_moved(options, sources)))
    batches = _batches(found, options)
    seen = _seen(found, options, lines.datasets) if options.key is not None or options.sample_id is not None else None
    counts, counted = _counts(found, options, lines) if options.counts else (None, None)
    listed = None if batches is None else tuple(map(lines.of_batch, batches))
    written: tuple[str, ...] = ()
    if batches is not None and listed is not None and options.out is not None:
        samples = list(chain.from_iterable(map(samples_of, batches, listed)))
        written = write_samples(options.out, samples, lines, overwrite=options.overwrite)
    return TraceReport(
        folder=folder,
        runs=tuple(_run_line(file.facts, file.places) for file in found.files),
        sources=tuple(_source_line(source) for source in sources),
        batches=listed,
        seen=seen,
        counts=counts,
        batches_counted=counted,
        out=options.out,
        written=written,
        findings=(*map(_of_flaw, found.flaws), *lines.findings),
    )


def _check(options: TraceOptions) -> None:
    asked = {
        "--step": options.step is not None,
        "--batch": options.batch is not None,
        "--key": options.key is not None,
        "--id": options.sample_id is not None,
        "--counts": options.counts,
    }
    given = [name for name, is_given in asked.items() if is_given]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} are different questions", hint="ask one of them at a time")
    if options.out is not None and given not in (["--step"], ["--batch"]):
        raise UsageError("--out writes the samples of a step or of a batch", hint="add --step N or --batch N")


def _moved(options: TraceOptions, sources: list[SourceFacts]) -> Moved:
    known = dict.fromkeys(path for source in sources for path in (source.root, source.catalog) if path)
    return parse_moved(list(options.roots), list(known))


def _sources(found: Trace) -> list[SourceFacts]:
    return list(dict.fromkeys(source for file in found.files for source in file.facts.sources))


def _batches(found: Trace, options: TraceOptions) -> list[TracedBatch] | None:
    if options.step is not None:
        batches = found.step(options.step, rank=options.rank, pass_number=options.pass_number)
        asked = f"step {options.step}"
    elif options.batch is not None:
        numbers = options.batch, options.batch + 1
        batches = list(found.batches(*numbers, rank=options.rank, pass_number=options.pass_number))
        asked = f"batch {options.batch}"
    else:
        return None
    if not batches:
        raise _nothing(found, f"{asked} is not in the trace{_of_rank(options)}")
    return batches


def _seen(found: Trace, options: TraceOptions, datasets: TracedDatasets) -> tuple[SeenLine, ...]:
    if options.sample_id is not None:
        wanted, named = _same_id(options.sample_id), f"the sample {options.sample_id}"
    else:
        wanted, named = _with_key(found, options.key or "", datasets), f"the key {options.key!r}"
    seen = tuple(
        _seen_line(batch, position)
        for batch, position in found.find(wanted, rank=options.rank)
        if options.pass_number in (None, batch.pass_number)
    )
    if not seen:
        raise _nothing(found, f"{named} is in no batch of the trace{_of_rank(options)}")
    return seen


def _same_id(sample_id: int) -> Callable[[TracedBatch], Ints]:
    return lambda batch: np.flatnonzero((batch.origins[:, 2] == sample_id) & (batch.origins[:, 0] >= 0))


def _with_key(found: Trace, key: str, datasets: TracedDatasets) -> Callable[[TracedBatch], Ints]:
    """Which samples of a batch have this key: a dataset has it under some ids, and each run numbers its datasets."""
    ids: dict[SourceFacts, list[int]] = {}
    failed: list[WdsctlError] = []
    for source in _sources(found):
        opened = datasets.open(source)
        if isinstance(opened, WdsctlError):
            failed.append(opened)
        else:
            ids[source] = opened.ids_of(key)
    if failed and not any(ids.values()):
        raise failed[0]
    if not any(ids.values()):
        raise _nothing(found, f"no dataset of the trace has a sample with the key {key!r}")

    def wanted(batch: TracedBatch) -> Ints:
        is_wanted = np.zeros(len(batch.origins), bool)
        for source in batch.run.sources:
            if ids.get(source):
                is_wanted |= (batch.origins[:, 0] == source.number) & np.isin(batch.origins[:, 2], ids[source])
        return np.flatnonzero(is_wanted)

    return wanted


def _counts(found: Trace, options: TraceOptions, lines: Lines) -> tuple[tuple[CountLine, ...], int]:
    tallies, batches = tally(found.batches(rank=options.rank, pass_number=options.pass_number))
    if not batches:
        raise _nothing(found, f"there is no batch in the trace{_of_rank(options)}")
    counts = tuple(
        CountLine(
            dataset=lines.name_of(source),
            samples=each.total,
            distinct=len(each.ids) if source is not None else 0,
            by_times=each.by_times() if source is not None else {},
            most=tuple(_frequent(each.most(MOST), source, lines)) if source is not None else (),
        )
        for source, each in tallies.items()
    )
    return tuple(sorted(counts, key=lambda line: (-line.samples, line.dataset))), batches


def _frequent(most: list[tuple[int, int]], source: SourceFacts, lines: Lines) -> Iterator[FrequentLine]:
    for sample_id, times in most:
        located = lines.located(source, sample_id)
        yield FrequentLine(sample_id=sample_id, key=None if located is None else located.key, times=times)


def _seen_line(batch: TracedBatch, position: int) -> SeenLine:
    origin = batch.origins[position].tolist()
    names = {source.number: source.root for source in batch.run.sources}
    return SeenLine(
        step=batch.step,
        batch=batch.number,
        rank=batch.run.rank,
        pass_number=batch.pass_number,
        position=position,
        dataset=names.get(origin[0], ""),
        restore_key=tuple(origin[:3] if origin[3] < 0 else origin),
        started=batch.run.started,
    )


def _run_line(facts: RunFacts, places: Ints) -> RunLine:
    return RunLine(
        rank=facts.rank,
        world=facts.world,
        started=facts.started,
        wdsctl=facts.wdsctl,
        batches=int(places[:, 5].sum()),
        first=int(places[:, 0].min()) if len(places) else None,
        last=int(places[:, 1].max()) if len(places) else None,
    )


def _source_line(source: SourceFacts) -> SourceLine:
    return SourceLine(
        number=source.number,
        dataset=source.root,
        split=source.split,
        generation=source.generation,
        digest=source.digest,
    )


def _of_flaw(flaw: Flaw) -> Finding:
    severity: Severity = "note" if flaw.kind == "cut" else "error"
    return Finding(code="WDS541", severity=severity, message=flaw.message, shard=flaw.path, offset=flaw.at)


def _of_rank(options: TraceOptions) -> str:
    said = [] if options.rank is None else [f"of rank {options.rank}"]
    said += [] if options.pass_number is None else [f"of pass {options.pass_number}"]
    return f" ({', '.join(said)})" if said else ""


def _nothing(found: Trace, words: str) -> InputError:
    first = next(found.batches(), None)
    last = [int(file.places[:, 1].max()) for file in found.files if len(file.places)]
    there = f"it has batches {first.number} to {max(last)}" if first is not None else "it has no batches yet"
    damage = "; parts of it are damaged" if any(flaw.kind != "cut" for flaw in found.flaws) else ""
    return InputError(
        words,
        where=found.folder,
        hint=f"{there}{damage}; `wdsctl trace FOLDER` gives an overview",
        code="WDS542",
    )
