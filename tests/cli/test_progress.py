from __future__ import annotations

import io
import threading
from dataclasses import dataclass, field

import pytest
from rich.console import Console

from tests.cli.conftest import Stream
from wdsctl.cli.output import Output
from wdsctl.cli.progress import BarProgress, LineProgress, show_progress
from wdsctl.core.waits import end_wait, note_wait

GIB = 1 << 30
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@dataclass
class Clock:
    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Log:
    clock: Clock = field(default_factory=Clock)
    printed: list[str] = field(default_factory=list)

    def lines(self) -> LineProgress:
        return LineProgress(self.printed.append, self.clock)


def make_bars(clock: Clock, width: int = 80) -> tuple[BarProgress, io.StringIO]:
    screen = io.StringIO()
    return BarProgress(Console(file=screen, force_terminal=True, width=width, legacy_windows=False), clock), screen


def fail_in_progress(error: type[BaseException]) -> None:
    with show_progress(Output()) as progress:
        progress.phase("scan", items=2)
        raise error


def test_line_progress_prints_every_30_seconds() -> None:
    log = Log()
    lines = log.lines()
    lines.phase("scan", items=5029, size_bytes=40 * GIB)

    for _ in range(125):
        log.clock.now_s += 1
        lines.advance(items=1)
        lines.print_if_due()

    assert len(log.printed) == 4


def test_line_progress_prints_amounts_and_eta() -> None:
    log = Log()
    lines = log.lines()
    lines.phase("scan", items=5029, size_bytes=40 * GIB)

    log.clock.now_s += 3600
    lines.advance(items=1204, size_bytes=10 * GIB, doing="train-000017.tar")
    lines.print_if_due()

    assert log.printed == ["scan: 1,204/5,029 shards, 10.0/40.0 GiB, ETA 3 h, at train-000017.tar"]


def test_line_progress_without_totals_prints_counts() -> None:
    log = Log()
    lines = log.lines()
    lines.phase("list")

    log.clock.now_s += 31
    lines.advance(items=70_000)
    lines.print_if_due()

    assert log.printed == ["list: 70,000 files"]


def test_line_progress_of_unknown_phase_prints_no_noun() -> None:
    log = Log()
    lines = log.lines()
    lines.phase("dream", items=3)

    log.clock.now_s += 30
    lines.advance(items=1)
    lines.print_if_due()

    assert log.printed == ["dream: 1/3, ETA 1 min"]


def test_line_progress_prints_end_of_long_phases_only() -> None:
    log = Log()
    lines = log.lines()

    lines.phase("scan", items=2)
    log.clock.now_s += 29
    lines.phase("merge", items=2)
    log.clock.now_s += 61
    lines.finish()

    assert log.printed == ["merge: 0/2, done in 1 min 1 s"]


def test_line_progress_prints_nothing_before_first_phase() -> None:
    log = Log()
    lines = log.lines()
    log.clock.now_s += 100

    lines.advance(items=1)
    lines.print_if_due()
    lines.finish()

    assert log.printed == []


def test_line_progress_prints_notes_at_once() -> None:
    log = Log()
    log.lines().note("the catalog goes\nelsewhere")
    assert log.printed == ["the catalog goes\\nelsewhere"]


def test_line_progress_prints_while_command_waits() -> None:
    log = Log()
    printed = threading.Event()

    def print_line(line: str) -> None:
        log.printed.append(line)
        printed.set()

    with LineProgress(print_line, log.clock, check_every_s=0.001) as lines:
        lines.phase("scan", items=2)
        log.clock.now_s += 30
        assert printed.wait(timeout=60)

    assert log.printed[0] == "scan: 0/2 shards"


def test_line_progress_of_failed_phase_prints_no_end() -> None:
    log = Log()

    def fail() -> None:
        with log.lines() as lines:
            lines.phase("scan", items=2)
            log.clock.now_s += 100
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert not [line for line in log.printed if "done" in line]


def test_bar_progress_shows_phase_figures_and_current_item() -> None:
    clock = Clock()
    progress_bar, screen = make_bars(clock)
    with progress_bar:
        progress_bar.phase("scan", items=5029, size_bytes=40 * GIB)
        clock.now_s += 10
        progress_bar.advance(items=1204, size_bytes=10 * GIB, doing="train-000017.tar")

    text = screen.getvalue()
    for fact in ("scan", "1,204/5,029 shards, 10.0/40.0 GiB, 1.0 GiB/s, ETA 30 s", "train-000017.tar"):
        assert fact in text


def test_progress_shows_store_that_command_waits_for() -> None:
    log = Log()
    lines, (bars, screen) = log.lines(), make_bars(log.clock)
    lines.phase("scan", items=2)
    lines.advance(items=1, doing="a.tar")
    log.clock.now_s += 31
    note_wait("s3://bucket", "waiting for s3://bucket (retry 3)", 60.0)
    try:
        lines.print_if_due()
        with bars:
            bars.phase("scan", items=2)
            bars.advance(items=1, doing="a.tar")
    finally:
        end_wait("s3://bucket")

    assert log.printed == ["scan: 1/2 shards, ETA 31 s, waiting for s3://bucket (retry 3)"]
    assert "waiting for s3://bucket (retry 3)" in screen.getvalue()


def test_bar_progress_shortens_long_names() -> None:
    progress_bar, screen = make_bars(Clock())
    with progress_bar:
        progress_bar.phase("scan", items=10)
        progress_bar.advance(doing="x" * 300)

    assert "x" * 81 not in screen.getvalue()
    assert "…" in screen.getvalue()


def test_bar_progress_prints_notes_on_own_line() -> None:
    progress_bar, screen = make_bars(Clock())
    with progress_bar:
        progress_bar.phase("scan", items=10)
        progress_bar.note("the catalog goes elsewhere [bold]")

    assert "the catalog goes elsewhere [bold]\n" in screen.getvalue()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_bar_progress_restores_cursor_after_failure(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    screen = Stream(is_terminal=True)
    monkeypatch.setattr("sys.stderr", screen)

    with pytest.raises(error):
        fail_in_progress(error)

    text = screen.getvalue()
    assert text.count(HIDE_CURSOR) == text.count(SHOW_CURSOR) == 1
    assert text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)


def test_quiet_shows_neither_progress_nor_notes(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(Output(quiet=True)) as progress:
        progress.phase("scan", items=2)
        progress.note("the catalog goes elsewhere")

    assert capsys.readouterr() == ("", "")


def test_show_progress_prints_lines_on_dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stderr", Stream(is_terminal=True))

    with show_progress(Output()) as progress:
        assert isinstance(progress, LineProgress)


@pytest.mark.parametrize(("is_terminal", "kind"), [(True, LineProgress), (False, BarProgress)])
def test_show_progress_prints_lines_if_data_streams_to_terminal(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, kind: type
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", Stream(is_terminal=True))
    monkeypatch.setattr("sys.stdout", Stream(is_terminal=is_terminal))

    with show_progress(Output(), is_streaming=True) as progress:
        assert isinstance(progress, kind)


def test_bar_progress_has_no_colour_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Stream(is_terminal=True)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("NO_COLOR", "1")

    with show_progress(Output()) as progress:
        progress.phase("scan", items=2)
        progress.advance(items=1)

    assert "[3" not in screen.getvalue()
    assert "38;5" not in screen.getvalue()
