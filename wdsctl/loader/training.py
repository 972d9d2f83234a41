"""One rank of a stream of lanes under way: the batch that is next, and the state that travelled with the last."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

from wdsctl.loader.adopting import adopted, newest, next_pass
from wdsctl.loader.bans import bans_of, check_what_is_left
from wdsctl.loader.dataset import Dataset, TrainDataset, ValDataset, resumed
from wdsctl.loader.engine import Ahead, Engine, InProcess, check_due
from wdsctl.loader.failure_rates import FailureRates
from wdsctl.loader.lane_job import LaneJob
from wdsctl.loader.lane_work import Drawn, LaneWork, Task
from wdsctl.loader.order.geometry import Cut, Geometry, Lane, Turns, next_number, start, turns, turns_of_pass
from wdsctl.loader.recipes import lane_plan, pipeline_of
from wdsctl.loader.running import Running, check_lanes, pool_options, usable_workers
from wdsctl.loader.shapes import check_shape
from wdsctl.loader.stages.batches import END
from wdsctl.loader.stand import Stand, split_over
from wdsctl.loader.states import PASSED, State, end_of_pass, for_rank, rank_state
from wdsctl.loader.stats import Stats
from wdsctl.loader.streams import Streams, open_streams
from wdsctl.loader.travel import unpacked

Offered = tuple[Stand, tuple[Stand, Drawn | None] | None]


class Training:
    """The stream of one rank. Lanes are opened when their turn comes first.

    A finite one ends when all lanes of the rank have; a lane that has ended is passed over when its turn comes. A
    validation deals lanes whole, so that its batches are the same on any number of ranks.
    """

    # Where it stands, and the batch that was drawn and is not accepted: one assignment changes both.
    _at: Offered
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
        stand = Stand(0, start(self.streams.sizes.lanes), {}, Stats(), passes=passes)
        if saved is not None:
            stand = self._restored(saved, strict=strict, edits=edits)
            self._adopt(stand)
        check_what_is_left(self._bans, self.streams, stand.drawn)
        if isinstance(dataset, ValDataset):
            check_lanes(dataset, len(stand.geometry.lanes))
        self._begin(self._dealt(stand))

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
            self.accept(self._at)
        drawn = ahead[1]
        if drawn is None:
            self._rates.end_pass(self.streams.sources)
            raise StopIteration
        self._running.trace(self._task_of(self._turn(self._at[0])).number, drawn.origins, self.passes)
        return drawn.batch

    @property
    def offered(self) -> Offered:
        """What `accept` takes, after `draw`."""
        return self._at

    def accept(self, offered: Offered) -> bool:
        """The batch that was drawn is handed out; False where another loop has handed it out meanwhile. One
        assignment: interrupts, and other threads, come before it or after it."""
        if self._at is not offered:
            return False
        self._at = (offered[0] if offered[1] is None else offered[1][0], None)
        return True

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

    def batch_for_padding(self) -> Any:
        """The first batch of one of this rank's lanes in the present pass, made once more in this process and not
        counted; where it has none, of another rank's. None where no lane has a batch."""
        geometry = self._at[0].geometry
        work = LaneWork(self.pipeline, geometry, {})
        own = self._turns.taken
        for lane in sorted(range(len(geometry.lanes)), key=lambda lane: (lane not in own, lane)):
            batch = work.do(Task(lane, geometry.base + lane)).batch
            if batch is not END:
                return batch
        return None

    def pad(self) -> None:
        """This rank has had a turn and gave nothing of its own."""
        stand = self._at[0]
        self._at = (stand, (replace(stand, drawn=stand.drawn + self._world, given=stand.given + 1), None))

    @property
    def is_over(self) -> bool:
        """Whether a loop over the present pass has ended: the next one begins the next pass."""
        return self._at[0].is_over

    def end_loop(self) -> None:
        """A virtual epoch of an endless stream is over, and the next one begins; or a pass of a finite one is."""
        ended = {"given": 0} if self.is_endless else {"is_over": True}
        self._at = (replace(self._at[0], **ended), None)

    def begin_next(self) -> None:
        """Begin the next pass."""
        number = self.passes + 1
        self._engine.close()
        if self._newer is not None:
            self.streams.close()
        self._use(next_pass(self._dataset, self.streams, self._newer), number)
        self._newer = None
        stand = Stand(0, start(self.streams.sizes.lanes), {}, self._at[0].stats, passes=number)
        self._begin(self._dealt(stand))

    def state_dict(self) -> State:
        """Where the rank stands, after the batch that was accepted last. Nothing is asked of anybody."""
        stand = self._at[0]
        fresh = self._fresh or self._fresh_state()
        cursors = {lane: stand.states.get(lane, fresh) for lane in sorted(stand.turns)}
        if not self.is_endless:
            cursors = {lane: {**cursor, "turns": stand.turns[lane]} for lane, cursor in cursors.items()}
        return rank_state(
            self._workers,
            self._plan_state(),
            self.streams.generations,
            drawn=stand.drawn,
            passes=None if self.is_endless else stand.passes,
            # An epoch that is over has ended for whoever resumes, too.
            virtual=0 if self.is_at_virtual_end else stand.given,
            end=end_of_pass(is_over=stand.is_over, has_more=self.is_endless or self._has_more(stand)),
            base=stand.geometry.base,
            lanes=[[lane.root, [list(cut) for cut in lane.cuts]] for lane in stand.geometry.lanes],
            cursors=cursors,
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
            self._begin(self._at[0])

    def _use(self, streams: Streams, passes: int) -> None:
        self.streams = streams
        self.plan = lane_plan(self._dataset, streams)
        self.pipeline = pipeline_of(self._dataset, streams, self._bans, passes)

    def _dealt(self, stand: Stand) -> Stand:
        """More lanes, where a training has some that its ranks do not divide. A validation is to have the same batches
        on any ranks: its lanes stay as they are."""
        if len(stand.geometry.lanes) % self._world and not isinstance(self._dataset, ValDataset):
            number = stand.drawn if self.is_endless else next_number(stand.geometry, stand.turns)
            return split_over(self._world, stand, self._fresh_state(), number)
        return stand

    def _begin(self, stand: Stand) -> None:
        self._turns = self._turns_from(stand)
        mine = {lane: state for lane, state in stand.states.items() if lane in self._turns.taken}
        self._known = dict(mine)  # where each lane stands after the last of its batches that came
        self._engine: Engine = self._new_engine(stand.geometry)
        # Last: until then, an interrupted pass begins once more.
        self._at = (replace(stand, states=mine, turns=self._turns.taken), None)

    def _turns_from(self, stand: Stand) -> Turns:
        if self.is_endless:
            return turns(stand.geometry, stand.drawn, self._rank, self._world)
        return turns_of_pass(stand.geometry, stand.turns, self._rank, self._world)

    def _new_engine(self, geometry: Geometry) -> Engine:
        workers = usable_workers(self._workers, len(self._turns.lanes))
        if not workers:
            self._work = LaneWork(self.pipeline, geometry, self._known, traced=self._running.is_tracing)
            return InProcess(self._work, self._task_of)
        return self._running.later(partial(self._new_pool, workers, geometry))

    def _new_pool(self, workers: int, geometry: Geometry) -> Engine:
        job = LaneJob(self._dataset, self.streams, self.pipeline, geometry, self._running.is_tracing)
        turns = self._turns
        worker_of = {lane: i % workers for i, lane in enumerate(turns.lanes)}
        return Ahead(
            job,
            partial(self._resume, workers),
            self._task_of,
            lambda turn: worker_of[turns.at(turn).lane],
            self._note,
            workers=workers,
            depth=self._workers.prefetch_factor,
            last=None,
            arrived=self._arrived,
            options=pool_options(self._workers, self._running),
        )

    def _arrived(self, turn: int, drawn: Drawn) -> Drawn:
        check_due(drawn.task, self._task_of(turn))
        return drawn._replace(batch=unpacked(drawn.batch, self.streams.sources))

    def _resume(self, workers: int, worker: int) -> Any:
        """Where a worker's lanes stand, and how often it has begun."""
        mine = {lane for i, lane in enumerate(self._turns.lanes) if i % workers == worker}
        self._running.starts[worker] = starts = self._running.starts.get(worker, 0) + 1
        return {lane: state for lane, state in self._known.items() if lane in mine}, starts > 1

    def _note(self, turn: int, drawn: Drawn) -> None:
        self._known[self._turns.at(turn).lane] = drawn.state

    def _task_of(self, turn: int) -> Task:
        return Task(*self._turns.at(turn))

    def _turn(self, stand: Stand) -> int:
        """Turns that this rank's lanes have had since the engine began."""
        return sum(stand.turns.values()) - self._turns.before

    def _has_more(self, stand: Stand) -> bool:
        """Whether there may be another batch of a pass."""
        is_open = self._most is None or stand.given < self._most
        return is_open and len(stand.ended) < len(self._turns.lanes)

    def _drawn(self) -> tuple[Stand, Drawn | None]:
        """The next batch, and where the rank stands after it; no batch where all lanes have ended."""
        stand = self._at[0]
        if len(stand.ended) == len(self._turns.lanes):
            return stand, None
        turn = self._turn(stand)
        lane = self._turns.at(turn).lane
        if not self._workers.num_workers:
            self._work.stands(lane, stand.states.get(lane))
        drawn: Drawn = self._engine.draw(turn)
        is_end = drawn.batch is END
        ahead = Stand(
            drawn=stand.drawn + (0 if is_end else self._world),
            states={**stand.states, lane: drawn.state},
            stats=stand.stats.plus(drawn.stats),
            given=stand.given + (not is_end and self._counts),
            ended=stand.ended | {lane} if is_end else stand.ended,
            passes=stand.passes,
            turns={**stand.turns, lane: stand.turns[lane] + 1},
            geometry=stand.geometry,
        )
        return ahead, drawn

    def _plan_state(self) -> dict[str, Any]:
        return {**self.plan.to_state(), "shape": self.pipeline.shape}

    def _fresh_state(self) -> State:
        self._fresh = LaneWork(self.pipeline, start(1), {}).fresh()
        return self._fresh

    def _adopt(self, stand: Stand) -> None:
        """Go over to what the datasets have become, at the end of the epoch or pass."""
        dataset = self._dataset
        if not isinstance(dataset, TrainDataset) or dataset.adopt is None:
            return
        if self.is_endless:
            made = adopted(dataset, self.streams, self.pipeline.refs, stand.geometry, stand.states, stand.drawn)
            self._use(made, stand.passes)
        else:
            self._newer = newest(dataset, self.streams)

    def _restored(self, saved: State, *, strict: bool, edits: bool) -> Stand:
        known = self.plan if self.streams.known is None else lane_plan(self._dataset, self.streams.known)
        known.check(saved["plan"], strict=strict, adopted=edits)
        check_shape(saved["plan"]["shape"], self.pipeline.shape, saved["cursors"].values())
        lanes = tuple(Lane(root, tuple(Cut(*cut) for cut in cuts)) for root, cuts in saved["lanes"])
        # A copy: the caller may keep, change or share what it gave.
        cursors: dict[str, State] = json.loads(json.dumps(saved["cursors"]))
        states = {int(lane): cursor for lane, cursor in cursors.items()}
        return Stand(
            saved["drawn"],
            Geometry(saved["base"], lanes),
            states,
            Stats(),
            saved["virtual"] if self._counts else 0,
            passes=saved["pass"] or 0,
            turns={lane: cursor.pop("turns", 0) for lane, cursor in states.items()},
            is_over=saved.get("end") == PASSED,
        )
