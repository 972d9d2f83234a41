"""Finite passes by runs of positions: batch b of a pass is run b, on rank b mod world size, whatever the lanes.

That holds where every run makes one batch, or what hooks make of it: nothing packs and nothing groups. A place in a
pass is how many runs the world has drawn, so any number of ranks goes on from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from wdsctl.loader.adopting import newest, next_pass
from wdsctl.loader.bans import bans_of, check_what_is_left
from wdsctl.loader.dataset import Dataset, TrainDataset, resumed
from wdsctl.loader.engine import Ahead, Engine, InProcess, check_due
from wdsctl.loader.failure_rates import FailureRates
from wdsctl.loader.lane_work import Drawn
from wdsctl.loader.order.runs import Runs
from wdsctl.loader.plan import Plan
from wdsctl.loader.recipes import order_of_pass, pipeline_of, recipe, stores_digest
from wdsctl.loader.run_work import Run, RunJob, RunWork
from wdsctl.loader.running import Running, pool_options
from wdsctl.loader.states import PASSED, State, end_of_pass, for_rank, rank_state
from wdsctl.loader.stats import Stats
from wdsctl.loader.streams import Streams, open_streams
from wdsctl.loader.travel import unpacked


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a rank is: the pass, how many runs the world has drawn of it, and of runs that are not drawn to their end
    (by number) how many batches have left, and how many entries the bans had when the run was begun."""

    passes: int
    drawn: int
    given: Mapping[int, tuple[int, int]]
    stats: Stats
    batches: int = 0  # that this rank has given in this pass
    is_over: bool = False  # the loop over it has ended, so that the next one begins the next pass


Offered = tuple[Stand, Stand | None]


