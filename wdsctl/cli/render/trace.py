"""What a trace tells."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, path, safe
from wdsctl.cli.render.pieces import finding_lines, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.verbs.trace_report import CountLine, SeenLine, TraceReport
    from wdsctl.core.verbs.trace_samples import BatchLine, SampleLine

#: Of what may be long; --json has it all.
SHOWN = 20
TIMES_SHOWN = 6


def render(report: TraceReport) -> Iterator[RenderableType]:
    if report.batches is not None:
        for batch in report.batches:
            yield from _batch(batch)
    elif report.seen is not None:
        yield from _seen(report.seen)
    elif report.counts is not None:
        yield from _counts(report.counts, report.batches_counted or 0)
    else:
        yield from _overview(report)
    if report.out is not None:
        yield f"{count(len(report.written), 'file')} in {path(report.out)}"
    if report.findings:
        yield ""
        yield from finding_lines(report.findings)


def _batch(batch: BatchLine) -> Iterator[RenderableType]:
    of_pass = f" of pass {batch.pass_number}" if batch.pass_number else ""
    yield (
        f"step {count(batch.step)}{of_pass}, rank {batch.rank} of {batch.world}: batch {count(batch.number)}, "
        f"{count(len(batch.samples), 'sample')}"
    )
    yield table(
        ("key", "dataset", "shard", "=bytes", "#pass", "=restore key"),
        [
            (sample.key or "?", _dataset(sample), sample.shard or "?", _bytes(sample), _pass(sample), _restore(sample))
            for sample in batch.samples
        ],
    )


def _seen(seen: tuple[SeenLine, ...]) -> Iterator[RenderableType]:
    yield f"seen {count(len(seen), 'time')}"
    yield table(
        ("#step", "#rank", "#batch", "#position", "#pass", "dataset", "=restore key"),
        [
            (
                count(line.step),
                str(line.rank),
                count(line.batch),
                str(line.position),
                str(line.restore_key[1]),
                path(line.dataset),
                ",".join(map(str, line.restore_key)),
            )
            for line in seen[:SHOWN]
        ],
    )
    yield from _more(len(seen))


def _counts(counts: tuple[CountLine, ...], batches: int) -> Iterator[RenderableType]:
    total = sum(line.samples for line in counts)
    yield f"{count(batches, 'batch') if batches == 1 else f'{count(batches)} batches'}, {count(total, 'sample')}"
    yield table(
        ("dataset", "#samples", "#different", "how often: how many"),
        [(path(line.dataset), count(line.samples), count(line.distinct), _times(line)) for line in counts[:SHOWN]],
    )
    yield from _more(len(counts))
    for line in counts[:SHOWN]:
        if line.most and line.most[0].times > 1:
            yield ""
            yield f"most often, of {path(line.dataset)}"
            yield table(
                ("key", "id", "#times"),
                [(each.key or "?", str(each.sample_id), count(each.times)) for each in line.most],
            )


def _overview(report: TraceReport) -> Iterator[RenderableType]:
    yield f"{path(report.folder)}: {count(len(report.runs), 'file')}, one a rank and run"
    yield table(
        ("started", "#rank", "of", "#batches", "#first", "#last"),
        [
            (_when(run.started), str(run.rank), str(run.world), count(run.batches), _at(run.first), _at(run.last))
            for run in report.runs[:SHOWN]
        ],
    )
    yield from _more(len(report.runs))
    yield ""
    yield table(
        ("#source", "dataset", "split", "#generation"),
        [(str(s.number), path(s.dataset), s.split, str(s.generation)) for s in report.sources[:SHOWN]],
    )
    yield from _more(len(report.sources))


def _more(lines: int) -> Iterator[str]:
    if lines > SHOWN:
        yield f"... and {count(lines - SHOWN)} more (--json lists them all)"


def _dataset(sample: SampleLine) -> str:
    return path(sample.dataset)


def _bytes(sample: SampleLine) -> str:
    """`512-18,944`: the first byte, and the one after the last."""
    if sample.offset is None or sample.size_bytes is None:
        return "?"
    return f"{count(sample.offset)}-{count(sample.offset + sample.size_bytes)}"


def _pass(sample: SampleLine) -> str:
    return str(sample.restore_key[1]) if sample.restore_key else "?"


def _restore(sample: SampleLine) -> str:
    return safe(",".join(map(str, sample.restore_key)))


def _times(line: CountLine) -> str:
    """`once: 1,200, twice: 31, 4 times: 2`."""
    names = {1: "once", 2: "twice"}
    told = [f"{names.get(n, f'{n} times')}: {count(samples)}" for n, samples in line.by_times.items()]
    return ", ".join([*told[:TIMES_SHOWN], *(["..."] if len(told) > TIMES_SHOWN else [])])


def _when(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds // 1_000_000, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def _at(number: int | None) -> str:
    return "" if number is None else count(number)
