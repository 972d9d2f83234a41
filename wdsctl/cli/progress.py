"""Show progress on stderr: a bar on a terminal, a line every 30 s elsewhere, nothing with --quiet.

A separate thread draws, so that the display moves while a command waits for one large shard.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wdsctl.cli.formatting import (
    escape_line,
    format_count,
    format_duration,
    format_size,
    format_size_progress,
    relative_paths,
)
from wdsctl.cli.output import Output, has_color, is_interactive, wrap_lines
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.urls import redact_secrets
from wdsctl.core.waits import current_wait

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live


LINE_EVERY_S = 30.0
CHECK_EVERY_S = 0.5
REFRESHES_PER_SECOND = 5

#: Phase -> the noun for its items.
PHASE_NOUNS = {
    "list": "files",
    "sources": "samples",
    "write": "samples",
    "scan": "shards",
    "check": "shards",
    "look": "checks",
    "column": "shards",
    "media": "shards",
    "media files": "files",
}


@contextmanager
def show_progress(output: Output, *, is_streaming: bool = False) -> Iterator[Progress]:
    """Yield the progress of one command, and restore the terminal however the command ends.

    `is_streaming`: the command also writes data to stdout. If that is a terminal, no bar is shown.
    """
    if output.quiet:
        yield SILENT_PROGRESS
    elif is_interactive(sys.stderr) and not (is_streaming and sys.stdout.isatty()):
        from rich.console import Console

        with BarProgress(Console(stderr=True, no_color=not has_color(sys.stderr, output.no_color))) as bars:
            yield bars
    else:
        with LineProgress(output.note) as lines:
            yield lines


@dataclass(slots=True)
class PhaseProgress:
    """The progress of one phase."""

    name: str
    started_s: float
    items_total: int | None = None
    total_bytes: int | None = None
    items: int = 0
    size_bytes: int = 0
    doing: str = ""

    def add(self, items: int, size_bytes: int, doing: str) -> None:
        self.items += items
        self.size_bytes += size_bytes
        self.doing = doing or self.doing

    @property
    def fraction(self) -> float | None:
        """The completed fraction: by bytes if their total is known, since shards differ in size."""
        if self.total_bytes:
            return min(1.0, self.size_bytes / self.total_bytes)
        if self.items_total:
            return min(1.0, self.items / self.items_total)
        return None

    def done(self) -> list[str]:
        """`1,204/5,029 shards`, `9.8/40.0 GiB`."""
        noun = PHASE_NOUNS.get(self.name, "")
        texts = []
        if self.items_total:
            texts.append(f"{format_count(self.items)}/{format_count(self.items_total)} {noun}".rstrip())
        elif self.items:
            texts.append(f"{format_count(self.items)} {noun}".rstrip())
        if self.total_bytes:
            texts.append(format_size_progress(self.size_bytes, self.total_bytes))
        elif self.size_bytes:
            texts.append(format_size(self.size_bytes))
        return texts

    def speed(self, now_s: float) -> list[str]:
        seconds = now_s - self.started_s
        return [f"{format_size(int(self.size_bytes / seconds))}/s"] if self.size_bytes and seconds > 1 else []

    def eta(self, now_s: float) -> list[str]:
        seconds = now_s - self.started_s
        if not self.fraction or self.fraction == 1 or seconds < 1:
            return []
        return [f"ETA {format_duration(seconds / self.fraction - seconds)}"]


@dataclass(slots=True)
class LineProgress:
    """Lines for logs: `scan: 1,204/5,029 shards, 9.8/40.0 GiB, ETA 3 h 12 min`."""

    write_line: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    check_every_s: float = CHECK_EVERY_S
    current: PhaseProgress | None = None
    last_line_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> LineProgress:
        threading.Thread(target=self._tick_until_stopped, name="wdsctl-progress", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stopped.set()
        if kind is None:
            self.finish()

    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        self.finish()
        with self.lock:
            self.last_line_s = self.clock()
            self.current = PhaseProgress(name, self.last_line_s, items, size_bytes)

    def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None:
        if self.current is not None:
            self.current.add(items, size_bytes, doing)

    def note(self, message: str) -> None:
        self.write_line(escape_line(redact_secrets(relative_paths(message))))

    def print_if_due(self) -> None:
        """Write a line if the last one is `LINE_EVERY_S` old."""
        now_s = self.clock()
        with self.lock:
            if self.current is None or now_s - self.last_line_s < LINE_EVERY_S:
                return
            self.last_line_s = now_s
            doing = [f"at {escape_line(redact_secrets(self.current.doing))}"] if self.current.doing else []
            doing = [escape_line(wait)] if (wait := current_wait()) else doing
            self._write_phase(self.current, [*self.current.done(), *self.current.eta(now_s), *doing])

    def finish(self) -> None:
        """End the phase, with a line if it took long."""
        with self.lock:
            phase, self.current = self.current, None
            if phase is not None and (took_s := self.clock() - phase.started_s) >= LINE_EVERY_S:
                self._write_phase(phase, [*phase.done(), f"done in {format_duration(took_s)}"])

    def _write_phase(self, phase: PhaseProgress, facts: list[str]) -> None:
        self.write_line(f"{phase.name}: {', '.join(facts)}")

    def _tick_until_stopped(self) -> None:
        while not self.stopped.wait(self.check_every_s):
            self.print_if_due()


@dataclass(slots=True)
class BarProgress:
    """A bar with its numbers, and the current item below. Removed when the command ends."""

    console: Console
    clock: Callable[[], float] = time.monotonic
    current: PhaseProgress | None = None
    live: Live | None = field(default=None, init=False)

    def __enter__(self) -> BarProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        self.current = PhaseProgress(name, self.clock(), items, size_bytes)
        if self.live is None:
            from rich.live import Live

            self.live = Live(
                console=self.console,
                refresh_per_second=REFRESHES_PER_SECOND,
                transient=True,
                redirect_stdout=False,  # stdout carries data
                get_renderable=self.render,
            )
            self.live.start()

    def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None:
        if self.current is not None:
            self.current.add(items, size_bytes, doing)

    def note(self, message: str) -> None:
        line = wrap_lines(escape_line(redact_secrets(relative_paths(message))), self.console.width)
        self.console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)

    def render(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        phase = self.current
        if phase is None:
            return Text()
        now_s = self.clock()
        row = Table.grid(padding=(0, 1), expand=True)
        row.add_column(no_wrap=True)
        row.add_column(ratio=1)
        row.add_column(no_wrap=True)
        fraction = phase.fraction
        bar = ProgressBar(total=1.0, completed=fraction) if fraction is not None else Text()
        row.add_row(phase.name, bar, ", ".join([*phase.done(), *phase.speed(now_s), *phase.eta(now_s)]))
        below = current_wait() or redact_secrets(phase.doing)
        doing = Text(f"  {escape_line(below)}", style="dim", no_wrap=True, overflow="ellipsis")
        return Group(row, doing) if below else row
