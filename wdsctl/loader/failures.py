"""What happens when a sample fails: it is told, counted and left out, until too many fail in a row.

That is for the damage of one sample, or one shard. Where the storage itself is down, no other sample will do better:
the run ends at once, before the batch, and the next batch that is asked for is the same one.

A handler is called with the error, the sample (or the samples, or its key where there is none yet) and its sources, as
Energon calls its handlers. One that raises ends the run with what it raises.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from wdsctl.core.errors import (
    CatalogError,
    LoaderError,
    PermissionDenied,
    SampleFailed,
    StorageDown,
    StorageError,
    WdsctlError,
)
from wdsctl.loader.failure_rates import BATCHES, PACKS, Tally
from wdsctl.loader.logs import log
from wdsctl.loader.stats import Stats

Handler = Callable[[Exception, Any, Any], None]

TOLERANCE = 100  # failures in a row of one hook before the loader gives up

#: Hooks whose failure is not of one sample, with what it is of.
_UNITS = {
    "batch": BATCHES,
    "encode_batch": BATCHES,
    "select_samples_to_pack": PACKS,
    "pack_selected_samples": PACKS,
}

LOAD = "load"  # the name that reading a sample from its shard has among the hooks

#: Hooks that see a sample when another one may be under way.
_LATER = frozenset({"postencode_sample", "batch_group_criterion", "length", "cut"})

#: What no other sample will cure: the program, or the machine.
FATAL = (ImportError, MemoryError, NameError, RecursionError, ReferenceError, SyntaxError, SystemError)

#: What no other sample will cure either: the storage, and a catalog that is damaged.
STORAGE_DOWN = (StorageDown, PermissionDenied, CatalogError)


class FatalSampleError(LoaderError):
    """Too many samples failed in a row, or one failed in a way that no other sample will cure."""

    code = "WDS507"


class ChangedShardError(FatalSampleError):
    """A shard is gone, or not what was indexed, in a run that is not to go on without it."""

    code = "WDS528"


#: What to do then. Nothing of it loses data.
CHANGED = (
    "restore the shard, and resume from the same state; or, where it is meant to be as it is, run `wdsctl index` and "
    "begin a new run; changed_shards='skip' goes on without its samples, and with others in their place"
)


def is_changed_shard(error: BaseException | None) -> bool:
    """Whether a file was not there, or not what was indexed."""
    while error is not None:
        if isinstance(error, FileNotFoundError) or (isinstance(error, StorageError) and error.code == "WDS403"):
            return True
        error = error.__cause__
    return False


def log_exception(error: Exception, sample: Any, sources: Any) -> None:  # noqa: ARG001 - the signature of handlers
    """The default handler: a line in the log of `wdsctl.loader`, and the traceback where that is at DEBUG.

    A lane calls it once for each cause: later failures of the same hook with the same error are at DEBUG alone.
    """
    log.warning(
        "%s left out (others of the same cause are counted in loader.stats.causes): %s",
        f"{len(sample):,} samples are" if isinstance(sample, list) else "a sample is",
        error,
        exc_info=log.isEnabledFor(logging.DEBUG),
    )


def reraise_exception(error: Exception, sample: Any, sources: Any) -> None:  # noqa: ARG001 - the signature of handlers
    """A handler for those who want to stop at the first failure."""
    raise error


@dataclass(slots=True)
class Failures:
    """Counts failures by hook; `tolerance` of 0 means any number. One object a lane: lanes fail alone.

    A cause is the hook and the kind of error. The default handler tells each cause once in a process, in words; after
    that it is counted in `stats.causes`, and told at DEBUG. So is what is lost with a shard: its source tells of that.
    `tally`: what the shares of failures are worked out from.
    """

    handler: Handler
    stats: Stats
    tolerance: int = TOLERANCE
    in_a_row: dict[str, int] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    refuses_changed: bool = False

    def succeeded(self, hook: str) -> None:
        if self.in_a_row:
            self.in_a_row.pop(hook, None)

    def failed(self, hook: str, error: BaseException, sample: Any, where: str, tolerance: int | None = None) -> None:
        """Tell and count a failure; returns where the sample is to be left out. Raises what ends the run."""
        told = _told(hook, error, where)
        if isinstance(error, STORAGE_DOWN):
            raise _chained(told, error)
        if isinstance(error, FatalSampleError):
            raise _chained(told, error)
        if self.refuses_changed and is_changed_shard(error):
            raise ChangedShardError(told.message, hint=CHANGED, where=told.where) from error
        if isinstance(error, FATAL) or not isinstance(error, Exception):
            raise FatalSampleError(told.message, hint=told.hint, where=told.where) from error
        cause = _cause(hook, error)
        self._tell(cause, _chained(told, error), sample, is_logged=hook == LOAD and is_changed_shard(error))
        self.stats.failed += 1
        unit = _source_of(sample) if hook in _LATER else _UNITS.get(hook)
        self.tally.fail(unit, cause, f"{told.message} ({told.where})")
        count = self.in_a_row[hook] = self.in_a_row.get(hook, 0) + 1
        most = self.tolerance if tolerance is None else tolerance
        if most and count >= most:
            raise FatalSampleError(
                f"{count} samples in a row failed in {hook}; the last: {told.message}", hint=told.hint, where=told.where
            ) from error

    def _tell(self, cause: str, told: WdsctlError, sample: Any, *, is_logged: bool) -> None:
        """`is_logged`: its source has said already that the whole shard is lost."""
        if self.handler is log_exception and (is_logged or self.stats.causes[cause]):
            log.debug("a sample is left out: %s", told, exc_info=told)
        else:
            self.handler(told, sample, _sources(sample))
        # Another object: copies of these counts are kept, and must stay what they are.
        self.stats.causes = self.stats.causes + Counter({cause: 1})


def names(samples: Sequence[Any]) -> str:
    """The keys of some samples, as far as they have them."""
    keys = [str(value_of(sample, "__key__") or "?") for sample in samples[:3]]
    return ", ".join(keys) + (f" and {len(samples) - 3} more" if len(samples) > 3 else "")


def place_of(sample: Any) -> str:
    """Dataset, shard and key. A hook may have changed the sample before it failed."""
    sources = _sources(sample)
    place = [f"dataset {each.dataset_path}, shard {each.shard_name}" for each in (sources or ())[:1]]
    return ", ".join([*place, f"key {value_of(sample, '__key__')}"])


def value_of(sample: Any, name: str) -> Any:
    return sample.get(name) if isinstance(sample, dict) else getattr(sample, name, None)


def set_value(sample: Any, name: str, value: Any) -> None:
    """Set a field that a sample has; nothing where it has none."""
    if isinstance(sample, dict):
        if name in sample:
            sample[name] = value
    elif hasattr(sample, name):
        setattr(sample, name, value)


def _sources(sample: Any) -> Any:
    return value_of(sample, "__sources__")


def _source_of(sample: Any) -> int | None:
    """The number of its source, where its restore key says so; of a pack, that of its first sample."""
    key = value_of(sample, "__restore_key__")
    while isinstance(key, tuple) and key:
        if isinstance(key[0], int):
            return key[0]
        key = key[2] if len(key) > 2 else None
    return None


def _cause(hook: str, error: BaseException) -> str:
    """What failures have in common: few, whatever the messages say of the single sample."""
    return f"{hook}: {error.code if isinstance(error, WdsctlError) else type(error).__name__}"


def _told(hook: str, error: BaseException, where: str) -> WdsctlError:
    if isinstance(error, WdsctlError):
        # Of a decoder that the hook called, say: it cannot know the sample.
        place = error.where if error.where.startswith(where) else f"{where}, {error.where}" if error.where else where
        return type(error)(error.message, hint=error.hint, where=place, code=error.code)
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return SampleFailed(
        f"{hook} failed: {words}", where=where, hint="mend it; a hook that means to leave samples out raises SkipSample"
    )


def _chained(told: WdsctlError, error: BaseException) -> WdsctlError:
    told.__cause__ = error
    return told
