"""Items become batches, and batches what the training loop wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import length_hint
from time import perf_counter
from typing import Any, Protocol

from wdsctl.loader.decoding import BatchMemory
from wdsctl.loader.failure_rates import BATCHES
from wdsctl.loader.failures import Failures, names, value_of
from wdsctl.loader.stages.hook import NOTHING, Hook
from wdsctl.loader.stages.item import Item, key_of_all
from wdsctl.loader.stages.patience import give_up_if_barren
from wdsctl.loader.stats import Stats
from wdsctl.loader.unlike_sources import Mixed, nobody_knows


class _End:
    """The end of a finite lane: one object in every process."""

    def __reduce__(self) -> str:
        return "END"


END: Any = _End()
RESTORE_KEY = "__restore_key__"
BATCH = 0x4241544348  # sets the keys of batches apart from those of their samples


class Together(Protocol):
    """Where the items of a batch come from, together."""

    def next(self) -> list[Item]: ...

    def state(self) -> Any: ...

    def load(self, state: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class BatchStage:
    """`size` samples a batch, where groups have no sizes of their own. `is_batched`: else items go out one by one. A
    hook that is None is not overridden.

    `batch`: what does as the encoder's `batch`, and draws no random numbers, where `batch_hook` is None.
    """

    size: int | None
    is_batched: bool
    batch: Callable[[list[Any]], Any]
    batch_hook: Hook | None
    encode_batch: Hook | None
    memories: Sequence[BatchMemory]
    patience: int = 1 << 62  # samples in a row of which no batch comes, after which a lane gives up
    are_apart: Callable[[int, int], bool] = nobody_knows  # whether two sources are known to make no batch together

    def open(self, together: Together, failures: Failures, stats: Stats) -> BatchCursor:
        return BatchCursor(self, together, failures, stats)

    def default(self) -> Hook:
        """The batching that nobody has overridden, for where its failures are told. One a lane."""
        return Hook("batch", Mixed(self.batch, self.are_apart), 0)

    @property
    def needs_keys(self) -> bool:
        """Whether a hook draws random numbers for a batch, keyed by its samples."""
        return self.batch_hook is not None or self.encode_batch is not None

    def begin(self, samples: int) -> None:
        """A batch of at most so many samples begins: images are decoded into its memory."""
        for memory in self.memories:
            memory.begin(samples)


class BatchCursor:
    """State: where the batch under way began, and how many outputs of its hooks have left."""

    def __init__(self, stage: BatchStage, together: Together, failures: Failures, stats: Stats) -> None:
        self._stage = stage
        self._together = together
        self._failures = failures
        self._stats = stats
        self._default = stage.default()
        self._from: Any = None
        self._outputs: Iterator[Any] | None = None
        self._left = 0
        self._items: list[Item] = []  # of the batch under way
        self._barren = 0  # samples since the last batch
        self.before: Callable[[], None] | None = None  # what is done before the next batch begins, but not on a load

    def origins(self) -> list[Any]:
        """The restore keys of the samples that the last batch was made of."""
        return [origin for item in self._items for origin in item.origins or (value_of(item.value, RESTORE_KEY),)]

    def draw(self) -> Any:
        """The next batch; END where a finite lane ends."""
        while True:
            if self._outputs is not None:
                started = perf_counter()
                made = next(self._outputs, NOTHING)
                self._stats.batch_seconds += perf_counter() - started
                if made is not NOTHING:
                    self._barren = 0
                    self._stats.samples += 0 if self._left else len(self._items)
                    self._left += 1
                    self._stats.batches += 1
                    # A batch that is over need not be made again after a restore, and may then be of another size.
                    if not length_hint(self._outputs, 1):
                        self._outputs = None
                    return made
                self._outputs = None
            give_up_if_barren(self._barren, self._stage.patience)
            if self.before is not None:
                self.before()
            if not self._begin():
                return END

    def draw_all(self) -> list[Any]:
        """All batches that a finite lane still has."""
        batches = []
        while (batch := self.draw()) is not END:
            batches.append(batch)
        return batches

    def made_of(self, samples: list[Any]) -> Any:
        """The batch that nobody has overridden, of these samples; NOTHING where it fails."""
        self._failures.tally.begin(BATCHES)
        made = self._default.plain(samples, self._failures, _names)
        if made is not NOTHING:
            self._stats.samples += len(samples)
            self._stats.batches += 1
        return made

    def state(self) -> dict[str, Any]:
        if self._outputs is None:
            return {"of": self._together.state(), "left": 0}
        return {"of": self._from, "left": self._left}

    def load(self, state: dict[str, Any]) -> None:
        self._together.load(state["of"])
        self._outputs, self._left = None, 0
        if state["left"] and self._begin():
            self._skip(state["left"])

    def _skip(self, left: int) -> None:
        """Let so many outputs of the batch under way go, as far as there are so many."""
        outputs = self._outputs or iter(())
        while self._left < left and next(outputs, NOTHING) is not NOTHING:
            self._left += 1

    def _begin(self) -> bool:
        """Collect the items of a batch; False where there are none any more."""
        stage = self._stage
        self._from, self._left = self._together.state(), 0
        stage.begin(stage.size or 1)
        items = self._together.next()
        if not items:
            return False
        self._barren += len(items)
        self._items = items
        started = perf_counter()
        self._outputs = self._made(items)
        self._stats.batch_seconds += perf_counter() - started
        return True

    def _made(self, items: list[Item]) -> Iterator[Any]:
        """What the hooks make of these items."""
        stage, values = self._stage, [item.value for item in items]
        if not stage.is_batched:
            return iter(values)
        self._failures.tally.begin(BATCHES)
        key = key_of_all(items, BATCH) if stage.needs_keys else 0
        if stage.batch_hook is not None:
            batches = stage.batch_hook.outputs(values, key, self._failures, _names)
        else:
            made = self._default.plain(values, self._failures, _names)
            batches = iter(()) if made is NOTHING else iter((made,))
        if stage.encode_batch is None:
            return batches
        where = _names(values)
        if length_hint(batches, 0) == 1:
            return stage.encode_batch.outputs(next(batches), key, self._failures, lambda _: where)
        return self._encoded(stage.encode_batch, batches, key, where)

    def _encoded(self, hook: Hook, batches: Iterator[Any], key: int, where: str) -> Iterator[Any]:
        for step, batch in enumerate(batches):
            yield from hook.outputs(batch, key + step, self._failures, lambda _: where)


def _names(values: Sequence[Any]) -> str:
    return f"samples {names(values)}"
