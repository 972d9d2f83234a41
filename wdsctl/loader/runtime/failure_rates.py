"""Counts how many of the last samples of each source failed, and how many of the last batches and packs.

The runner that makes a batch counts its attempts (`FailureTally`), and the counts travel with the batch. The training
process adds them up in the order in which it hands batches out (`FailureRates`), so that neither the log nor the end of
a run depends on the number of workers. Nothing here affects the order.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import NamedTuple, Protocol

from wdsctl.core.errors import LoaderError
from wdsctl.loader.runtime.logs import logger

RATE_WINDOW_SIZE = 1000  # samples of a source, or batches, packs or buffers
LOGGED_FAILURE_RATE = 0.01  # of a window; above it, a warning is logged
LOG_INTERVAL_SECONDS = 60.0

#: Counters of batches, packs, and packing buffers. Samples are counted by the number of their source.
BATCH_COUNTER, PACK_COUNTER, BUFFER_COUNTER = -1, -2, -3
_COUNTER_NAMES = {BATCH_COUNTER: "batches", PACK_COUNTER: "packs", BUFFER_COUNTER: "packing buffers"}

_BUCKET_SIZE = RATE_WINDOW_SIZE // 10
_MAX_SOURCES_SHOWN = 5  # sources in one message
_MAX_EXAMPLE_CHARS = 400  # characters


class FailureCount(NamedTuple):
    """`counter`: the number of a source, or one of _COUNTER_NAMES. `example`: the error of one of the failures."""

    counter: int
    cause: str
    times: int
    example: str


class AttemptCounts(NamedTuple):
    """`tried`: (counter, attempts)."""

    tried: tuple[tuple[int, int], ...] = ()
    failed: tuple[FailureCount, ...] = ()


class NamedSource(Protocol):
    @property
    def number(self) -> int: ...

    @property
    def dataset_path(self) -> str: ...


class FailureTally:
    """Attempts and failures since the last `take`. A sample fails once, however many of its outputs do."""

    def __init__(self) -> None:
        self._tried: dict[int, int] = {}
        self._failed: dict[tuple[int, str], tuple[int, str]] = {}
        self._source = 0  # of the sample under way
        self._counts_failure = True  # whether a failure of this sample is still to be counted

    def begin_attempt(self, counter: int) -> None:
        """Count an attempt at a sample of a source, or at a batch or pack."""
        self._tried[counter] = self._tried.get(counter, 0) + 1
        if counter >= 0:
            self._source, self._counts_failure = counter, True

    def count_successes(self, samples: Iterable[tuple[int, int]]) -> None:
        """Count samples without failures: (source, how many). 0.1 us an entry; a sample takes 5."""
        tried = self._tried
        for source, count in samples:
            tried[source] = tried.get(source, 0) + count

    def begin_rebuild(self, source: int) -> None:
        """Begin a sample that was counted before and is made again."""
        self._source, self._counts_failure = source, False

    def count_failure(self, counter: int | None, cause: str, example: str) -> None:
        """Count a failure. `counter` None: of the current sample."""
        if counter is None:
            if not self._counts_failure:
                return
            counter, self._counts_failure = self._source, False
        count, first = self._failed.get((counter, cause), (0, example[:_MAX_EXAMPLE_CHARS]))
        self._failed[counter, cause] = count + 1, first

    def take(self) -> AttemptCounts:
        """Return the counts and reset them."""
        if not self._tried and not self._failed:
            return AttemptCounts()
        failed = tuple(FailureCount(unit, cause, *found) for (unit, cause), found in self._failed.items())
        counts = AttemptCounts(tuple(self._tried.items()), failed)
        self._tried, self._failed = {}, {}
        return counts


class FailureRates:
    """`max_fraction`: the share of a window that may fail; None: any."""

    def __init__(self, max_fraction: float | None = None, clock: Callable[[], float] = monotonic) -> None:
        self._max_fraction = max_fraction
        self._clock = clock
        self._windows: dict[int, _Window] = {}
        self._logged_at: float | None = None
        self.begin_pass()

    def begin_pass(self) -> None:
        """Count the failures of the pass from zero."""
        self.pass_failures = 0
        self.first_failure = ""  # of the pass

    def add(self, counts: AttemptCounts, sources: Sequence[NamedSource]) -> None:
        """Add the counts of a batch. Raises LoaderError WDS527 if more than `max_fraction` of a window failed; a window
        that is not full counts as if everything else in it had succeeded."""
        windows = self._windows
        for unit, count in counts.tried:
            window = windows.get(unit)
            if window is None:
                window = windows[unit] = _Window()
            window.add(count)
        if not counts.failed:
            return
        self.first_failure = self.first_failure or counts.failed[0].example
        for each in counts.failed:
            self.pass_failures += each.times
            windows.setdefault(each.counter, _Window()).fail(each)
        units = {each.counter for each in counts.failed}
        if self._max_fraction is not None:
            self._check(units, self._max_fraction, sources, RATE_WINDOW_SIZE)
        if any(
            windows[unit].failed > LOGGED_FAILURE_RATE * max(RATE_WINDOW_SIZE, windows[unit].tried) for unit in units
        ):
            self._log_worst(sources)

    def end_pass(self, sources: Sequence[NamedSource]) -> None:
        """End a finite pass. Raises as `add` does, also for windows that are not full."""
        if self._max_fraction is not None:
            self._check(self._windows, self._max_fraction, sources, 1)

    def _check(
        self, counters: Iterable[int], max_fraction: float, sources: Sequence[NamedSource], min_tried: int
    ) -> None:
        for unit in sorted(counters):
            window = self._windows[unit]
            if window.failed > max_fraction * max(min_tried, window.tried):
                raise LoaderError(
                    f"{window.describe(unit, sources)}; max_failed_fraction is {max_fraction:g}",
                    where=sources[unit].dataset_path if unit >= 0 else "",
                    hint="fix the cause or raise max_failed_fraction, and resume from the last saved state",
                    code="WDS527",
                )

    def _log_worst(self, sources: Sequence[NamedSource]) -> None:
        now = self._clock()
        if self._logged_at is not None and now - self._logged_at < LOG_INTERVAL_SECONDS:
            return
        self._logged_at = now
        above = {
            unit: window for unit, window in self._windows.items() if window.failed > LOGGED_FAILURE_RATE * window.tried
        }
        worst = sorted(above, key=lambda unit: (-above[unit].share, unit))
        lines = [above[unit].describe(unit, sources) for unit in worst[:_MAX_SOURCES_SHOWN]]
        if len(worst) > _MAX_SOURCES_SHOWN:
            lines.append(f"and more than {LOGGED_FAILURE_RATE:.0%} of {len(worst) - _MAX_SOURCES_SHOWN} other sources")
        logger.warning("%s", "\n  ".join(lines))


class _Window:
    """The last `RATE_WINDOW_SIZE` attempts of one counter and up to a bucket more, in buckets of at least
    `_BUCKET_SIZE`."""

    def __init__(self) -> None:
        self.tried = self.failed = 0
        self._bucket_tried = 0  # tried in the last bucket
        self._buckets: deque[tuple[int, list[FailureCount]]] = deque()
        self._bucket_failures: list[FailureCount] = []  # of the last bucket

    @property
    def share(self) -> float:
        return min(1.0, self.failed / max(1, self.tried))

    def add(self, count: int) -> None:
        if self._bucket_tried >= _BUCKET_SIZE:
            self._begin_bucket(count)
        self.tried += count
        self._bucket_tried += count

    def _begin_bucket(self, count: int) -> None:
        """Begin a bucket for `count` attempts that are not added yet."""
        self._buckets.append((self._bucket_tried, self._bucket_failures))
        self._bucket_tried, self._bucket_failures = 0, []
        while self._buckets and self.tried + count - self._buckets[0][0] >= RATE_WINDOW_SIZE:
            tried, failed = self._buckets.popleft()
            self.tried -= tried
            self.failed -= sum(each.times for each in failed)

    def fail(self, failed: FailureCount) -> None:
        self._bucket_failures.append(failed)
        self.failed += failed.times

    def describe(self, counter: int, sources: Sequence[NamedSource]) -> str:
        found = [each for _, bucket in (*self._buckets, (0, self._bucket_failures)) for each in bucket]
        causes: Counter[str] = Counter()
        for each in found:
            causes[each.cause] += each.times
        cause, count = causes.most_common(1)[0]
        example = next(each.example for each in found if each.cause == cause)
        name = _COUNTER_NAMES.get(counter) or f"samples of {sources[counter].dataset_path}"
        often = "all" if count == self.failed else f"{count:,} of them"
        return (
            f"{self.failed:,} of the last {self.tried:,} {name} failed ({self.share:.1%}), {often} by {cause}; "
            f"for example: {example}"
        )