class Passes:
    """The passes of one rank."""

    is_endless = False

    # Where it stands, and where it will stand once the batch that was drawn is accepted: one assignment changes both.
    _at: Offered
    _begun: int
    _engine: Engine

    def __init__(self, dataset: Dataset, state: Any = None, *, strict: bool = False, running: Running) -> None:
        self._dataset = dataset = resumed(dataset, is_resumed=state is not None)
        self._workers = workers = dataset.worker_config
        self._rank, self._world = workers.rank, workers.world_size
        self._running = running
        saved = None if state is None else for_rank(state, self._rank, self._world, "validation")
        self._bans = bans_of(saved["bans"] if saved is not None else []).and_also(dataset.ban)
        self._use(open_streams(dataset, saved))
        check_what_is_left(self._bans, self.streams, 0)
        self._newer: list[int] | None = None  # generations that the next pass goes over to
        self._most = getattr(dataset, "limit", None)
        self._rates = FailureRates(running.max_failed_fraction)
        self._noted = (-1, -1)  # the pass and the run whose counts were added last
        stand = Stand(0, 0, {}, Stats())
        if saved is not None:
            self.plan.check(saved["plan"], strict=strict)
            bans = len(saved["bans"])
            given = {int(number): (run["given"], run.get("bans", bans)) for number, run in saved["cursors"].items()}
            is_over = saved.get("end") == PASSED
            stand = Stand(saved["pass"], saved["drawn"], given, Stats(), saved["virtual"], is_over)
            if isinstance(dataset, TrainDataset) and dataset.adopt is not None:
                self._newer = newest(dataset, self.streams)
        self._begin(stand)

    def __len__(self) -> int:
        """Batches of this rank in one pass, where no hook leaves out all samples of one or makes several of one."""
        return self._turns_from(0)

    def draw(self) -> Any:
        """The rank's next batch; StopIteration at the end of the pass, until the next one is begun.

        The same batch until it is accepted: an error or an interrupt loses nothing.
        """
        while self.has_more:
            stand = self._at[0]
            number = stand.drawn + self._rank
            drawn: Drawn = self._engine.draw((stand.drawn - self._begun) // self._world)
            given, bans = stand.given.get(number, (0, len(self._bans.entries)))
            later = {other: count for other, count in stand.given.items() if other > number}
            counted = stand.stats.plus(drawn.stats) if given == 0 else stand.stats
            has_more = given + 1 < len(drawn.batch)
            ahead = Stand(
                stand.passes,
                stand.drawn + (0 if has_more else self._world),
                {**later, number: (given + 1, bans)} if has_more else later,
                counted,
                stand.batches + (given < len(drawn.batch)),
            )
            self._at = (stand, ahead)
            if self._noted != (stand.passes, number):
                self._noted = (stand.passes, number)
                self._rates.note(drawn.counts, self.streams.sources)
            if given < len(drawn.batch):
                self._running.trace(number, drawn.origins, stand.passes)
                return drawn.batch[given]
            self.accept(self._at)
        self._rates.end_pass(self.streams.sources)
        raise StopIteration

    @property
    def offered(self) -> Offered:
        """What `accept` takes, after `draw`."""
        return self._at

    def accept(self, offered: Offered) -> bool:
        """The batch that was drawn is handed out; False where another loop has handed it out meanwhile. One
        assignment: interrupts, and other threads, come before it or after it."""
        if self._at is not offered:
            return False
        self._at = (offered[1] or offered[0], None)
        return True

    @property
    def passes(self) -> int:
        """The number of the present pass."""
        return self._at[0].passes

    @property
    def given(self) -> int:
        """Batches that this rank has handed out in the present pass."""
        return self._at[0].batches

    @property
    def is_even(self) -> bool:
        """Whether all ranks have equally many batches left in this pass, of which some may have come on other ranks."""
        stand = self._at[0]
        least, more = divmod(self._runs.batches - stand.drawn, self._world)
        is_cut = self._most is not None and self._most - stand.batches <= least
        return not more or is_cut or self._dataset.uneven != "keep"

    @property
    def has_more(self) -> bool:
        """Whether this rank has another run in this pass."""
        return self._is_open and self._at[0].drawn + self._rank < self._runs.batches

    @property
    def any_has_more(self) -> bool:
        """Whether any rank has, in the round that is next."""
        return self._is_open and self._at[0].drawn < self._runs.batches

    @property
    def all_have_more(self) -> bool:
        return self._is_open and self._at[0].drawn + self._world <= self._runs.batches

    @property
    def _is_open(self) -> bool:
        return self._most is None or self._at[0].batches < self._most

    def even_length(self, *, pads: bool) -> int:
        """Batches of every rank, where all are to have equally many."""
        runs = -(-self._runs.batches // self._world) if pads else self._runs.batches // self._world
        return runs if self._most is None else min(runs, self._most)

    def batch_for_padding(self) -> Any:
        """The last batch that this rank has in the present pass, made once more in this process and not counted; where
        it has none, that of another rank. None where no run of the pass makes a batch."""
        stand = self._at[0]
        own = range((stand.drawn + self._rank) % self._world, self._runs.batches, self._world)
        work = RunWork(self.pipeline, self._runs, step=self._world, traced=False, is_careful=False)
        epoch = order_of_pass(self._dataset, stand.passes)
        for number in (*reversed(own), *range(self._runs.batches)):
            batches = work.do(Run(epoch, number)).batch
            if batches:
                return batches[-1]
        return None

    def pad(self) -> None:
        """This rank has had a turn and gave nothing of its own."""
        stand = self._at[0]
        self._at = (stand, replace(stand, drawn=stand.drawn + self._world, batches=stand.batches + 1))

    @property
    def is_at_virtual_end(self) -> bool:
        """There are no virtual epochs in passes."""
        return False

    @property
    def is_over(self) -> bool:
        """Whether a loop over the present pass has ended: the next one begins the next pass."""
        return self._at[0].is_over

    def end_loop(self) -> None:
        """The present pass is over."""
        self._at = (replace(self._at[0], is_over=True), None)

    def begin_next(self) -> None:
        """Begin the next pass."""
        stand = Stand(self.passes + 1, 0, {}, self._at[0].stats)
        if self._newer is not None:
            self._engine.close()
            self.streams.close()
            self._use(next_pass(self._dataset, self.streams, self._newer))
            self._newer = None
            self._begin(stand)
            return
        if self._workers.persistent_workers and self._engine.again(self._turns_from(0)):
            self._begun = 0
            self._at = (stand, None)
            return
        self._engine.close()
        self._begin(stand)

    @property
    def stats(self) -> Stats:
        return self._at[0].stats

    def state_dict(self) -> State:
        stand = self._at[0]
        return rank_state(
            self._workers,
            {**self.plan.to_state(), "shape": []},
            self.streams.generations,
            drawn=stand.drawn,
            passes=stand.passes,
            virtual=stand.batches,
            end=end_of_pass(is_over=stand.is_over, has_more=self.has_more),
            base=0,
            lanes=[],
            cursors={number: {"given": given, "bans": bans} for number, (given, bans) in stand.given.items()},
            bans=self._bans.to_state(),
        )

    def start(self) -> None:
        """Start the workers, where there are any."""
        self._engine.start()

    def close(self) -> None:
        try:
            self._engine.close()
            self.streams.close()
        finally:  # an interrupt while workers end leaves no closed engine behind
            self._begin(self._at[0])

    def _use(self, streams: Streams) -> None:
        dataset = self._dataset
        self.streams = streams
        order = streams.arms[0].order
        # Passes that are shuffled together are one.
        self._runs = Runs(order.n * max(1, order.passes), dataset.batch_size or 1, dataset.batch_drop_last)
        # A batch is no matter of taste here: it is what a place in the pass counts.
        facts = {**streams.order, "batch_size": dataset.batch_size, "drop_last": dataset.batch_drop_last}
        self.plan = Plan(facts, recipe(dataset, streams), streams.names, stores_digest(streams))
        self.pipeline = pipeline_of(dataset, streams, self._bans)

    def _begin(self, stand: Stand) -> None:
        self._begun = stand.drawn
        workers = self._workers.num_workers
        step = self._world * max(1, workers)
        job = RunJob(self._dataset, self.streams, self.pipeline, self._runs, step, self._running.is_tracing)
        self._engine = (
            self._running.later(partial(self._new_pool, job, workers))
            if workers
            else _Remembered(InProcess(job.here(), self._task_of))
        )
        self._at = (stand, None)  # last: until then, an interrupted pass begins once more

    def _new_pool(self, job: RunJob, workers: int) -> Engine:
        return Ahead(
            job,
            self._resume,
            self._task_of,
            lambda turn: turn % workers,
            _nothing_to_note,
            workers=workers,
            depth=self._workers.prefetch_factor,
            last=self._turns_from(self._begun),
            arrived=self._arrived,
            options=pool_options(self._workers, self._running),
        )

    def _arrived(self, turn: int, drawn: Drawn) -> Drawn:
        # How many bans a run was begun with is not its name: that is told as long as a part of it has not left.
        check_due(drawn.task[:2], self._task_of(turn)[:2])
        return drawn._replace(batch=[unpacked(batch, self.streams.sources) for batch in drawn.batch])

    def _turns_from(self, drawn: int) -> int:
        """How many runs are left for this rank when the world has drawn so many of a pass."""
        runs = max(0, -((drawn + self._rank - self._runs.batches) // self._world))
        return runs if self._most is None else min(runs, self._most)

    def _resume(self, worker: int) -> bool:
        self._running.starts[worker] = starts = self._running.starts.get(worker, 0) + 1
        return starts > 1

    def _task_of(self, turn: int) -> Run:
        stand = self._at[0]
        number = self._begun + turn * self._world + self._rank
        # A run of which a part has left is finished of the samples that it was begun with: others make other batches.
        _, bans = stand.given.get(number, (0, None))
        return Run(order_of_pass(self._dataset, stand.passes), number, bans)


def _nothing_to_note(turn: int, drawn: Drawn) -> None:
    """Runs do not depend on one another: a worker that begins again needs to know nothing."""


class _Remembered:
    """An engine that is asked for one turn several times, while what it made is handed out piece by piece."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._made: tuple[int, Any] = (-1, None)

    def draw(self, turn: int) -> Any:
        if self._made[0] != turn:
            self._made = turn, self._engine.draw(turn)
        return self._made[1]

    def start(self) -> None:
        self._engine.start()

    def again(self, last: int | None) -> bool:
        self._made = (-1, None)
        return self._engine.again(last)

    def close(self) -> None:
        self._engine.close()
