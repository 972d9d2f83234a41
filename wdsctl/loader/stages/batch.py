"""Samples become batches, and batches what the training loop wants. A batch has no state: it is never half made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from wdsctl.core.errors import LoaderError, WdsctlError
from wdsctl.core.keys import mix_one
from wdsctl.loader.decoding import BatchMemory
from wdsctl.loader.randomness import seed_all
from wdsctl.loader.stages.cursor import Cursor
from wdsctl.loader.stats import Stats


@dataclass(frozen=True, slots=True)
class BatchStage:
    """`size` samples a batch; None hands samples out one by one. Hooks that are None are not overridden.

    `key` is the seed's; a hook's random numbers are keyed by it and by the batch's number in the whole job.
    """

    size: int | None
    batch: Callable[[list[Any]], Any]
    seeds_batch: bool
    encode_batch: Callable[[Any], Any] | None
    memories: Sequence[BatchMemory]
    key: int
    stats: Stats

    def draw(self, samples: Cursor[Any], number: int) -> Any:
        """The next batch of a lane, which is batch `number` of the job."""
        if self.size is None:
            (sample,) = samples.take(1)
            self.stats.samples += 1
            self.stats.batches += 1
            return sample
        for memory in self.memories:
            memory.begin(self.size)
        return self.make(samples.take(self.size), number)

    def make(self, samples: list[Any], number: int) -> Any:
        """These samples as a batch."""
        started = perf_counter()
        self.stats.samples += len(samples)
        self.stats.batches += 1
        if self.seeds_batch:
            seed_all(mix_one(self.key, 2 * number))
        with _failures("batch", samples):
            made = self.batch(samples)
        if self.encode_batch is not None:
            seed_all(mix_one(self.key, 2 * number + 1))
            with _failures("encode_batch", samples):
                made = self.encode_batch(made)
        self.stats.batch_seconds += perf_counter() - started
        return made


@contextmanager
def _failures(hook: str, samples: Sequence[Any]) -> Iterator[None]:
    try:
        yield
    except WdsctlError:
        raise
    except Exception as error:
        keys = [
            sample.get("__key__", "?") if isinstance(sample, dict) else getattr(sample, "__key__", "?")
            for sample in samples
        ]
        shown = ", ".join(map(str, keys[:3])) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
        raise LoaderError(
            f"{hook} failed: {type(error).__name__}: {error}",
            where=f"samples {shown}",
            hint="the error of the hook itself is shown above",
            code="WDS503",
        ) from error
