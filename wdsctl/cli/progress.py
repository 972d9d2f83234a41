"""Progress on stderr: bars on a terminal, a plain line every 30 s elsewhere, nothing with --quiet.

A thread of its own draws, so that the display moves also while the verb waits for one large shard.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, duration, progress_of_size, relative, safe, size
from wdsctl.cli.output import Output, has_color, is_lively
from wdsctl.cli.wrapping import wrapped
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.urls import shown

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

LINE_EVERY_S = 30.0
LOOK_EVERY_S = 0.5
DRAWN_A_SECOND = 5

#: What a phase counts.
NOUNS = {
    "list": "files",
    "write": "samples",
    "scan": "shards",
    "check": "shards",
    "look": "checks",
    "column": "shards",
    "media": "shards",
    "media files": "files",
}


@contextmanager
def listening(output: Output, *, is_streaming: bool = False) -> Iterator[Progress]:
    """The progress for one call of a verb. However the call ends, the terminal is left as it was.

    `is_streaming`: data comes to stdout meanwhile. On a terminal its lines would run into a bar, and there is none.
    """
    if output.quiet:
        yield SILENT
    elif is_lively(sys.stderr) and not (is_streaming and sys.stdout.isatty()):
        from rich.console import Console

        with Bars(Console(stderr=True, no_color=not has_color(sys.stderr, output.no_color))) as bars:
            yield bars
    else:
        with Lines(output.say) as lines:
            yield lines


@dataclass(slots=True)
class Tally:
    """How far a phase is."""

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
        """By bytes where they are known: shards differ in size."""
        if self.total_bytes:
            return min(1.0, self.size_bytes / self.total_bytes)
        if self.items_total:
            return min(1.0, self.items / self.items_total)
        return None

    def done(self) -> list[str]:
        """`1,204/5,029 shards`, `9.8/40.0 GiB`."""
        noun = NOUNS.get(self.name, "")
        told = []
        if self.items_total:
            told.append(f"{count(self.items)}/{count(self.items_total)} {noun}".rstrip())
        elif self.items:
            told.append(f"{count(self.items)} {noun}".rstrip())
        if self.total_bytes:
            told.append(progress_of_size(self.size_bytes, self.total_bytes))
        elif self.size_bytes:
            told.append(size(self.size_bytes))
        return told

    def speed(self, now_s: float) -> list[str]:
        seconds = now_s - self.started_s
        return [f"{size(int(self.size_bytes / seconds))}/s"] if self.size_bytes and seconds > 1 else []

    def eta(self, now_s: float) -> list[str]:
        seconds = now_s - self.started_s
        if not self.fraction or self.fraction == 1 or seconds < 1:
            return []
        return [f"ETA {duration(seconds / self.fraction - seconds)}"]


@dataclass(slots=True)
class Lines:
    """For logs: `scan: 1,204/5,029 shards, 9.8/40.0 GiB, ETA 3 h 12 min`."""

    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    look_every_s: float = LOOK_EVERY_S
    tally: Tally | None = None
    said_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Lines:
        threading.Thread(target=self._look, name="wdsctl-progress", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stopped.set()
        if kind is None:
            self.finish()

    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        self.finish()
        with self.lock:
            self.said_s = self.clock()
            self.tally = Tally(name, self.said_s, items, size_bytes)

    def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None:
        if self.tally is not None:
            self.tally.add(items, size_bytes, doing)

    def note(self, message: str) -> None:
        self.say(safe(shown(relative(message))))

    def tick(self) -> None:
        """Say how far it is, if the last line is long enough ago."""
        now_s = self.clock()
        with self.lock:
            if self.tally is None or now_s - self.said_s < LINE_EVERY_S:
                return
            self.said_s = now_s
            doing = [f"at {safe(shown(self.tally.doing))}"] if self.tally.doing else []
            self._line(self.tally, [*self.tally.done(), *self.tally.eta(now_s), *doing])

    def finish(self) -> None:
        """The phase is over; worth a line if it took long."""
        with self.lock:
            tally, self.tally = self.tally, None
            if tally is not None and (took_s := self.clock() - tally.started_s) >= LINE_EVERY_S:
                self._line(tally, [*tally.done(), f"done in {duration(took_s)}"])

    def _line(self, tally: Tally, facts: list[str]) -> None:
        self.say(f"{tally.name}: {', '.join(facts)}")

    def _look(self) -> None:
        while not self.stopped.wait(self.look_every_s):
            self.tick()


@dataclass(slots=True)
class Bars:
    """For people: a bar with its figures, and below it what the verb says it is at. Gone when the verb is done."""

    console: Console
    clock: Callable[[], float] = time.monotonic
    tally: Tally | None = None
    live: Live | None = field(default=None, init=False)

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        self.tally = Tally(name, self.clock(), items, size_bytes)
        if self.live is None:
            from rich.live import Live

            self.live = Live(
                console=self.console,
                refresh_per_second=DRAWN_A_SECOND,
                transient=True,
                redirect_stdout=False,  # stdout is data, and stays where it points to
                get_renderable=self.render,
            )
            self.live.start()

    def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None:
        if self.tally is not None:
            self.tally.add(items, size_bytes, doing)

    def note(self, message: str) -> None:
        line = wrapped(safe(shown(relative(message))), self.console.width)
        self.console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)

    def render(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        tally = self.tally
        if tally is None:
            return Text()
        now_s = self.clock()
        row = Table.grid(padding=(0, 1), expand=True)
        row.add_column(no_wrap=True)
        row.add_column(ratio=1)
        row.add_column(no_wrap=True)
        fraction = tally.fraction
        bar = ProgressBar(total=1.0, completed=fraction) if fraction is not None else Text()
        row.add_row(tally.name, bar, ", ".join([*tally.done(), *tally.speed(now_s), *tally.eta(now_s)]))
        doing = Text(f"  {safe(shown(tally.doing))}", style="dim", no_wrap=True, overflow="ellipsis")
        return Group(row, doing) if tally.doing else row
