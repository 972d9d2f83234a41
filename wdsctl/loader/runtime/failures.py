"""Failures of samples: each is logged, counted and left out, until too many fail in a row. Also `SkipSample`.

Only damage of a sample or a shard is handled in this way. If the storage itself is down, no other sample can be read,
so the run ends immediately, before the batch, and a later draw returns the same batch.

As in Energon, a handler is called with the error, the sample (or the samples, or None if there is none yet) and its
sources. A handler that raises ends the run with its error.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from wdsctl.core.errors import (
    CatalogError,
    LoaderError,
    PermissionDenied,
    SampleFailed,
    StateMismatch,
    StorageDown,
    StorageError,
    WdsctlError,
)
from wdsctl.core.text import pluralize
from wdsctl.loader.runtime.failure_causes import describe_cause
from wdsctl.loader.runtime.failure_rates import (
    BATCH_COUNTER,
    BUFFER_COUNTER,
    PACK_COUNTER,
    FailureStreak,
    FailureTally,
)
from wdsctl.loader.runtime.logs import logger
from wdsctl.loader.runtime.sample_fields import get_field, get_source_number
from wdsctl.loader.runtime.stats import Stats

ErrorHandler = Callable[[Exception, Any, Any], None]

#: What a shard that is missing or changed does: "error" ends the run, "skip" never does. With None, its samples are
#: failures like others, and too many of them in a row end the run.
ChangedShardsMode = Literal["error", "skip"]

MAX_CAUSES = 100  # counted by a lane; causes that name the sample would use memory without end
OTHER_CAUSES = "other causes"

MAX_FAILURES_IN_A_ROW = 100  # failures in a row of one hook before the loader gives up

#: Hooks that fail for a batch or a pack, and not for one sample: their counters.
_COUNTER_BY_HOOK = {
    "batch": BATCH_COUNTER,
    "encode_batch": BATCH_COUNTER,
    "select_samples_to_pack": BUFFER_COUNTER,
    "pack_selected_samples": PACK_COUNTER,
}

LOAD_HOOK = "load"  # the name of reading a sample from its shard, among the names of hooks

#: Hooks that get a sample while another one may be current.
_DEFERRED_HOOKS = frozenset({"postencode_sample", "batch_group_criterion", "length", "cut"})

#: Errors of the program or the machine, which every other sample would also raise.
FATAL_ERRORS = (ImportError, MemoryError, NameError, RecursionError, ReferenceError, SyntaxError, SystemError)

#: Errors of the storage or a damaged catalog, which every other sample would also raise.
STORAGE_DOWN_ERRORS = (StorageDown, PermissionDenied, CatalogError)


class SkipSample(Exception):  # noqa: N818 - it is a request, not an error
    """Raise this in a hook to leave the sample out. It is counted, and the next sample takes its place.

    `raise SkipSample("too long")` also counts the reason, in `loader.stats.skip_reasons`. Use the same few reasons for
    all samples: a lane counts 100 different ones, and the rest as "other reasons".
    """


class FatalSampleError(LoaderError):
    """Too many samples failed in a row, or one failed in a way that every other sample would."""

    code = "WDS507"


class ChangedShardError(FatalSampleError):
    """A shard is gone or has changed since it was indexed, in a run that must not continue without it."""

    code = "WDS528"


#: The code of SampleFailed for a file that a sample names, and that is missing.
MISSING_ENTRY = "WDS550"

#: The hint of ChangedShardError. No advice in it loses data.
CHANGED_SHARD_HINT = (
    "restore the shard and resume from the same state; or pass changed_shards='skip' to replace its samples by others"
)

#: The hint if too many samples of such shards follow one another in a run that does not say what to do with them.
MANY_CHANGED_HINT = "restore the shard; or pass changed_shards='skip' to replace its samples by others"

CHANGED_PACKS_HINT = "resume with the hooks, the length function and the data of the run that saved the state"


def is_changed_shard(error: BaseException | None) -> bool:
    """Whether a file of a dataset or a store was missing, or has changed since it was indexed; not a file that the
    sample names, or that a hook opened itself."""
    is_read_by_storage = False
    while error is not None:
        if isinstance(error, SampleFailed) and error.code == MISSING_ENTRY:
            return False
        is_read_by_storage |= isinstance(error, StorageError)
        if is_read_by_storage and (isinstance(error, FileNotFoundError) or getattr(error, "code", "") == "WDS403"):
            return True
        error = error.__cause__
    return False


def log_exception(error: Exception, sample: Any, sources: Any) -> None:  # noqa: ARG001 - the signature of handlers
    """The default handler: logs a line to `wdsctl.loader`, with the traceback if the log is at DEBUG.

    A lane calls it once for each cause: later failures with the same cause are logged only at DEBUG.
    """
    logger.warning(
        "skipped %s (loader.stats.causes counts further failures with the same cause): %s",
        pluralize(len(sample), "sample") if isinstance(sample, list) else "a sample",
        error,
        exc_info=logger.isEnabledFor(logging.DEBUG),
    )


def reraise_exception(error: Exception, sample: Any, sources: Any) -> None:  # noqa: ARG001 - the signature of handlers
    """A handler that ends the run at the first failure."""
    raise error


@dataclass(slots=True)
class FailureTracker:
    """Counts failures by hook; a `tolerance` of 0 means any number. One object per lane: lanes fail independently.

    The default handler logs each cause (`describe_cause`) once per process as a warning; further failures are counted
    in `stats.causes` and logged at DEBUG. So is every sample of a lost shard, which its source reports. `tally`: counts
    for failure rates. `changed_shards`: see `ChangedShardsMode`. `consecutive_failures`: by hook, a part of the lane's
    state.
    """

    handler: ErrorHandler
    stats: Stats
    tolerance: int = MAX_FAILURES_IN_A_ROW
    consecutive_failures: dict[str, int] = field(default_factory=dict)
    tally: FailureTally = field(default_factory=FailureTally)
    changed_shards: ChangedShardsMode | None = None
    _failures_before_success: dict[str, int] = field(default_factory=dict)  # since `take_streaks`
    _last_failures: dict[str, tuple[int, str, str, str]] = field(default_factory=dict)

    def record_success(self, hook: str) -> None:
        if hook not in self._failures_before_success:
            self._failures_before_success[hook] = self.consecutive_failures.get(hook, 0)
        if self.consecutive_failures:
            self.consecutive_failures.pop(hook, None)

    def take_streaks(self) -> tuple[FailureStreak, ...]:
        """Return the failures in a row since the last call, and count from zero."""
        before, after = self._failures_before_success, self.consecutive_failures
        streaks = tuple(
            FailureStreak(hook, before.get(hook, after.get(hook, 0)), after.get(hook, 0), hook in before, *last)
            for hook, last in self._last_failures.items()
        )
        self._failures_before_success, self.consecutive_failures, self._last_failures = {}, {}, {}
        return streaks

    @contextmanager
    def repeating(self) -> Iterator[None]:
        """Count no failures and attempts of what is done again for a restored position: they were counted before the
        state was saved."""
        kept = self.consecutive_failures
        self.consecutive_failures = {}
        try:
            with self.tally.keeping_counts():
                yield
        finally:
            self.consecutive_failures = kept

    def record_failure(
        self, hook: str, error: BaseException, sample: Any, where: str, tolerance: int | None = None
    ) -> None:
        """Report and count a failure; returns if the sample is to be left out. Raises what ends the run."""
        located = _located_error(hook, error, where)
        if isinstance(error, STORAGE_DOWN_ERRORS):
            raise _with_cause(located, error)
        if isinstance(error, FatalSampleError):
            raise _with_cause(located, error)
        is_changed = is_changed_shard(error)
        if is_changed and self.changed_shards == "error":
            raise ChangedShardError(located.message, hint=CHANGED_SHARD_HINT, where=located.where) from error
        if isinstance(error, FATAL_ERRORS) or not isinstance(error, Exception):
            raise FatalSampleError(located.message, hint=located.hint, where=located.where) from error
        cause = describe_cause(hook, error)
        if cause not in self.stats.causes and len(self.stats.causes) >= MAX_CAUSES:
            cause = OTHER_CAUSES
        self._report(cause, _with_cause(located, error), sample, is_shard_logged=hook == LOAD_HOOK and is_changed)
        self.stats.failed += 1
        unit = get_source_number(sample) if hook in _DEFERRED_HOOKS else _COUNTER_BY_HOOK.get(hook)
        self.tally.count_failure(unit, cause, f"{located.message} ({located.where})")
        if is_changed and self.changed_shards == "skip":
            return
        count = self.consecutive_failures[hook] = self.consecutive_failures.get(hook, 0) + 1
        most = self.tolerance if tolerance is None else tolerance
        hint = MANY_CHANGED_HINT if is_changed else located.hint
        self._last_failures[hook] = most, located.message, hint, located.where
        if most and count >= most:
            raise _too_many_error(hook, count, *self._last_failures[hook][1:]) from error

    def report_changed_packs(self, change: str) -> None:
        """Report that the unfinished packs of a state are other packs now, because of `change`. Raises StateMismatch;
        with `changed_shards="skip"` logs a warning."""
        message = f"{change} than when the state was saved: samples of unfinished packs would come twice or never"
        if self.changed_shards != "skip":
            raise StateMismatch(message, hint=CHANGED_PACKS_HINT)
        logger.warning("%s; the run continues because of changed_shards='skip'", message)

    def _report(self, cause: str, located_error: WdsctlError, sample: Any, *, is_shard_logged: bool) -> None:
        """Call the handler. `is_shard_logged`: the source has already reported that the whole shard is lost."""
        if self.handler is log_exception and (is_shard_logged or self.stats.causes[cause]):
            logger.debug("skipped a sample: %s", located_error, exc_info=located_error)
        else:
            self.handler(located_error, sample, get_field(sample, "__sources__"))
        # A new object, because kept copies of these counts share the old one and must not change.
        self.stats.causes = self.stats.causes + Counter({cause: 1})


def join_streaks(before: Mapping[str, int], streaks: Sequence[FailureStreak]) -> dict[str, int]:
    """The failures in a row by hook after a range, given those before it. Raises FatalSampleError if they are too
    many."""
    after = {}
    for streak in streaks:
        count = before.get(streak.hook, 0) + streak.first
        if streak.tolerance and count >= streak.tolerance:
            raise _too_many_error(streak.hook, count, streak.message, streak.hint, streak.where)
        after[streak.hook] = streak.last if streak.has_success else count
    return {hook: count for hook, count in after.items() if count}


def _too_many_error(hook: str, count: int, message: str, hint: str, where: str) -> FatalSampleError:
    return FatalSampleError(
        f"{pluralize(count, 'consecutive sample')} failed in {hook}; the last: {message}", hint=hint, where=where
    )


def _located_error(hook: str, error: BaseException, where: str) -> WdsctlError:
    if isinstance(error, WdsctlError):
        # Raised by a decoder that the hook called, for example, which does not know the sample.
        location = error.where if error.where.startswith(where) else f"{where}, {error.where}" if error.where else where
        return type(error)(error.message, hint=error.hint, where=location, code=error.code)
    description = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return SampleFailed(
        f"{hook} failed: {description}",
        where=where,
        hint="fix the hook, or raise SkipSample in it to skip samples",
    )


def _with_cause(located_error: WdsctlError, error: BaseException) -> WdsctlError:
    located_error.__cause__ = error
    return located_error
