"""One rank of a validation under way: finite passes, batch b of each on rank b mod world size, all passes the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from wdsctl.core.errors import UsageError
from wdsctl.loader.dataset import ValDataset
from wdsctl.loader.hooks import batch_stage, encode_stage, recipe
from wdsctl.loader.opening import open_source
from wdsctl.loader.order.runs import Runs
from wdsctl.loader.order.shuffle import ORDER_VERSION
from wdsctl.loader.plan import Plan
from wdsctl.loader.states import VERSION, State, for_rank
from wdsctl.loader.stats import Stats


class Validation:
    """The passes of one rank. Where it stands: the pass, and how many batches the world has drawn of it."""

    def __init__(self, dataset: ValDataset, state: Any = None, *, strict: bool = False) -> None:
        workers = dataset.worker_config
        self._rank, self._world = workers.rank, workers.world_size
        self.stats = Stats()
        saved = None if state is None else for_rank(state, self._rank, self._world)
        self._source = open_source(dataset, None if saved is None else saved["generation"])
        self._runs = Runs(self._source.n, dataset.batch_size or 1, 1, dataset.batch_drop_last)
        self._single = dataset.batch_size is None
        self._encode = encode_stage(dataset, self._source.n, self.stats)
        self._batch = batch_stage(dataset, self._source.memories, self.stats)
        self.plan = Plan(
            _order_facts(dataset, self._source.selection.digest(self._source.offsets), self._runs.n), recipe(dataset)
        )
        self._pass = self._drawn = 0
        if saved is not None:
            self.plan.check(saved["plan"], strict=strict)
            if saved["pass"] is None:
                raise UsageError("this is the state of a training", hint="give it to the loader of the training")
            self._pass, self._drawn = saved["pass"], saved["drawn"]

    def __len__(self) -> int:
        """Batches of this rank in one pass."""
        return max(0, -((self._rank - self._runs.batches) // self._world))

    def draw(self) -> Any:
        """The rank's next batch; StopIteration at the end of the pass, after which the next one begins."""
        while self._drawn + self._rank < self._runs.batches:
            number = self._drawn + self._rank
            self._drawn += self._world
            samples = self._samples(number)
            if samples:
                return self._batch.make(samples, number) if not self._single else samples[0]
        self._pass, self._drawn = self._pass + 1, 0
        raise StopIteration

    def state_dict(self) -> State:
        return {
            "version": VERSION,
            "kind": "rank",
            "rank": self._rank,
            "world": self._world,
            "plan": self.plan.to_state(),
            "generation": self._source.offsets.generation,
            "drawn": self._drawn,
            "pass": self._pass,
            "base": 0,
            "lanes": [],
            "cursors": {},
        }

    def close(self) -> None:
        self._source.close()

    def _samples(self, number: int) -> list[Any]:
        """The samples of one batch: all that the hook makes of the positions of its run."""
        start, stop = self._runs.batch(number)
        block = self._source.block(np.arange(start, stop), 0)
        for memory in self._batch.memories:
            memory.begin(len(block))
        loaded = [self._source.load(block, i) for i in range(len(block))]
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
