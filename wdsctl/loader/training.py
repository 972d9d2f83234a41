"""One rank of a stream of lanes under way: the batch that is next, and the state that travelled with the last."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

from wdsctl.loader.adopting import adopted, newest, next_pass
from wdsctl.loader.bans import bans_of, check_what_is_left
from wdsctl.loader.dataset import Dataset, TrainDataset, resumed
from wdsctl.loader.engine import Ahead, Engine, InProcess
from wdsctl.loader.failure_rates import FailureRates
from wdsctl.loader.lane_job import LaneJob
from wdsctl.loader.lane_work import Drawn, LaneWork, Task
from wdsctl.loader.order.geometry import Cut, Geometry, Lane, start, turns
from wdsctl.loader.plan import Plan
from wdsctl.loader.recipes import pipeline_of, recipe, stores_digest
from wdsctl.loader.running import Running, pool_options, usable_workers
from wdsctl.loader.shapes import check_shape
from wdsctl.loader.stages.batches import END
from wdsctl.loader.stand import Stand, split_over
from wdsctl.loader.states import State, for_rank, rank_state
from wdsctl.loader.stats import Stats
from wdsctl.loader.streams import Streams, open_streams
from wdsctl.loader.travel import unpacked


class Training:
    """The stream of one rank. Lanes are opened when their turn comes first.

    A finite one ends when all lanes of the rank have; a lane that has ended is passed over when its turn comes.
    """

    # Where it stands, and the batch that was drawn and is not accepted: one assignment changes both.
    _at: tuple[Stand, tuple[Stand, Drawn | None] | None]
    _work: LaneWork

    def __init__(self, dataset: Dataset, state: Any = None, *, strict: bool = False, running: Running) -> None:
        self._dataset = dataset = resumed(dataset, is_resumed=state is not None)
        self._workers = workers = dataset.worker_config
        self._rank, self._world = workers.rank, workers.world_size
        self._running = running
        self.is_endless = isinstance(dataset, TrainDataset) and dataset.repeat
        kind: Any = "training" if self.is_endless else "validation"
        saved = None if state is None else for_rank(state, self._rank, self._world, kind)
        edits = isinstance(dataset, TrainDataset) and dataset.adopt_weights
        self._bans = bans_of(saved["bans"] if saved is not None else []).and_also(dataset.ban)
        passes = 0 if saved is None else saved["pass"] or 0
        self._use(open_streams(dataset, saved, edit_at=saved["drawn"] if saved is not None and edits else None), passes)
        self._newer: list[int] | None = None  # generations that the next pass goes over to
        self._most = getattr(dataset, "limit", None)
        self._length = dataset.virtual_epoch_length if isinstance(dataset, TrainDataset) else 0
        self._rates = FailureRates(running.max_failed_fraction)
        self._fresh: State = {}
        stand, geometry = Stand(0, {}, Stats(), passes=passes), start(self.streams.sizes.lanes)
        if saved is not None:
            stand, geometry = self._restored(saved, strict=strict, edits=edits)
            self._adopt(stand, geometry)
        check_what_is_left(self._bans, self.streams, stand.drawn)
        if len(geometry.lanes) % self._world:
            stand, geometry = split_over(self._world, stand, geometry, self._fresh_state())
        self._begin(stand, geometry)

    def draw(self) -> Any:
        """The rank's next batch, the same one until it is accepted: an error or an interrupt loses nothing.

        StopIteration at the end of a pass, until the next one is begun.
        """
        while True:
            ahead = self._at[1]
            if ahead is None:
                if self._most is not None and self.given >= self._most:
                    self._rates.end_pass(self.streams.sources)
                    raise StopIteration
                ahead = self._drawn()
                self._at = (self._at[0], ahead)
                if ahead[1] is not None:
                    self._rates.note(ahead[1].counts, self.streams.sources)
            if ahead[1] is None or ahead[1].batch is not END:
                break
            self.accept()
        drawn = ahead[1]
        if drawn is None:
            self._rates.end_pass(self.streams.sources)
            raise StopIteration
        self._running.trace(self._at[0].drawn + self._rank, drawn.origins, self.passes)
        return drawn.batch

    def accept(self) -> None:
        """The batch that was drawn last is handed out. One assignment: interrupts come before it or after it."""
        ahead = self._at[1]
        if ahead is not None:
            self._at = (ahead[0], None)

    @property
    def stats(self) -> Stats:
        return self._at[0].stats

    @property
    def passes(self) -> int:
        """The number of the present pass; 0 where there are none."""
        return self._at[0].passes

    @property
    def given(self) -> int:
        """Batches that were handed out in the present pass or virtual epoch; 0 where there is neither."""
        return self._at[0].given

    @property
    def is_even(self) -> bool:
        """Whether all ranks have equally many batches in a virtual epoch or a pass."""
        return self.is_endless or self._world == 1 or self._dataset.uneven != "keep"

    @property
    def _counts(self) -> bool:
        return not self.is_endless or bool(self._length)

    @property
    def is_at_virtual_end(self) -> bool:
        return bool(self._length) and self.given >= self._length

    def pad(self) -> None:
        """This rank has had a turn and gave nothing of its own."""
        stand = self._at[0]
        self._at = (replace(stand, drawn=stand.drawn + self._world, given=stand.given + 1), None)

    def begin_next(self) -> None:
        """Begin the next virtual epoch of an endless stream, or the next pass of a finite one."""
        if self.is_endless:
            self._at = (replace(self._at[0], given=0), None)
        else:
            self._begin_pass(self.passes + 1)

    def _begin_pass(self, number: int) -> None:
        self._engine.close()
        if self._newer is not None:
            self.streams.close()
        self._use(next_pass(self._dataset, self.streams, self._newer), number)
        self._newer = None
        stand, geometry = Stand(0, {}, self._at[0].stats, passes=number), start(self.streams.sizes.lanes)
        if len(geometry.lanes) % self._world:
            stand, geometry = split_over(self._world, stand, geometry, self._fresh_state())
        self._begin(stand, geometry)

    def state_dict(self) -> State:
        """Where the rank stands, after the batch that was accepted last. Nothing is asked of anybody."""
        stand = self._at[0]
        fresh = self._fresh or self._fresh_state()
        return rank_state(
            self._workers,
            self._plan_state(),
            self.streams.generations,
            drawn=stand.drawn,
            passes=None if self.is_endless else stand.passes,
            # An epoch that is over has ended for whoever resumes, too.
            virtual=0 if self.is_at_virtual_end else stand.given,
            base=self._geometry.base,
            lanes=[[lane.root, [list(cut) for cut in lane.cuts]] for lane in self._geometry.lanes],
            cursors={lane: stand.states.get(lane, fresh) for lane in sorted(set(self._turns))},
            bans=self._bans.to_state(),
        )

    def start(self) -> None:
        """Start the workers, where there are any."""
        self._engine.start()

    def close(self) -> None:
        """End the workers, and close the shards. The next batch begins again from where the rank stands."""
        try:
            self._engine.close()
            self.streams.close()
        finally:  # an interrupt while workers end leaves no closed engine behind
            self._begin(self._at[0], self._geometry)

    def _use(self, streams: Streams, passes: int) -> None:
        self.streams = streams
        self.plan = Plan(streams.order, recipe(self._dataset, streams), streams.names, stores_digest(streams))
        self.pipeline = pipeline_of(self._dataset, streams, self._bans, passes)

    def _begin(self, stand: Stand, geometry: Geometry) -> None:
        self._geometry = geometry
        self._begun = stand.drawn
        self._turns = turns(geometry, self._begun, self._rank, self._world)
        mine = {lane: state for lane, state in stand.states.items() if lane in self._turns}
        self._known = dict(mine)  # where each lane stands after the last of its batches that came
        self._engine: Engine = self._new_engine()
        self._at = (replace(stand, states=mine), None)  # last: until then, an interrupted pass begins once more

    def _new_engine(self) -> Engine:
        workers = usable_workers(self._workers, len(self._turns))
        if not workers:
            self._work = LaneWork(self.pipeline, self._geometry, self._known, traced=self._running.is_tracing)
            return InProcess(self._work, self._task_of)
        return self._running.later(partial(self._new_pool, workers))

    def _new_pool(self, workers: int) -> Engine:
        job = LaneJob(self._dataset, self.streams, self.pipeline, self._geometry, self._running.is_tracing)
        return Ahead(
            job,
            partial(self._resume, workers),
            self._task_of,
            lambda turn: turn % len(self._turns) % workers,
            self._note,
            workers=workers,
            depth=self._workers.prefetch_factor,
            last=None,
            arrived=self._arrived,
            options=pool_options(self._workers, self._running),
        )

    def _arrived(self, drawn: Drawn) -> Drawn:
        return drawn._replace(batch=unpacked(drawn.batch, self.streams.sources))

    def _resume(self, workers: int, worker: int) -> Any:
        """Where a worker's lanes stand, and how often it has begun."""
        mine = {lane for i, lane in enumerate(self._turns) if i % workers == worker}
        self._running.starts[worker] = starts = self._running.starts.get(worker, 0) + 1
        return {lane: state for lane, state in self._known.items() if lane in mine}, starts > 1

    def _note(self, turn: int, drawn: Drawn) -> None:
        self._known[self._turns[turn % len(self._turns)]] = drawn.state

    def _task_of(self, turn: int) -> Task:
        number = self._begun + turn * self._world + self._rank
        return Task(self._turns[turn % len(self._turns)], number)

    def _drawn(self) -> tuple[Stand, Drawn | None]:
        """The next batch, and where the rank stands after it; no batch where all lanes have ended."""
        stand = self._at[0]
        turn = (stand.drawn - self._begun) // self._world
        lane = self._turns[turn % len(self._turns)]
        if len(stand.ended) == len(self._turns):
            return stand, None
        if not self._workers.num_workers:
            self._work.stands(lane, stand.states.get(lane))
        drawn: Drawn = self._engine.draw(turn)
        is_end = drawn.batch is END
        ahead = Stand(
            drawn=stand.drawn + self._world,
            states={**stand.states, lane: drawn.state},
            stats=stand.stats.plus(drawn.stats),
            given=stand.given + (not is_end and self._counts),
            ended=stand.ended | {lane} if is_end else stand.ended,
            passes=stand.passes,
        )
        return ahead, drawn

    def _plan_state(self) -> dict[str, Any]:
        return {**self.plan.to_state(), "shape": self.pipeline.shape}

    def _fresh_state(self) -> State:
        self._fresh = LaneWork(self.pipeline, start(1), {}).fresh()
        return self._fresh

    def _adopt(self, stand: Stand, geometry: Geometry) -> None:
        """Go over to what the datasets have become, at the end of the epoch or pass."""
        dataset = self._dataset
        if not isinstance(dataset, TrainDataset) or dataset.adopt is None:
            return
        if self.is_endless:
            made = adopted(dataset, self.streams, self.pipeline.refs, geometry, stand.states, stand.drawn)
            self._use(made, stand.passes)
        else:
            self._newer = newest(dataset, self.streams)

    def _restored(self, saved: State, *, strict: bool, edits: bool) -> tuple[Stand, Geometry]:
        self.plan.check(saved["plan"], strict=strict, adopted=edits)
        check_shape(saved["plan"]["shape"], self.pipeline.shape, saved["cursors"].values())
        lanes = tuple(Lane(root, tuple(Cut(*cut) for cut in cuts)) for root, cuts in saved["lanes"])
        # A copy: the caller may keep, change or share what it gave.
        cursors: dict[str, State] = json.loads(json.dumps(saved["cursors"]))
        states = {int(lane): cursor for lane, cursor in cursors.items()}
        given = saved["virtual"] if self._counts else 0
        stand = Stand(saved["drawn"], states, Stats(), given, passes=saved["pass"] or 0)
        return stand, Geometry(saved["base"], lanes)
