"""Counts how many of the last samples of each source failed, and how many of the last batches and packs; and the
failures in a row of passes, whose ranges may be made by several workers.

The runner that makes a batch counts its attempts (`FailureTally`), and the counts travel with the batch. The training
process adds them up in the order in which it hands batches out (`FailureRates`), so that neither the log nor the end of
a run depends on the number of workers. Nothing here affects the order.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, NamedTuple, Protocol

from wdsctl.core.errors import LoaderError
from wdsctl.loader.runtime.logs import logger

RATE_WINDOW_SIZE = 1000  # samples of a source, or batches, packs or buffers
LOGGED_FAILURE_RATE = 0.01  # of a window; above it, a warning is logged
STRUCTURAL_FAILURE_RATE = 0.01  # of batches whose samples do not go together; above it, the run ends
_STRUCTURAL_CAUSE = "batch: WDS506: "  # how the cause of such a failure begins
LOG_INTERVAL_SECONDS = 60.0

#: Counters of batches, packs, and packing buffers. Samples are counted by the number of their source.
BATCH_COUNTER, PACK_COUNTER, BUFFER_COUNTER = -1, -2, -3
_COUNTER_NAMES = {BATCH_COUNTER: "batches", PACK_COUNTER: "packs", BUFFER_COUNTER: "packing buffers"}

_MAX_SOURCES_SHOWN = 5  # sources in one message
_MAX_EXAMPLE_CHARS = 400  # characters


class FailureCount(NamedTuple):
    """`counter`: the number of a source, or one of _COUNTER_NAMES. `example`: the error of one of the failures."""

    counter: int
    cause: str
    times: int
    example: str


class FailureStreak(NamedTuple):
    """Failures of a hook in a row in a range: `first` before its first success, and `last` after its last one; both are
    all failures without a success. `tolerance`: how many end the run, 0: any number. The texts are those of the last
    failure."""

    hook: str
    first: int
    last: int
    has_success: bool
    tolerance: int
    message: str
    hint: str
    where: str


class AttemptCounts(NamedTuple):
    """`tried`: (counter, attempts). `streaks`: of a range; lanes have counts of their own."""

    tried: tuple[tuple[int, int], ...] = ()
    failed: tuple[FailureCount, ...] = ()
    streaks: tuple[FailureStreak, ...] = ()


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

    @contextmanager
    def keeping_counts(self) -> Iterator[None]:
        """Forget what is counted meanwhile."""
        tried, failed = dict(self._tried), dict(self._failed)
        try:
            yield
        finally:
            self._tried, self._failed = tried, failed

    def take(self) -> AttemptCounts:
        """Return the counts and reset them."""
        if not self._tried and not self._failed:
            return AttemptCounts()
        failed = tuple(FailureCount(unit, cause, *found) for (unit, cause), found in self._failed.items())
        counts = AttemptCounts(tuple(self._tried.items()), failed)
        self._tried, self._failed = {}, {}
        return counts


class FailureRates:
    """`max_fraction`: the share of a window that may fail; None: any. `in_a_row`: failures in a row by hook, of a pass
    in ranges."""

    in_a_row: dict[str, int]

    def __init__(self, max_fraction: float | None = None, clock: Callable[[], float] = monotonic) -> None:
        self._max_fraction = max_fraction
        self._clock = clock
        self._windows: dict[int, _Window] = {}
        self._logged_at: float | None = None
        self.begin_pass()

    def to_state(self) -> dict[str, Any] | None:
        """The windows by counter and the failures in a row by hook, as JSON; None if none can end the run. A loader
        that continues from them ends at the same batch."""
        windows = self._windows
        if self._max_fraction is None:
            batches = windows.get(BATCH_COUNTER)
            windows = {BATCH_COUNTER: batches} if batches is not None and batches.count_structural() else {}
        counts = {str(counter): window.to_state() for counter, window in windows.items()}
        return {**counts, **self.in_a_row} or None

    def load(self, state: Mapping[str, Any], source_count: int) -> None:
        """Continue from a state. A source that the loader does not have any more is left out."""
        self.in_a_row = {hook: count for hook, count in state.items() if hook.isidentifier()}
        windows = {int(counter): window for counter, window in state.items() if counter not in self.in_a_row}
        self._windows = {
            counter: _Window.from_state(window)
            for counter, window in windows.items()
            if 0 <= counter < source_count or counter in _COUNTER_NAMES
        }

    def begin_pass(self) -> None:
        """Count the failures of the pass from zero."""
        self.pass_failures = 0
        self.first_failure = ""  # of the pass
        self.in_a_row = {}

    def add(self, counts: AttemptCounts, sources: Sequence[NamedSource]) -> None:
        """Add the counts of a batch. Raises LoaderError WDS527 if more than `max_fraction` of a window failed, and
        without such a limit WDS536 if the samples of more than `STRUCTURAL_FAILURE_RATE` of the batches do not go
        together; a window that is not full counts as if everything else in it had succeeded."""
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
        elif BATCH_COUNTER in units:
            _check_structure(windows[BATCH_COUNTER], sources)
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


def _check_structure(window: _Window, sources: Sequence[NamedSource]) -> None:
    if window.count_structural() > STRUCTURAL_FAILURE_RATE * max(RATE_WINDOW_SIZE, window.tried):
        raise LoaderError(
            f"too many batches have samples that do not go together: {window.describe(BATCH_COUNTER, sources)}",
            hint="return the same fields for all samples from a cooker or from encode_sample, or pass "
            "max_failed_fraction to get_loader to continue without such batches",
            code="WDS536",
        )


class _Window:
    """The attempts of one counter from the oldest batch that failed among the last `RATE_WINDOW_SIZE`, or these."""

    def __init__(self) -> None:
        self.failed = 0
        self._total = 0  # attempts ever
        self._last_count = 0  # attempts of the last batch
        self._failures: deque[_Failure] = deque()
        self._examples: dict[str, str] = {}  # by cause: of its first failure that is still in the window

    @property
    def tried(self) -> int:
        begin = self._total - RATE_WINDOW_SIZE
        if self._failures:
            begin = min(begin, self._failures[0].end - self._failures[0].tried)
        return self._total - max(0, begin)

    @property
    def share(self) -> float:
        return min(1.0, self.failed / max(1, self.tried))

    def add(self, count: int) -> None:
        self._total += count
        self._last_count = count
        while self._failures and self._total - self._failures[0].end >= RATE_WINDOW_SIZE:
            gone = self._failures.popleft()
            self.failed -= gone.times
            if all(each.cause != gone.cause for each in self._failures):
                del self._examples[gone.cause]

    def fail(self, failed: FailureCount) -> None:
        self._failures.append(_Failure(self._total, self._last_count, failed.times, failed.cause))
        self._examples.setdefault(failed.cause, failed.example)
        self.failed += failed.times

    def count_structural(self) -> int:
        """The batches whose samples did not go together."""
        return sum(each.times for each in self._failures if each.cause.startswith(_STRUCTURAL_CAUSE))

    def describe(self, counter: int, sources: Sequence[NamedSource]) -> str:
        causes: Counter[str] = Counter()
        for each in self._failures:
            causes[each.cause] += each.times
        cause, count = causes.most_common(1)[0]
        name = _COUNTER_NAMES.get(counter) or f"samples of {sources[counter].dataset_path}"
        often = "all" if count == self.failed else f"{count:,} of them"
        return (
            f"{self.failed:,} of the last {self.tried:,} {name} failed ({self.share:.1%}), {often} by {cause}; "
            f"for example: {self._examples[cause]}"
        )

    def to_state(self) -> Any:
        """[attempts, [[attempts since, attempts of the batch, failures, number of the cause], ...], [[cause, example],
        ...]]; only the attempts if nothing in the window failed: 10 bytes."""
        if not self._failures:
            return min(self._total, RATE_WINDOW_SIZE)
        causes = list(self._examples)
        failures = [
            [self._total - each.end, each.tried, each.times, causes.index(each.cause)] for each in self._failures
        ]
        return [self._total, failures, [[cause, self._examples[cause]] for cause in causes]]

    @classmethod
    def from_state(cls, state: Any) -> _Window:
        window = cls()
        total, failures, causes = (state, [], []) if isinstance(state, int) else state
        window._total = total
        window._examples = dict(causes)
        for ago, tried, times, cause in failures:
            window._failures.append(_Failure(total - ago, tried, times, causes[cause][0]))
            window.failed += times
        return window


class _Failure(NamedTuple):
    """`end`: attempts when its batch had been counted, `tried`: of the batch."""

    end: int
    tried: int
    times: int
    cause: str
