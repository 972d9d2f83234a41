"""`wdsctl trace`: which samples were in which step of a training."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options
from wdsctl.cli.formatting import display_path, format_count
from wdsctl.cli.tables import finding_lines, make_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.trace.samples import TracedBatchSamples, TracedSample
    from wdsctl.core.trace.trace import SeenSample, SourceCounts, TraceReport


EPILOG = """
\b
Examples:
  wdsctl trace traces/                            runs and datasets
  wdsctl trace traces/ --step 1200                the samples of all ranks
  wdsctl trace traces/ --step 1200 --rank 3 --out batch/
  wdsctl trace traces/ --key 000042               the steps with this sample
  wdsctl trace traces/ --counts                   how often samples repeat
  wdsctl trace traces/ --step 7 --root /old/data=/new/data

\b
A trace is data: pass `--allow-path DIR` if its datasets are outside FOLDER.
`get_train_dataset(..., trace="FOLDER")` writes traces. `ban=[...]` takes the
`restore_key` that --json prints. Exits with 3 if nothing is found, and with 5
if the answer is incomplete (a damaged file, a missing dataset).
"""


def command(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The trace folder of a training job.")],
    *,
    step: Annotated[
        int | None, typer.Option("--step", metavar="N", min=0, help="The samples of training step N, from 0.")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option("--batch", metavar="N", min=0, help="The samples of batch N of the whole job, from 0."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="The steps in which this sample was read.")
    ] = None,
    sample_id: Annotated[
        int | None,
        typer.Option("--id", metavar="ID", min=0, help="Like --key, with the id of the sample in the catalog."),
    ] = None,
    counts: Annotated[bool, typer.Option("--counts", help="How often each dataset and its samples were read.")] = False,
    rank: Annotated[int | None, typer.Option("--rank", metavar="R", min=0, help="Only this rank.")] = None,
    pass_number: Annotated[
        int | None, typer.Option("--pass", metavar="N", min=0, help="Only this pass of a finite stream.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Write the samples to DIR as raw files.")
    ] = None,
    root: Annotated[
        list[str] | None,
        typer.Option(
            "--root",
            metavar="OLD=NEW",
            help="Read a dataset or folder at NEW that was moved there from OLD (repeatable).",
        ),
    ] = None,
    common: options.CommonOptions,
) -> int:
    """Show which samples were in a training step. Reads the loader's traces."""
    from wdsctl.core.errors import findings_at_least
    from wdsctl.core.trace.trace import TraceOptions, query_trace

    request = TraceOptions(
        step=step,
        batch=batch,
        key=key,
        sample_id=sample_id,
        counts=counts,
        rank=rank,
        pass_number=pass_number,
        roots=tuple(root or ()),
        out=out,
        overwrite=common.yes,
    )
    report = query_trace(folder, request)
    common.output.answer("trace", report, render_trace)
    return 5 if findings_at_least(report.findings, "error") else 0


#: Rows and counts shown; --json has all.
ROWS_SHOWN = 20
REPEATS_SHOWN = 6


def render_trace(report: TraceReport) -> Iterator[RenderableType]:
    if report.batches is not None:
        for batch in report.batches:
            yield from _batch(batch)
    elif report.seen is not None:
        yield from _occurrence_lines(report.seen)
    elif report.counts is not None:
        yield from _counts(report.counts, report.batches_counted or 0)
    else:
        yield from _overview(report)
    if report.out is not None:
        yield f"{format_count(len(report.written), 'file')} in {display_path(report.out)}"
    if report.findings:
        yield ""
        yield from finding_lines(report.findings)


