from __future__ import annotations

from dataclasses import replace

from tests.cli.conftest import Show
from tests.cli.reports import TRUNCATED
from wdsctl.cli.commands.trace import render_trace
from wdsctl.core.trace.samples import TracedBatchSamples, TracedSample
from wdsctl.core.trace.trace import FrequentSample, RunSummary, SeenSample, SourceCounts, SourceSummary, TraceReport

STARTED = 1_767_225_600_000_000  # 2026-01-01
RUN = RunSummary(rank=3, world=8, started=STARTED, wdsctl="0.1.0", batches=1200, first=3, last=9595)
SOURCE = SourceSummary(number=0, dataset="/data/cats", split="train", generation=2, digest="ab")
REPORT = TraceReport(folder="traces", runs=(RUN,), sources=(SOURCE,))
KEY = (0, 1, 268_435_459)
FOUND = TracedSample(
    dataset="/data/cats", restore_key=KEY, key="a/0042", shard="deep/000.tar", offset=512, size_bytes=18_432
)
BATCH = TracedBatchSamples(step=1200, number=9603, rank=3, world=8, pass_number=0, started=STARTED, samples=(FOUND,))
SEEN = SeenSample(
    step=1200,
    batch=9603,
    rank=3,
    pass_number=0,
    position=7,
    dataset="/data/cats",
    restore_key=KEY,
    started=STARTED,
)
COUNT = SourceCounts(
    dataset="/data/cats",
    samples=1204,
    distinct=1001,
    by_times={1: 800, 2: 200, 4: 1},
    most=(FrequentSample(sample_id=268_435_459, key="a/0042", times=4),),
)


def test_trace_batch_is_printed_as_line_and_table(render_piped: Show) -> None:
    assert render_piped(render_trace(replace(REPORT, batches=(BATCH,)))) == [
        "step 1,200, rank 3 of 8: batch 9,603, 1 sample",
        "key     dataset     shard         bytes       pass  restore key",
        "a/0042  /data/cats  deep/000.tar  512-18,944     1  0,1,268435459",
    ]


def test_trace_prints_question_mark_for_unknown_values(render_piped: Show) -> None:
    missing = TracedSample(dataset="/data/cats", restore_key=KEY)
    unidentified = TracedSample(dataset="(no restore key)", restore_key=())
    lines = render_piped(
        render_trace(replace(REPORT, batches=(replace(BATCH, samples=(missing, unidentified), pass_number=2),)))
    )
    assert lines[0].startswith("step 1,200 of pass 2, rank 3")
    assert lines[2].split() == ["?", "/data/cats", "?", "?", "1", "0,1,268435459"]
    assert lines[3].split() == ["?", "(no", "restore", "key)", "?", "?", "?"]


def test_trace_limits_number_of_listed_reads(render_piped: Show) -> None:
    lines = render_piped(render_trace(replace(REPORT, seen=(SEEN,) * 23)))
    assert lines[0] == "read 23 times"
    assert lines[2].split() == ["1,200", "3", "9,603", "7", "1", "/data/cats", "0,1,268435459"]
    assert len(lines) == 2 + 20 + 1
    assert lines[-1] == "... and 3 more (--json lists them all)"


def test_trace_counts_print_distribution_of_repeats(render_piped: Show) -> None:
    lines = render_piped(render_trace(replace(REPORT, counts=(COUNT,), batches_counted=38)))
    assert lines[0] == "38 batches, 1,204 samples"
    assert lines[2].split(maxsplit=3) == ["/data/cats", "1,204", "1,001", "once: 800, twice: 200, 4 times: 1"]
    assert lines[-1].split() == ["a/0042", "268435459", "4"]


def test_trace_overview_lists_runs_and_sources(render_piped: Show) -> None:
    assert render_piped(render_trace(REPORT)) == [
        "traces: 1 file, one per rank and run",
        "started               rank  of  batches  first   last",
        "2026-01-01 00:00:00Z     3  8     1,200      3  9,595",
        "",
        "source  dataset     split  generation",
        "     0  /data/cats  train           2",
    ]


def test_trace_prints_files_and_findings_last(render_piped: Show) -> None:
    report = replace(REPORT, batches=(BATCH,), out="batch", written=("a", "b"), findings=(TRUNCATED,))
    lines = render_piped(render_trace(report))
    assert lines[3:5] == ["2 files in batch", ""]
    assert lines[5].startswith("error[WDS102]")


def test_trace_escapes_control_characters_in_keys(render_piped: Show) -> None:
    lines = render_piped(
        render_trace(replace(REPORT, batches=(replace(BATCH, samples=(replace(FOUND, key="\x1b[2J"),)),)))
    )
    assert lines[2].startswith("\\x1b[2J")


def test_trace_output_fits_80_columns(render_on_terminal: Show) -> None:
    for report in (REPORT, replace(REPORT, batches=(BATCH,)), replace(REPORT, seen=(SEEN,))):
        assert max(map(len, render_on_terminal(render_trace(report)))) <= 80


def test_trace_table_keeps_figures_unwrapped(render_on_terminal: Show) -> None:
    shown = "\n".join(render_on_terminal(render_trace(replace(REPORT, batches=(BATCH,)))))

    assert "0,1,268435459" in shown
    assert "512-18,944" in shown
