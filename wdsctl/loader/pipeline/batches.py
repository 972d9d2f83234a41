"""Makes batches of items, and runs the hooks of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import length_hint
from time import perf_counter
from typing import Any, Protocol

from wdsctl.loader.decoding.memory import BatchMemory
from wdsctl.loader.plan.incompatible_sources import SourceCheckingBatcher, assume_not_incompatible
from wdsctl.loader.runtime.failure_rates import BATCH_COUNTER
from wdsctl.loader.runtime.failures import FailureTracker
from wdsctl.loader.runtime.sample_fields import describe_samples, get_field
from wdsctl.loader.runtime.stage import NO_OUTPUT, Hook, PipelineItem, check_empty_draws, hash_items
from wdsctl.loader.runtime.stats import Stats


class _End:
    """The end of a finite lane: one object in every process."""

    def __reduce__(self) -> str:
        return "END"


END: Any = _End()
RESTORE_KEY_FIELD = "__restore_key__"
BATCH_SEED_SALT = 0x4241544348  # separates the hashes of batches from those of their samples


class BatchItemSource(Protocol):
    """Gives the items of one batch at a time."""

    def next(self) -> list[PipelineItem]: ...

    def state(self) -> Any: ...

    def load(self, state: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class BatchStage:
    """`batch_size`: unless groups have sizes of their own. `is_batched`: otherwise items go out one by one. A hook that
    is None is not overridden.

    `make_batch`: does what the encoder's `batch` does, without random numbers, if `batch_hook` is None.
    """

    batch_size: int | None
    is_batched: bool
    make_batch: Callable[[list[Any]], Any]
    batch_hook: Hook | None
    encode_batch: Hook | None
    memories: Sequence[BatchMemory]
    max_empty_draws: int = 1 << 62  # consecutive samples without a batch after which a lane gives up
    are_unlike_sources: Callable[[int, int], bool] = (
        assume_not_incompatible  # whether two sources are known to be incompatible
    )

    def open(self, item_source: BatchItemSource, failures: FailureTracker, stats: Stats) -> BatchCursor:
        return BatchCursor(self, item_source, failures, stats)

    @property
    def needs_sample_keys(self) -> bool:
        """Whether a hook draws random numbers for a batch, keyed by its samples."""
        return self.batch_hook is not None or self.encode_batch is not None


class BatchCursor:
    """State: where the current batch began, and how many outputs of its hooks were emitted."""

    def __init__(self, stage: BatchStage, item_source: BatchItemSource, failures: FailureTracker, stats: Stats) -> None:
        self._stage = stage
        self._item_source = item_source
        self._failures = failures
        self._stats = stats
        # The default batch function is a hook, so that its failures are handled like those of hooks.
        self._default_hook = Hook("batch", SourceCheckingBatcher(stage.make_batch, stage.are_unlike_sources), 0)
        self._batch_start: Any = None
        self._outputs: Iterator[Any] | None = None
        self._outputs_emitted = 0
        self._items: list[PipelineItem] = []  # of the current batch
        self._empty_draws = 0  # samples since the last batch
        self.before_next_batch: Callable[[], None] | None = (
            None  # called before the next batch begins, but not on a load
        )

    def origins(self) -> list[Any]:
        """The restore keys of the samples in the last batch."""
        return [
            origin
            for item in self._items
            for origin in item.restore_keys or (get_field(item.value, RESTORE_KEY_FIELD),)
        ]

    def draw(self) -> Any:
        """The next batch; END where a finite lane ends."""
        while True:
            if self._outputs is not None:
                started = perf_counter()
                batch = next(self._outputs, NO_OUTPUT)
                self._stats.batch_seconds += perf_counter() - started
                if batch is not NO_OUTPUT:
                    self._empty_draws = 0
                    self._stats.samples += 0 if self._outputs_emitted else len(self._items)
                    self._outputs_emitted += 1
                    self._stats.batches += 1
                    # A finished batch is not made again after a restore, which may use another size.
                    if not length_hint(self._outputs, 1):
                        self._outputs = None
                    return batch
                self._outputs = None
            check_empty_draws(self._empty_draws, self._stage.max_empty_draws)
            if self.before_next_batch is not None:
                self.before_next_batch()
            if not self._begin_batch():
                return END

    def draw_all(self) -> list[Any]:
        """All batches that a finite lane still has."""
        batches = []
        while (batch := self.draw()) is not END:
            batches.append(batch)
        return batches

    def make_default_batch(self, samples: list[Any]) -> Any:
        """The default batch of these samples; NO_OUTPUT if it fails."""
        self._failures.tally.begin_attempt(BATCH_COUNTER)
        batch = self._default_hook.run_unseeded(samples, self._failures, describe_samples)
        if batch is not NO_OUTPUT:
            self._stats.samples += len(samples)
            self._stats.batches += 1
        return batch

    def state(self) -> dict[str, Any]:
        if self._outputs is None:
            return {"upstream": self._item_source.state(), "emitted": 0}
        return {"upstream": self._batch_start, "emitted": self._outputs_emitted}

    def load(self, state: dict[str, Any]) -> None:
        if state["emitted"] and not self._stage.needs_sample_keys:
            raise ValueError("no hook makes several batches of one")
        self._item_source.load(state["upstream"])
        self._outputs, self._outputs_emitted = None, 0
        if state["emitted"] and self._begin_batch():
            self._skip_outputs(state["emitted"])

    def _skip_outputs(self, count: int) -> None:
        """Skip up to `count` outputs of the current batch."""
        outputs = self._outputs or iter(())
        while self._outputs_emitted < count and next(outputs, NO_OUTPUT) is not NO_OUTPUT:
            self._outputs_emitted += 1

    def _begin_batch(self) -> bool:
        """Collect the items of a batch; False if there are no more."""
        stage = self._stage
        self._batch_start, self._outputs_emitted = self._item_source.state(), 0
        for memory in stage.memories:
            memory.begin(stage.batch_size or 1)  # images are decoded into it
        items = self._item_source.next()
        if not items:
            return False
        self._empty_draws += len(items)
        self._items = items
        started = perf_counter()
        self._outputs = self._run_batch_hooks(items)
        self._stats.batch_seconds += perf_counter() - started
        return True

    def _run_batch_hooks(self, items: list[PipelineItem]) -> Iterator[Any]:
        """The outputs of the hooks for these items."""
        stage, values = self._stage, [item.value for item in items]
        if not stage.is_batched:
            return iter(values)
        self._failures.tally.begin_attempt(BATCH_COUNTER)
        key = hash_items(items, BATCH_SEED_SALT) if stage.needs_sample_keys else 0
        if stage.batch_hook is not None:
            batches = stage.batch_hook.outputs(values, key, self._failures, describe_samples)
        else:
            batch = self._default_hook.run_unseeded(values, self._failures, describe_samples)
            batches = iter(()) if batch is NO_OUTPUT else iter((batch,))
        if stage.encode_batch is None:
            return batches
        where = describe_samples(values)
        if length_hint(batches, 0) == 1:
            return stage.encode_batch.outputs(next(batches), key, self._failures, lambda _: where)
        return self._encode_batches(stage.encode_batch, batches, key, where)

    def _encode_batches(self, hook: Hook, batches: Iterator[Any], key: int, where: str) -> Iterator[Any]:
        for step, batch in enumerate(batches):
            yield from hook.outputs(batch, key + step, self._failures, lambda _: where)
