"""What makes the batches of runs of finite passes: in this process, or in a worker. It knows runs, and no rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wdsctl.loader.arms import Arm, Ints
from wdsctl.loader.bans import Bans
from wdsctl.loader.dataset import Dataset
from wdsctl.loader.failure_rates import Tally
from wdsctl.loader.failures import Failures
from wdsctl.loader.lane_work import Drawn
from wdsctl.loader.order.eras import as_one_lane
from wdsctl.loader.order.geometry import Lane
from wdsctl.loader.order.lane_order import LaneOrder, Window
from wdsctl.loader.order.runs import Runs
from wdsctl.loader.order.shuffle import AS_THEY_LIE
from wdsctl.loader.pipeline import Pipeline
from wdsctl.loader.recipes import pipeline_of
from wdsctl.loader.source import Ref, RefRange
from wdsctl.loader.stages.batches import BatchCursor
from wdsctl.loader.stages.bulk import count_pieces, origins_of
from wdsctl.loader.stages.grouping import Rows, Straight
from wdsctl.loader.stages.samples import Banned
from wdsctl.loader.stats import Stats
from wdsctl.loader.streams import Streams, reopened
from wdsctl.loader.travel import Sending, packed
from wdsctl.loader.workers import Work, status

TOGETHER = 512  # samples whose references are made at once: some 40 us, and 2 us a sample


class Run(NamedTuple):
    """Run `number` of the pass that takes this epoch of the order. `bans`: how many entries of the bans are in force;
    None: all."""

    epoch: int
    number: int
    bans: int | None = None


class RunWork:
    """Makes the batches of runs. What it does for one run depends on no other."""

    def __init__(self, pipeline: Pipeline, runs: Runs, *, step: int, traced: bool, is_careful: bool) -> None:
        self.pipeline = pipeline
        self._refs = RunRefs(pipeline.refs.arms[0], runs, step)
        self._stats = Stats()
        self._tally = Tally()
        self._failures = Failures(
            pipeline.handler, self._stats, tally=self._tally, refuses_changed=pipeline.refuses_changed
        )
        self._is_banned = _judge(pipeline.bans)
        # A run that lost samples to its hooks is no short batch at the end of the pass: `Runs` drops that one.
        self._stage = pipeline.batch
        # After a death, every sample is told of before it is touched: the second death names it.
        self._telling = status if is_careful else None
        self._bulk = None if is_careful else pipeline.bulk
        self._traced = traced

    def do(self, run: Run) -> Drawn:
        """All batches of one run, in a list: mostly one."""
        self._tally.take()  # what an error or an interrupt has left
        before = self._stats.copy()
        self._refs.go_to(run._replace(bans=None))
        batch = None if self._bulk is None else self._bulk.batch(self._refs.pieces, self._stats)
        if batch is None:
            batches, origins = self._through_samples(run)
        else:
            batches, origins = [batch], origins_of(batch) if self._traced else []
            count_pieces(self._tally, self._refs.pieces)
        return Drawn(batches, None, self._stats.minus(before), origins, run, self._tally.take())

    def close(self) -> None:
        """It has nothing open."""

    def _through_samples(self, run: Run) -> tuple[list[Any], list[Any]]:
        made = self._opened(run)
        return made.draw_all(), made.origins() if self._traced else []

    def _opened(self, run: Run) -> BatchCursor:
        """Cursors of its own for every run: an error or an interrupt leaves them anywhere."""
        samples = self.pipeline.samples.open(self._refs, self._failures, self._stats)
        samples.is_banned, samples.telling = self._is_banned, self._telling
        if run.bans is not None:
            samples.is_banned = _judge(Bans(self.pipeline.bans.entries[: run.bans]))
        together: Any = (
            Straight(samples, self.pipeline.batch.size or 1, with_keys=self.pipeline.batch.needs_keys)
            if self.pipeline.is_plain
            else Rows(samples, 1 << 62, self._stats)
        )
        return self._stage.open(together, self._failures, self._stats)


class RunRefs:
    """The references of one run, as a finite stage.

    `step`: whoever asks does every so manieth run. The references of the next of these are made together.
    """

    def __init__(self, arm: Arm, runs: Runs, step: int) -> None:
        self._arm = arm
        self._runs = runs
        self._step = step
        self._made: dict[Run, list[RefRange]] = {}
        self._whole = LaneOrder(as_one_lane(arm.order), Lane(0))
        self._window: Window | None = None
        self._refs: list[Ref] | None = None
        self.pieces: list[RefRange] = []
        self.picks = 0

    def go_to(self, run: Run) -> None:
        """Go to the beginning of this run."""
        if run not in self._made:
            self._made = self._make(run)
        self.pieces, self._refs, self.picks = self._made[run], None, 0

    def at(self, pick: int) -> Ref:
        return self._listed()[pick]

    def seek(self, picks: int) -> None:
        self.picks = picks

    def take(self, count: int) -> list[Ref]:
        refs = self._listed()[self.picks : self.picks + count]
        self.picks += len(refs)
        return refs

    def _listed(self) -> list[Ref]:
        if self._refs is None:
            self._refs = [(source, block, i) for source, block, start, stop in self.pieces for i in range(start, stop)]
        return self._refs

    def _make(self, run: Run) -> dict[Run, list[RefRange]]:
        """The references of this run and the next ones."""
        last = run.number + self._step * max(1, TOGETHER // self._runs.size)
        runs = [Run(run.epoch, number) for number in range(run.number, min(last, self._runs.batches), self._step)]
        places = [self._places(each) for each in runs]
        positions, passes = (np.concatenate(column) for column in zip(*places, strict=True))
        made: dict[Run, list[RefRange]] = {}
        begin = 0
        together = self._arm.run(positions, passes) if self._arm.in_runs else None
        refs = self._arm.refs(positions, passes) if together is None else []
        for each, (mine, _) in zip(runs, places, strict=True):
            end = begin + len(mine)
            if together is not None:
                made[each] = [(*together, begin, end)]
            else:
                made[each] = [(source, block, i, i + 1) for source, block, i in refs[begin:end]]
            begin = end
        return made

    def _places(self, run: Run) -> tuple[Ints, Ints]:
        """The positions of a run, and the passes in which they come."""
        start, stop = self._runs.batch(run.number)
        order = self._arm.order
        if order.passes == AS_THEY_LIE:
            return np.arange(start, stop), np.full(stop - start, run.epoch)
        before = run.epoch * order.n * order.passes
        stretches = [*self._stretches(before + start, before + stop)]
        return np.concatenate([a for a, _ in stretches]), np.concatenate([b for _, b in stretches])

    def _stretches(self, start: int, stop: int) -> Iterator[tuple[Ints, Ints]]:
        """Places [start, stop) of the whole order, window by window."""
        while start < stop:
            window = self._window
            if window is None or not window.first <= start < window.first + len(window.positions):
                window = self._window = self._whole.window(start)
            rows = slice(start - window.first, stop - window.first)
            yield window.positions[rows], window.passes[rows]
            start = min(stop, window.first + len(window.positions))


@dataclass(frozen=True)
class RunJob:
    """Opens the work of a worker. A forked worker has everything; another one opens the datasets again.

    `step`: from a run that a worker does to the next one that it does.
    """

    dataset: Dataset
    streams: Streams
    pipeline: Pipeline
    runs: Runs
    step: int
    traced: bool

    def __call__(self, worker: int, is_careful: bool) -> Work:  # noqa: ARG002 - all workers do the same
        return Sending(self.here(is_careful=is_careful), _all_packed)

    def here(self, *, is_careful: bool = False) -> RunWork:
        """The work for this process itself."""
        return RunWork(self.pipeline, self.runs, step=self.step, traced=self.traced, is_careful=is_careful)

    def __reduce__(self) -> tuple[Any, ...]:
        streams = self.streams
        facts = (streams.generations, streams.order, streams.stores, self.pipeline.bans)
        return _reopened, (self.dataset, *facts, self.runs, self.step, self.traced)


def _judge(bans: Bans) -> Banned | None:
    """Runs have no history: what is banned is from their beginning."""
    return bans.judge(bans.history([], 0))


def _all_packed(batches: Sequence[Any]) -> list[Any]:
    return [packed(batch) for batch in batches]


def _reopened(
    dataset: Dataset,
    generations: list[int],
    order: dict[str, Any],
    stores: dict[str, int],
    bans: Bans,
    *how: Any,
) -> RunJob:
    streams = reopened(dataset, generations, order, stores)
    return RunJob(dataset, streams, pipeline_of(dataset, streams, bans), *how)