def _batch(batch: TracedBatchSamples) -> Iterator[RenderableType]:
    of_pass = f" of pass {batch.pass_number}" if batch.pass_number else ""
    yield (
        f"step {format_count(batch.step)}{of_pass}, rank {batch.rank} of {batch.world}: batch "
        f"{format_count(batch.number)}, "
        f"{format_count(len(batch.samples), 'sample')}"
    )
    yield make_table(
        ("key", "dataset", "shard", "=bytes", "#pass", "=restore key"),
        [
            (
                sample.key or "?",
                display_path(sample.dataset),
                sample.shard or "?",
                _byte_range(sample),
                str(sample.restore_key[1]) if sample.restore_key else "?",
                ",".join(map(str, sample.restore_key)),
            )
            for sample in batch.samples
        ],
    )


def _occurrence_lines(seen: tuple[SeenSample, ...]) -> Iterator[RenderableType]:
    yield f"read {format_count(len(seen), 'time')}"
    yield make_table(
        ("#step", "#rank", "#batch", "#position", "#pass", "dataset", "=restore key"),
        [
            (
                format_count(line.step),
                str(line.rank),
                format_count(line.batch),
                str(line.position),
                str(line.restore_key[1]),
                display_path(line.dataset),
                ",".join(map(str, line.restore_key)),
            )
            for line in seen[:ROWS_SHOWN]
        ],
    )
    yield from _more(len(seen))


def _counts(counts: tuple[SourceCounts, ...], batches: int) -> Iterator[RenderableType]:
    total = sum(line.samples for line in counts)
    yield (
        f"{format_count(batches, 'batch') if batches == 1 else f'{format_count(batches)} batches'}, "
        f"{format_count(total, 'sample')}"
    )
    yield make_table(
        ("dataset", "#samples", "#distinct", "repeats: samples"),
        [
            (display_path(line.dataset), format_count(line.samples), format_count(line.distinct), _repeats_text(line))
            for line in counts[:ROWS_SHOWN]
        ],
    )
    yield from _more(len(counts))
    for line in counts[:ROWS_SHOWN]:
        if line.most and line.most[0].times > 1:
            yield ""
            yield f"most frequent samples of {display_path(line.dataset)}"
            yield make_table(
                ("key", "id", "#times"),
                [(each.key or "?", str(each.sample_id), format_count(each.times)) for each in line.most],
            )


def _overview(report: TraceReport) -> Iterator[RenderableType]:
    yield f"{display_path(report.folder)}: {format_count(len(report.runs), 'file')}, one per rank and run"
    yield make_table(
        ("started", "#rank", "of", "#batches", "#first", "#last"),
        [
            (
                _local_time(run.started),
                str(run.rank),
                str(run.world),
                format_count(run.batches),
                _number_text(run.first),
                _number_text(run.last),
            )
            for run in report.runs[:ROWS_SHOWN]
        ],
    )
    yield from _more(len(report.runs))
    yield ""
    yield make_table(
        ("#source", "dataset", "split", "#generation"),
        [(str(s.number), display_path(s.dataset), s.split, str(s.generation)) for s in report.sources[:ROWS_SHOWN]],
    )
    yield from _more(len(report.sources))


def _more(lines: int) -> Iterator[str]:
    if lines > ROWS_SHOWN:
        yield f"... and {format_count(lines - ROWS_SHOWN)} more (--json lists them all)"


def _byte_range(sample: TracedSample) -> str:
    """`512-18,944`: the first byte, and the one after the last."""
    if sample.offset is None or sample.size_bytes is None:
        return "?"
    return f"{format_count(sample.offset)}-{format_count(sample.offset + sample.size_bytes)}"


def _repeats_text(line: SourceCounts) -> str:
    """`once: 1,200, twice: 31, 4 times: 2`."""
    names = {1: "once", 2: "twice"}
    repeats = [f"{names.get(n, f'{n} times')}: {format_count(samples)}" for n, samples in line.by_times.items()]
    return ", ".join([*repeats[:REPEATS_SHOWN], *(["..."] if len(repeats) > REPEATS_SHOWN else [])])


def _local_time(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds // 1_000_000, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def _number_text(number: int | None) -> str:
    return "" if number is None else format_count(number)
