"""A hook of the user's: seeded, timed, and with what happens when it fails, skips or returns nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import isgenerator
from itertools import count
from typing import Any

from wdsctl.core.errors import SampleFailed
from wdsctl.core.keys import mix_one
from wdsctl.loader.failures import Failures
from wdsctl.loader.randomness import seed_all
from wdsctl.loader.skip import SkipSample

NOTHING: Any = object()  # what was skipped, or failed and is left out


@dataclass(frozen=True, slots=True)
class Hook:
    """`key`: of the hook and the seed. `tolerance`: failures in a row of this hook, where its author said so."""

    name: str
    call: Callable[[Any], Any]
    key: int
    tolerance: int | None = None

    def run(self, value: Any, key: int, failures: Failures, where: Callable[[Any], str]) -> Any:
        """What the hook makes of a value: an output, a generator of outputs, or NOTHING."""
        seed_all(mix_one(self.key, key))
        return self.plain(value, failures, where)

    def plain(self, value: Any, failures: Failures, where: Callable[[Any], str]) -> Any:
        """The same for a function of ours, which draws no random numbers."""
        try:
            made = self._something(self.call(value), "returned")
        except SkipSample:
            failures.stats.skipped += 1
            return NOTHING
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a hook may raise anything: all of it is told
            failures.failed(self.name, error, value, where(value), self.tolerance)
            return NOTHING
        if not isgenerator(made):  # of one it is not known yet
            failures.succeeded(self.name)
        return made

    def _something(self, made: Any, how: str) -> Any:
        if made is None:
            hint = "give what it made, or raise SkipSample to leave it out"
            raise SampleFailed(f"{self.name} {how} None", hint=hint)
        return made

    def outputs(self, value: Any, key: int, failures: Failures, where: Callable[[Any], str]) -> Iterator[Any]:
        """All that the hook makes of a value. Between two steps of a generator others draw: each step is seeded.

        The iterator of a hook that is no generator knows its length (`operator.length_hint`).
        """
        made = self.run(value, key, failures, where)
        if made is NOTHING:
            return iter(())
        return self._steps(made, value, key, failures, where) if isgenerator(made) else iter((made,))

    def _steps(
        self, steps: Iterator[Any], value: Any, key: int, failures: Failures, where: Callable[[Any], str]
    ) -> Iterator[Any]:
        """What a generator gives."""
        base = mix_one(self.key, key)
        for step in count(1):
            try:
                output = self._something(next(steps, NOTHING), "yielded")
            except SkipSample:
                failures.stats.skipped += 1
                return
            except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
                failures.failed(self.name, error, value, where(value), self.tolerance)
                return
            failures.succeeded(self.name)
            if output is NOTHING:
                return
            yield output
            seed_all(mix_one(base, step))
