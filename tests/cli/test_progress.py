from __future__ import annotations

import io
import threading
from dataclasses import dataclass, field

import pytest
from rich.console import Console

from tests.cli.conftest import Stream
from wdsctl.cli.output import Output
from wdsctl.cli.progress import BarProgress, LineProgress, show_progress

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
    said: list[str] = field(default_factory=list)

    def lines(self) -> LineProgress:
        return LineProgress(self.said.append, self.clock)


def bars(clock: Clock, width: int = 80) -> tuple[BarProgress, io.StringIO]:
    screen = io.StringIO()
    return BarProgress(Console(file=screen, force_terminal=True, width=width, legacy_windows=False), clock), screen


def verb_that_fails(error: type[BaseException]) -> None:
    with show_progress(Output()) as progress:
        progress.phase("scan", items=2)
        raise error


def test_a_log_gets_a_line_every_thirty_seconds() -> None:
    log = Log()
    lines = log.lines()
    lines.phase("scan", items=5029, size_bytes=40 * GIB)

    for _ in range(125):
        log.clock.now_s += 1
        lines.advance(items=1)
        lines.print_if_due()

    assert len(log.said) == 4


def test_a_line_tells_how_far_and_how_long() -> None:
    log = Log()
    lines = log.lines()
    lines.phase("scan", items=5029, size_bytes=40 * GIB)

    log.clock.now_s += 3600
    lines.advance(items=1204, size_bytes=10 * GIB, doing="train-000017.tar")
    lines.print_if_due()

    assert log.said == ["scan: 1,204/5,029 shards, 10.0/40.0 GiB, ETA 3 h, at train-000017.tar"]


def test_a_phase_without_totals_says_what_it_has() -> None:
    log = Log()
    lines = log.lines()
    lines.phase("list")

    log.clock.now_s += 31
    lines.advance(items=70_000)
    lines.print_if_due()

    assert log.said == ["list: 70,000 files"]


def test_a_phase_of_an_unknown_name_counts_without_a_noun() -> None:
    log = Log()
    lines = log.lines()
    lines.phase("dream", items=3)

    log.clock.now_s += 30
    lines.advance(items=1)
    lines.print_if_due()

    assert log.said == ["dream: 1/3, ETA 1 min"]


def test_the_end_of_a_phase_is_told_only_if_it_took_long() -> None:
    log = Log()
    lines = log.lines()

    lines.phase("scan", items=2)
    log.clock.now_s += 29
    lines.phase("merge", items=2)
    log.clock.now_s += 61
    lines.finish()

    assert log.said == ["merge: 0/2, done in 1 min 1 s"]


def test_nothing_is_said_before_the_first_phase() -> None:
    log = Log()
    lines = log.lines()
    log.clock.now_s += 100

    lines.advance(items=1)
    lines.print_if_due()
    lines.finish()

    assert log.said == []


def test_a_note_is_told_at_once() -> None:
    log = Log()
    log.lines().note("the catalog goes\nelsewhere")
    assert log.said == ["the catalog goes\\nelsewhere"]


def test_lines_come_also_while_the_verb_waits() -> None:
    log = Log()
    said = threading.Event()

    def say(line: str) -> None:
        log.said.append(line)
        said.set()

    with LineProgress(say, log.clock, check_every_s=0.001) as lines:
        lines.phase("scan", items=2)
        log.clock.now_s += 30
        assert said.wait(timeout=60)

    assert log.said[0] == "scan: 0/2 shards"


def test_a_phase_that_fails_is_not_called_done() -> None:
    log = Log()

    def verb() -> None:
        with log.lines() as lines:
            lines.phase("scan", items=2)
            log.clock.now_s += 100
            raise RuntimeError

    with pytest.raises(RuntimeError):
        verb()

    assert not [line for line in log.said if "done" in line]


def test_a_bar_shows_phase_figures_and_the_slowest() -> None:
    clock = Clock()
    drawn, screen = bars(clock)
    with drawn:
        drawn.phase("scan", items=5029, size_bytes=40 * GIB)
        clock.now_s += 10
        drawn.advance(items=1204, size_bytes=10 * GIB, doing="train-000017.tar")

    text = screen.getvalue()
    for fact in ("scan", "1,204/5,029 shards, 10.0/40.0 GiB, 1.0 GiB/s, ETA 30 s", "train-000017.tar"):
        assert fact in text


def test_a_long_name_does_not_break_the_display() -> None:
    drawn, screen = bars(Clock())
    with drawn:
        drawn.phase("scan", items=10)
        drawn.advance(doing="x" * 300)

    assert "x" * 81 not in screen.getvalue()
    assert "…" in screen.getvalue()


def test_a_note_stands_above_the_bar() -> None:
    drawn, screen = bars(Clock())
    with drawn:
        drawn.phase("scan", items=10)
        drawn.note("the catalog goes elsewhere [bold]")

    assert "the catalog goes elsewhere [bold]\n" in screen.getvalue()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_the_cursor_comes_back_however_the_verb_ends(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    screen = Stream(is_terminal=True)
    monkeypatch.setattr("sys.stderr", screen)

    with pytest.raises(error):
        verb_that_fails(error)

    text = screen.getvalue()
    assert text.count(HIDE_CURSOR) == text.count(SHOW_CURSOR) == 1
    assert text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)


def test_quiet_shows_neither_progress_nor_notes(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(Output(quiet=True)) as progress:
        progress.phase("scan", items=2)
        progress.note("the catalog goes elsewhere")

    assert capsys.readouterr() == ("", "")


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stderr", Stream(is_terminal=True))

    with show_progress(Output()) as progress:
        assert isinstance(progress, LineProgress)


@pytest.mark.parametrize(("is_terminal", "kind"), [(True, LineProgress), (False, BarProgress)])
def test_no_bar_runs_into_lines_of_data_on_the_same_terminal(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, kind: type
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", Stream(is_terminal=True))
    monkeypatch.setattr("sys.stdout", Stream(is_terminal=is_terminal))

    with show_progress(Output(), is_streaming=True) as progress:
        assert isinstance(progress, kind)


def test_without_colour_the_bar_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Stream(is_terminal=True)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("NO_COLOR", "1")

    with show_progress(Output()) as progress:
        progress.phase("scan", items=2)
        progress.advance(items=1)

    assert "[3" not in screen.getvalue()
    assert "38;5" not in screen.getvalue()
