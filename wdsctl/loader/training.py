"""One rank of a training under way: its lanes, the batch that is next, and the state that travelled with the last."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from wdsctl.core.keys import derive
from wdsctl.core.storage import is_remote
from wdsctl.loader.dataset import LANES_A_RANK, TrainDataset
from wdsctl.loader.hooks import batch_stage, bulk_stage, encode_stage, recipe
from wdsctl.loader.opening import open_source
from wdsctl.loader.order.geometry import Geometry, Lane, split, start, turns
from wdsctl.loader.order.shuffle import ORDER_VERSION, Shuffled, slice_size
from wdsctl.loader.pipeline import LaneCursor, Pipeline, moved, position_of
from wdsctl.loader.plan import Plan
from wdsctl.loader.source import Source
from wdsctl.loader.stages.load import LoadStage
from wdsctl.loader.stages.source import SourceStage
from wdsctl.loader.states import State, for_rank, rank_state
from wdsctl.loader.stats import Stats

SLICE_LOCAL, SLICE_REMOTE = 16, 128  # samples read together, where nobody says otherwise


@dataclass(frozen=True, slots=True)
class Sizes:
    """What was chosen where the recipe left it open: part of the order, and taken from the state on a resume."""

    lanes: int
    slice_samples: int
    window_samples: int


@dataclass(frozen=True, slots=True)
class Stand:
    """How far the job is: batches that the world has drawn, and the state of each lane that has been drawn from."""

    drawn: int
    states: dict[int, State]


class Training:
    """The stream of one rank. Lanes are opened when their turn comes first."""

    def __init__(self, dataset: TrainDataset, state: Any = None, *, strict: bool = False) -> None:
        self._workers = workers = dataset.worker_config
        self._rank, self._world = workers.rank, workers.world_size
        self.stats = Stats()
        saved = None if state is None else for_rank(state, self._rank, self._world, "training")
        self._source = open_source(dataset, None if saved is None else saved["generation"])
        sizes = _sizes(dataset, self._source, None if saved is None else saved["plan"]["order"])
        order = Shuffled(
            n=self._source.n,
            lanes=sizes.lanes,
            slice_samples=sizes.slice_samples,
            window_samples=sizes.window_samples,
            seed=derive("order", dataset.seed, workers.seed_offset),
            shuffle=dataset.shuffle,
        )
        self.plan = Plan(_order_facts(dataset, self._source, sizes), recipe(dataset, self._source))
        self._plan_state = self.plan.to_state()
        batch = batch_stage(dataset, self._source.memories, self.stats)
        self._pipeline = Pipeline(
            source=SourceStage(self._source, order),
            load=LoadStage(self.stats),
            encode=encode_stage(dataset, self._source.n, self.stats),
            batch=batch,
            bulk=bulk_stage(dataset, self._source, batch),
        )
        self._cursors: dict[int, tuple[LaneCursor, State]] = {}  # with the state that each is at
        self._stand = Stand(0, {})
        self._geometry = start(sizes.lanes)
        if saved is not None:
            self.plan.check(saved["plan"], strict=strict)
            self._restore(saved)
        if len(self._geometry.lanes) % self._world:
            self._split()
        self._begun = self._stand.drawn
        self._turns = turns(self._geometry, self._begun, self._rank, self._world)
        mine = {lane: state for lane, state in self._stand.states.items() if lane in self._turns}
        self._stand = self._ahead = Stand(self._begun, mine)
        self._fresh = self._pipeline.open(Lane(0, 0, 1)).state_dict()

    def draw(self) -> Any:
        """The rank's next batch, the same one until it is accepted: an error or an interrupt loses nothing."""
        drawn, states = self._stand.drawn, self._stand.states
        lane = self._turns[(drawn - self._begun) // self._world % len(self._turns)]
        # Taken out until the batch is there: a cursor that was stopped half way is opened again from its state, and so
        # is one that is ahead of it, because its batch was never accepted.
        cursor, state = self._cursors.pop(lane, (None, None))
        if cursor is None or state is not states.get(lane):
            cursor = self._opened(lane)
        with self.stats.as_before_if_it_fails():
            batch = cursor.draw(drawn + self._rank)
        state = cursor.state_dict()
        self._cursors[lane] = cursor, state
        self._ahead = Stand(drawn + self._world, {**states, lane: state})
        return batch

    def accept(self) -> None:
        """The batch that was drawn last is handed out. One assignment: interrupts come before it or after it."""
        self._stand = self._ahead

    def state_dict(self) -> State:
        """Where the rank stands, after the batch that was accepted last. About 50 us; nothing is asked of anybody."""
        return rank_state(
            self._workers,
            self._plan_state,
            self._source.offsets.generation,
            drawn=self._stand.drawn,
            passes=None,
            geometry=self._geometry,
            cursors={lane: self._stand.states.get(lane, self._fresh) for lane in sorted(self._turns)},
        )

    def close(self) -> None:
        self._source.close()

    def _opened(self, lane: int) -> LaneCursor:
        cursor = self._pipeline.open(self._geometry.lanes[lane])
        if lane in self._stand.states:
            cursor.load_state_dict(self._stand.states[lane])
        return cursor

    def _restore(self, saved: State) -> None:
        self._geometry = Geometry(saved["base"], tuple(Lane(*lane) for lane in saved["lanes"]))
        # A copy: the caller may keep, change or share what it gave.
        cursors: dict[str, State] = json.loads(json.dumps(saved["cursors"]))
        self._stand = Stand(saved["drawn"], {int(lane): cursor for lane, cursor in cursors.items()})

    def _split(self) -> None:
        """More lanes, where this number of ranks does not divide the lanes there are. Needs the state of every lane."""
        fresh = self._pipeline.open(Lane(0, 0, 1)).state_dict()
        drawn = self._stand.drawn
        states = [self._stand.states.get(i, fresh) for i in range(len(self._geometry.lanes))]
        made = split(self._geometry, [position_of(state) for state in states], drawn, self._world)
        children = {
            i: moved(states[made.parents[i]] if i < made.heirs else fresh, position)
            for i, position in enumerate(made.positions)
        }
        self._stand = Stand(drawn, children)
        self._geometry = made.geometry


def _sizes(dataset: TrainDataset, source: Source, saved: dict[str, Any] | None) -> Sizes:
    """Where the recipe says nothing, a resumed run goes on as it began, on whatever ranks and disks it runs now."""
    if saved is not None and dataset.lanes is None:
        lanes = saved["lanes"]
    else:
        lanes = dataset.lanes or LANES_A_RANK * dataset.worker_config.world_size
    if saved is not None and dataset.max_samples_per_sequence is None:
        wanted = saved["slice"]
    else:
        wanted = dataset.max_samples_per_sequence or (SLICE_REMOTE if is_remote(source.dataset_path) else SLICE_LOCAL)
    size = slice_size(source.n, lanes, wanted)
    window = max(dataset.shuffle_buffer_size or 1, dataset.parallel_shard_iters * size)
    return Sizes(lanes, size, window)


def _order_facts(dataset: TrainDataset, source: Source, sizes: Sizes) -> dict[str, Any]:
    return {
        "order_version": ORDER_VERSION,
        "split": dataset.split_part,
        "shards": source.selection.shards,
        "samples": source.n,
        "data": source.selection.digest(source.offsets),
        "seed": dataset.seed,
        "seed_offset": dataset.worker_config.seed_offset,
        "shuffle": dataset.shuffle,
        "lanes": sizes.lanes,
        "slice": sizes.slice_samples,
        "window": sizes.window_samples,
    }
