"""How many of the last samples of each source failed, and of the last batches and packs.

What makes batches counts as it goes (`Tally`), and its counts travel with each batch. The training process adds them up
in the order in which it hands batches out (`FailureRates`), so that neither what is logged nor whether a run ends
depends on the number of workers. Nothing here has an influence on the order.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import NamedTuple, Protocol

from wdsctl.core.errors import LoaderError
from wdsctl.loader.logs import log

WINDOW = 1000  # samples of a source, or batches, or packs
LOGGED = 0.01  # of a window; above, the log says so
EVERY_SECONDS = 60.0

#: What is counted beside samples, which are counted by the number of their source.
BATCHES, PACKS = -1, -2

_BUCKET = WINDOW // 10
_SHOWN = 5  # sources in one message
_EXAMPLE = 400  # characters


class Failed(NamedTuple):
    """`unit`: the number of a source, BATCHES or PACKS. `example`: the error of one of them."""

    unit: int
    cause: str
    times: int
    example: str


class Counts(NamedTuple):
    """`tried`: of each unit how many."""

    tried: tuple[tuple[int, int], ...] = ()
    failed: tuple[Failed, ...] = ()


class Named(Protocol):
    @property
    def number(self) -> int: ...

    @property
    def dataset_path(self) -> str: ...


class Tally:
    """What was tried and what failed since the last `take`. A sample fails once, however many outputs of it do."""

    def __init__(self) -> None:
        self._tried: dict[int, int] = {}
        self._failed: dict[tuple[int, str], tuple[int, str]] = {}
        self._source = 0  # of the sample under way
        self._counts = True  # whether a failure of this sample is still to be counted

    def begin(self, unit: int) -> None:
        """A sample of a source, or a batch or pack, is tried."""
        self._tried[unit] = self._tried.get(unit, 0) + 1
        if unit >= 0:
            self._source, self._counts = unit, True

    def begin_all(self, samples: Iterable[tuple[int, int]]) -> None:
        """Samples that went well: sources, and how many of each. 0.1 us an entry, where a sample takes 5."""
        tried = self._tried
        for source, count in samples:
            tried[source] = tried.get(source, 0) + count

    def begin_again(self, source: int) -> None:
        """A sample that was counted before is made once more."""
        self._source, self._counts = source, False

    def fail(self, unit: int | None, cause: str, example: str) -> None:
        """None: the sample under way."""
        if unit is None:
            if not self._counts:
                return
            unit, self._counts = self._source, False
        count, first = self._failed.get((unit, cause), (0, example[:_EXAMPLE]))
        self._failed[unit, cause] = count + 1, first

    def take(self) -> Counts:
        """What was counted; counts from zero again."""
        if not self._tried and not self._failed:
            return Counts()
        failed = tuple(Failed(unit, cause, *found) for (unit, cause), found in self._failed.items())
        counts = Counts(tuple(self._tried.items()), failed)
        self._tried, self._failed = {}, {}
        return counts


class FailureRates:
    """`most`: the share of a window that may fail; None: any."""

    def __init__(self, most: float | None = None, clock: Callable[[], float] = monotonic) -> None:
        self._most = most
        self._clock = clock
        self._windows: dict[int, _Window] = {}
        self._logged_at: float | None = None

    def note(self, counts: Counts, sources: Sequence[Named]) -> None:
        """Add what came with a batch. Raises LoaderError WDS527 where more than `most` of a window failed; a window
        that is not full counts as if all else in it had gone well."""
        windows = self._windows
        for unit, count in counts.tried:
            window = windows.get(unit)
            if window is None:
                window = windows[unit] = _Window()
            window.add(count)
        if not counts.failed:
            return
        for each in counts.failed:
            windows.setdefault(each.unit, _Window()).fail(each)
        units = {each.unit for each in counts.failed}
        if self._most is not None:
            self._check(units, self._most, sources, WINDOW)
        if any(windows[unit].failed > LOGGED * max(WINDOW, windows[unit].tried) for unit in units):
            self._log(sources)

    def end_pass(self, sources: Sequence[Named]) -> None:
        """A finite pass is over. Raises what `note` does, of windows that are not full too."""
        if self._most is not None:
            self._check(self._windows, self._most, sources, 1)

    def _check(self, units: Iterable[int], most: float, sources: Sequence[Named], least: int) -> None:
        for unit in sorted(units):
            window = self._windows[unit]
            if window.failed > most * max(least, window.tried):
                raise LoaderError(
                    f"{window.words(unit, sources)}; max_failed_fraction is {most:g}",
                    where=sources[unit].dataset_path if unit >= 0 else "",
                    hint="mend what fails, or give a larger max_failed_fraction, and resume from the last saved state",
                    code="WDS527",
                )

    def _log(self, sources: Sequence[Named]) -> None:
        now = self._clock()
        if self._logged_at is not None and now - self._logged_at < EVERY_SECONDS:
            return
        self._logged_at = now
        above = {unit: window for unit, window in self._windows.items() if window.failed > LOGGED * window.tried}
        worst = sorted(above, key=lambda unit: (-above[unit].share, unit))
        lines = [above[unit].words(unit, sources) for unit in worst[:_SHOWN]]
        if len(worst) > _SHOWN:
            lines.append(f"and more than {LOGGED:.0%} of {len(worst) - _SHOWN} other sources")
        log.warning("%s", "\n  ".join(lines))


class _Window:
    """The last `WINDOW` of one unit and up to a bucket more, in buckets of `_BUCKET` or more."""

    def __init__(self) -> None:
        self.tried = self.failed = 0
        self._open = 0  # tried in the last bucket
        self._buckets: deque[tuple[int, list[Failed]]] = deque()
        self._fresh: list[Failed] = []  # of the last bucket

    @property
    def share(self) -> float:
        return min(1.0, self.failed / max(1, self.tried))

    def add(self, count: int) -> None:
        if self._open >= _BUCKET:
            self._begin_bucket(count)
        self.tried += count
        self._open += count

    def _begin_bucket(self, count: int) -> None:
        """For so many that are not added yet."""
        self._buckets.append((self._open, self._fresh))
        self._open, self._fresh = 0, []
        while self._buckets and self.tried + count - self._buckets[0][0] >= WINDOW:
            tried, failed = self._buckets.popleft()
            self.tried -= tried
            self.failed -= sum(each.times for each in failed)

    def fail(self, failed: Failed) -> None:
        self._fresh.append(failed)
        self.failed += failed.times

    def words(self, unit: int, sources: Sequence[Named]) -> str:
        found = [each for _, bucket in (*self._buckets, (0, self._fresh)) for each in bucket]
        causes: Counter[str] = Counter()
        for each in found:
            causes[each.cause] += each.times
        cause, count = causes.most_common(1)[0]
        example = next(each.example for each in found if each.cause == cause)
        name = {BATCHES: "batches", PACKS: "packs"}.get(unit) or f"samples of {sources[unit].dataset_path}"
        often = "all" if count == self.failed else f"{count:,} of them"
        return (
            f"{self.failed:,} of the last {self.tried:,} {name} failed ({self.share:.1%}), {often} by {cause}; "
            f"for example: {example}"
        )
