"""The contract of all cursors. A stage is a frozen recipe; a cursor is the position of one lane in it.

1. State is saved only between batches, so it never contains unfinished work.
2. State has the positions to read again, never data.
3. State has positions; settings are in the recipe, whose fingerprint is saved with the state.
4. State is JSON, with the same keys and types at every position.
5. After `load` on a new cursor, the rest of the stream equals the rest of an uninterrupted run.
6. After a `next` that raises, the cursor is undefined: it is discarded, and a new one opened from the last state.

A cursor knows only the cursor from which it draws: no other stage, no rank, no worker.

Also here: what stages hand on to one another (`PipelineItem`), and user hooks as stages run them (`Hook`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from inspect import isgenerator
from itertools import count
from typing import Any, NamedTuple, Protocol

from wdsctl.core.errors import LoaderError, SampleFailed
from wdsctl.core.hashing import hash_one_value
from wdsctl.loader.runtime.failures import FailureTracker, SkipSample
from wdsctl.loader.runtime.position import begin_hook, end_hook
from wdsctl.loader.runtime.randomness import seed_all

#: JSON. A sample: the lane's draw it comes from, or [draw, step] for an output of a generator. A pack:
#: {"samples": addresses, "step": step}. `wdsctl.core.checkpoint.addresses` encodes them for states.
Address = Any

PACK_HASH_SALT = 0x5041434B  # separates the hashes of packs from those of their samples


class PipelineItem(NamedTuple):
    """`origin_hash`: 64 bits that identify what the value was made of, whatever lane, rank or worker made it.
    `restore_keys`: of the samples it was made of. `banned_by`: the ban that applies to it since it was first read,
    counted from 1; 0: none. Its holder does not hand on a banned item; until then the item keeps its place in what was
    planned with it."""

    value: Any
    address: Address
    origin_hash: int
    restore_keys: tuple[Any, ...] = ()
    banned_by: int = 0


BANNED_ITEM = PipelineItem(None, None, 0, (), banned_by=1)  # replaces a waiting item that bans have removed completely


def hash_restore_key(restore_key: Iterable[int]) -> int:
    """The hash of a sample, from its restore key: source, pass and sample id."""
    key = 0
    for part in restore_key:
        key = hash_one_value(key, part)
    return key


def hash_items(items: Iterable[PipelineItem], start: int = 0) -> int:
    """The hash of what is made of several items, in this order."""
    key = start
    for item in items:
        key = hash_one_value(key, item.origin_hash)
    return key


class Cursor(Protocol):
    """One lane's position in a stage."""

    def next(self) -> PipelineItem | None:
        """The next item; None at the end of a finite lane."""

    def rebuild(self, address: Address) -> PipelineItem:
        """Make the item of an address again; bans may have taken some or all of it. Moves nothing."""

    def state(self) -> Any:
        """The position of the cursor. Changes nothing."""

    def load(self, state: Any) -> None:
        """Go to this position. On a fresh cursor, before the first `next`."""


NO_OUTPUT: Any = object()  # the result for a sample, pack or batch that was skipped or failed


@dataclass(frozen=True, slots=True)
class Hook:
    """`seed`: derived from the hook's name and the seed. `tolerance`: consecutive failures that the hook's author
    allows."""

    name: str
    call: Callable[[Any], Any]
    seed: int
    tolerance: int | None = None

    def run(self, value: Any, origin_hash: int, failures: FailureTracker, where: Callable[[Any], str]) -> Any:
        """Run the hook: returns an output, a generator of outputs, or NO_OUTPUT."""
        seed_all(hash_one_value(self.seed, origin_hash))
        before = begin_hook(origin_hash)
        try:
            return self.run_unseeded(value, failures, where)
        finally:
            end_hook(before)

    def run_unseeded(self, value: Any, failures: FailureTracker, where: Callable[[Any], str]) -> Any:
        """Run a function of ours, which draws no random numbers."""
        try:
            output = self._require_output(self.call(value), "returned")
        except SkipSample as skip:
            failures.stats.count_skip(skip)
            return NO_OUTPUT
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a hook may raise anything: all of it is reported
            failures.record_failure(self.name, error, value, where(value), self.tolerance)
            return NO_OUTPUT
        if not isgenerator(output):  # a generator may still fail
            failures.record_success(self.name)
        return output

    def _require_output(self, output: Any, verb: str) -> Any:
        if output is None:
            hint = "return the output, or raise SkipSample to skip the sample"
            raise SampleFailed(f"{self.name} {verb} None", hint=hint)
        return output

    def outputs(
        self, value: Any, origin_hash: int, failures: FailureTracker, where: Callable[[Any], str]
    ) -> Iterator[Any]:
        """All outputs of the hook for a value. Other hooks run between two steps of a generator: each step is seeded.

        The iterator of a hook that is no generator knows its length (`operator.length_hint`).
        """
        output = self.run(value, origin_hash, failures, where)
        if output is NO_OUTPUT:
            return iter(())
        return self._steps(output, value, origin_hash, failures, where) if isgenerator(output) else iter((output,))

    def _steps(
        self, steps: Iterator[Any], value: Any, origin_hash: int, failures: FailureTracker, where: Callable[[Any], str]
    ) -> Iterator[Any]:
        """The outputs of a generator."""
        base = hash_one_value(self.seed, origin_hash)
        for step in count(1):
            before = begin_hook(origin_hash)
            try:
                output = self._require_output(next(steps, NO_OUTPUT), "yielded")
            except SkipSample as skip:
                failures.stats.count_skip(skip)
                return
            except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
                failures.record_failure(self.name, error, value, where(value), self.tolerance)
                return
            finally:
                end_hook(before)
            failures.record_success(self.name)
            if output is NO_OUTPUT:
                return
            yield output
            seed_all(hash_one_value(base, step))


def check_empty_draws(empty_draws: int, max_empty_draws: int) -> None:
    """Raise LoaderError (WDS505) if a lane has drawn more consecutive samples without output than `max_empty_draws`: a
    training without output would otherwise run forever."""
    if empty_draws > max_empty_draws:
        raise LoaderError(
            f"no output from {empty_draws:,} consecutive samples, at least a whole pass over the dataset",
            hint="check the hooks that raise SkipSample, and the failures in the log",
            code="WDS505",
        )
