"""One rank of a validation under way: finite passes, batch b of each on rank b mod world size, all passes the same."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from wdsctl.loader.dataset import ValDataset
from wdsctl.loader.hooks import batch_stage, encode_stage, recipe
from wdsctl.loader.opening import open_source
from wdsctl.loader.order.geometry import Geometry
from wdsctl.loader.order.runs import Runs
from wdsctl.loader.order.shuffle import ORDER_VERSION
from wdsctl.loader.plan import Plan
from wdsctl.loader.states import State, for_rank, rank_state
from wdsctl.loader.stats import Stats


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a rank is: the pass, and how many batches the world has drawn of it.

    Samples that are handed out one by one are batches of one position, of which a hook may make several outputs:
    `given` has how many of them have left, by the batch's number, for batches that are not drawn to their end.
    """

    passes: int
    drawn: int
    given: dict[int, int]


class Validation:
    """The passes of one rank."""

    def __init__(self, dataset: ValDataset, state: Any = None, *, strict: bool = False) -> None:
        self._workers = workers = dataset.worker_config
        self._rank, self._world = workers.rank, workers.world_size
        self.stats = Stats()
        saved = None if state is None else for_rank(state, self._rank, self._world, "validation")
        self._source = open_source(dataset, None if saved is None else saved["generation"])
        self._runs = Runs(self._source.n, dataset.batch_size or 1, dataset.batch_drop_last)
        self._single = dataset.batch_size is None
        self._encode = encode_stage(dataset, self._source.n, self.stats)
        self._batch = batch_stage(dataset, self._source.memories, self.stats)
        self.plan = Plan(
            _order_facts(dataset, self._source.selection.digest(self._source.offsets), self._runs.n),
            {**recipe(dataset, self._source), "seed": dataset.seed, "seed_offset": workers.seed_offset},
        )
        self._plan_state = self.plan.to_state()
        self._stand = self._ahead = Stand(0, 0, {})
        self._made: list[Any] | None = None  # what is handed out of the batch under way
        if saved is not None:
            self.plan.check(saved["plan"], strict=strict)
            given = {int(number): cursor["given"] for number, cursor in saved["cursors"].items()}
            self._stand = Stand(saved["pass"], saved["drawn"], given)

    def __len__(self) -> int:
        """Batches of this rank in one pass, where no hook leaves out all samples of one or makes several of one."""
        return max(0, -((self._rank - self._runs.batches) // self._world))

    def draw(self) -> Any:
        """The rank's next batch; StopIteration at the end of the pass, after which the next one begins.

        The same batch until it is accepted: an error or an interrupt loses nothing.
        """
        while self._stand.drawn + self._rank < self._runs.batches:
            stand, number = self._stand, self._stand.drawn + self._rank
            if self._made is None:
                with self.stats.as_before_if_it_fails():
                    self._made = self._make(number)
            made, given = self._made, stand.given.get(number, 0)
            later = {other: count for other, count in stand.given.items() if other > number}
            if given + 1 < len(made):
                self._ahead = Stand(stand.passes, stand.drawn, {**later, number: given + 1})
            else:
                self._made = None
                self._ahead = Stand(stand.passes, stand.drawn + self._world, later)
            if given < len(made):
                return made[given]
            self.accept()
        self._stand = Stand(self._stand.passes + 1, 0, {})
        raise StopIteration

    def accept(self) -> None:
        """The batch that was drawn last is handed out. One assignment: interrupts come before it or after it."""
        self._stand = self._ahead

    def state_dict(self) -> State:
        return rank_state(
            self._workers,
            self._plan_state,
            self._source.offsets.generation,
            drawn=self._stand.drawn,
            passes=self._stand.passes,
            geometry=Geometry(base=0, lanes=()),
            cursors={number: {"given": count} for number, count in self._stand.given.items()},
        )

    def close(self) -> None:
        self._source.close()

    def _make(self, number: int) -> list[Any]:
        """A batch in a list, empty where all its samples are skipped; or all that is made of one position."""
        samples = self._samples(number)
        if not self._single:
            return [self._batch.make(samples, number)] if samples else []
        self.stats.samples += len(samples)
        self.stats.batches += len(samples)
        return samples

    def _samples(self, number: int) -> list[Any]:
        """The samples of one batch: all that the hook makes of the positions of its run."""
        started = perf_counter()
        start, stop = self._runs.batch(number)
        block = self._source.block(np.arange(start, stop), 0)
        for memory in self._batch.memories:
            memory.begin(len(block))
        loaded = [self._source.load(block, i) for i in range(len(block))]
        self.stats.load_seconds += perf_counter() - started
        return loaded if self._encode is None else self._encode.all_of(loaded)


def _order_facts(dataset: ValDataset, data: str, samples: int) -> dict[str, Any]:
    return {
        "order_version": ORDER_VERSION,
        "split": dataset.split_part,
        "samples": samples,
        "data": data,
        "batch_size": dataset.batch_size,
        "batch_drop_last": dataset.batch_drop_last,
    }
