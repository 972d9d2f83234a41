"""Turns of lanes: of endless trainings, and of finite passes that pack or group.

A lane is opened at its first turn. A pass ends when all lanes of the rank have ended; turns of ended lanes are skipped.
A validation assigns whole lanes to ranks, so that its batches are the same on any number of ranks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import isgeneratorfunction
from typing import Any

from wdsctl.core.errors import StateMismatch
from wdsctl.core.lanes import fits_ranks
from wdsctl.loader.lanes.rank_lanes import (
    UNKNOWN_LANE,
    Lane,
    LaneLayout,
    LaneSplit,
    RankTurns,
    new_layout,
    next_batch_number,
    pass_turns,
    rank_turns,
    split_lanes,
)
from wdsctl.loader.pipeline.batches import END
from wdsctl.loader.pipeline.state_layout import check_lane_states, check_state_layout
from wdsctl.loader.plan.bans import Bans
from wdsctl.loader.plan.open_blend import OpenBlend
from wdsctl.loader.plan.plan import LoaderPlan
from wdsctl.loader.recipe.dataset import BaseDataset, TrainDataset, ValDataset
from wdsctl.loader.resume.state import END_PASSED, LoaderState
from wdsctl.loader.run.build import build_lane_plan, build_pipeline
from wdsctl.loader.run.cached_units import bind_shard_cache, record_lanes
from wdsctl.loader.run.engine import check_lane_count, check_result_task, count_usable_workers
from wdsctl.loader.run.lane_runner import DrawnBatch, LaneRunner, LaneRunnerFactory, LaneTask
from wdsctl.loader.run.transport import expand_batch
from wdsctl.loader.run.turns import RankProgress, share_of_stats
from wdsctl.loader.runtime.logs import logger
from wdsctl.loader.runtime.stats import Stats


@dataclass(frozen=True, slots=True)
class LanePosition:
    """The lanes of the job: the state of each that has been drawn from, the turns that each has had in this layout, and
    the lanes that have ended.

    `batches_per_turn`: more than one in a job that was resumed with a smaller batch size. `handed_out`: of the lanes
    whose turn is under way, the batches of it that were handed out; their states are those before the turn.
    """

    layout: LaneLayout
    states: Mapping[int, LoaderState]
    turns: Mapping[int, int]
    ended: frozenset[int] = frozenset()
    batches_per_turn: int = 1
    handed_out: Mapping[int, int] = field(default_factory=dict)


class LaneTurns:
    """The turns of one rank's lanes: see `wdsctl.loader.run.turns.TurnPlan`."""

    has_fixed_length = False
    expected_turns: int | None = None

    _turns: RankTurns
    _turns_before: int  # turns that the rank's lanes had had before turn 0
    _lane_states: dict[int, LoaderState]  # after the last batch of each lane that has arrived
    _runner: LaneRunner

    def __init__(
        self, dataset: BaseDataset, streams: OpenBlend, bans: Bans, *, pass_number: int, is_tracing: bool
    ) -> None:
        self._dataset = dataset
        self._streams = streams
        self._workers = dataset.worker_config
        self._is_tracing = is_tracing
        self._is_endless = isinstance(dataset, TrainDataset) and dataset.repeat
        self._counts_batches = not self._is_endless or bool(getattr(dataset, "virtual_epoch_length", 0))
        self.loader_plan = build_lane_plan(dataset, streams)
        self.pipeline = build_pipeline(dataset, streams, bans, pass_number)
        self._ban_count = len(bans.entries)
        self._batches_per_turn = 1
        self.worker_count = 0
        self._worker_of: dict[int, int] = {}

    def first_progress(self, pass_number: int, stats: Stats) -> RankProgress:
        position = LanePosition(new_layout(self._streams.sizes.lanes), {}, {})
        return RankProgress(0, position, stats, pass_number=pass_number)

    def restore_progress(self, saved: LoaderState, *, strict: bool) -> RankProgress:
        dataset, streams = self._dataset, self._streams
        known = self.loader_plan if streams.known_to_state is None else build_lane_plan(dataset, streams.known_to_state)
        adopts_weights = isinstance(dataset, TrainDataset) and dataset.adopt_weights
        batches_per_turn = self._count_batches_per_turn(known, saved["plan"])
        known = known.with_batch_size(dataset.batch_size, batches_per_turn)
        known.check(saved["plan"], strict=strict, adopts_weights=adopts_weights)
        check_lane_states(saved, len(streams.mixtures))
        check_state_layout(saved["plan"]["stages"], self.pipeline.state_layout, saved["cursors"].values())
        # A copy: the caller may keep, change or share its state.
        cursors: dict[str, LoaderState] = json.loads(json.dumps(saved["cursors"]))
        states = {int(lane): cursor for lane, cursor in cursors.items()}
        origins = {lane: cursor.pop("origin", [lane, []]) for lane, cursor in states.items()}
        turns = {lane: cursor.pop("turns", 0) for lane, cursor in states.items()}
        samples = {lane: cursor.pop("handed_out") for lane, cursor in states.items() if "handed_out" in cursor}
        position = LanePosition(
            LaneLayout(saved["first_batch"], _restore_lanes(saved["lanes"], origins)),
            states,
            turns,
            batches_per_turn=batches_per_turn,
            handed_out=self._batches_of(samples, batches_per_turn, has_new_bans=len(saved["bans"]) < self._ban_count),
        )
        return RankProgress(
            saved["batches_drawn"],
            position,
            Stats(),
            saved["batches_handed_out"] if self._counts_batches else 0,
            pass_number=saved["pass"] or 0,
            is_over=saved["end"] == END_PASSED,
        )

    def check_ranks(self, progress: RankProgress) -> None:
        if isinstance(self._dataset, ValDataset):
            check_lane_count(self._dataset, len(progress.position.layout.lanes))

    def use_worker(self) -> None:
        self._workers = replace(self._workers, num_workers=1)

    def begin(self, progress: RankProgress) -> RankProgress:
        """Split lanes first, if this training has lanes that its ranks do not divide."""
        position = self._split_lanes(progress)
        workers = self._workers
        self._batches_per_turn = position.batches_per_turn
        self.loader_plan = self.loader_plan.with_batch_size(self._dataset.batch_size, self._batches_per_turn)
        self._turns = turns = (
            rank_turns(position.layout, progress.batches_drawn, workers.rank, workers.world_size)
            if self._is_endless
            else pass_turns(position.layout, position.turns, workers.rank, workers.world_size)
        )
        self._turns_before = turns.taken_before
        states = {lane: state for lane, state in position.states.items() if lane in turns.taken}
        if self._is_endless:
            cache = bind_shard_cache(self._dataset, self._streams)
            if cache is not None:
                lanes = [(position.layout.lanes[lane], states.get(lane, {})) for lane in turns.lanes]
                record_lanes(cache, self._streams, self.pipeline.refs, workers.rank, lanes)
        self._lane_states = dict(states)
        self.worker_count = count_usable_workers(workers, len(turns.lanes))
        if self.worker_count:
            self._worker_of = {lane: i % self.worker_count for i, lane in enumerate(turns.lanes)}
        else:
            self._runner = LaneRunner(
                self.pipeline,
                position.layout,
                states,
                lanes=turns.lanes,
                batches_per_turn=self._batches_per_turn,
                is_tracing=self._is_tracing,
            )
        self._layout = position.layout
        handed_out = {lane: count for lane, count in position.handed_out.items() if lane in turns.taken}
        return replace(progress, position=replace(position, states=states, turns=turns.taken, handed_out=handed_out))

    def runner_factory(self) -> LaneRunnerFactory:
        lanes_by_worker: dict[int, list[int]] = {}
        for lane, worker in self._worker_of.items():
            lanes_by_worker.setdefault(worker, []).append(lane)
        return LaneRunnerFactory(
            self._dataset,
            self._streams,
            self.pipeline,
            self._layout,
            lanes_by_worker,
            self._batches_per_turn,
            self._is_tracing,
        )

    def next_turn(self, progress: RankProgress) -> int | None:
        position: LanePosition = progress.position
        if len(position.ended) == len(self._turns.lanes):
            return None
        return sum(position.turns.values()) - self._turns_before

    def task_at(self, turn: int) -> LaneTask:
        lane, number = self._turns.at(turn)
        workers = self._workers
        # An endless job may change its ranks: then only the numbers of its batches still grow.
        index = (number - workers.rank) // workers.world_size if self._is_endless else self._turns_before + turn
        return LaneTask(lane, number, index * self._batches_per_turn)

    def run_task(self, task: LaneTask, progress: RankProgress) -> DrawnBatch:
        self._runner.set_lane_state(task.lane, progress.position.states.get(task.lane))
        return self._runner.run_task(task)

    def worker_of(self, task: LaneTask) -> int:
        return self._worker_of[task.lane]

    def resume_state_of(self, worker: int) -> dict[int, LoaderState]:
        """The states of the worker's lanes."""
        return {lane: state for lane, state in self._lane_states.items() if self._worker_of[lane] == worker}

    def expand_result(self, result: DrawnBatch, task: LaneTask) -> DrawnBatch:
        check_result_task(result.task, task)
        sources = self._streams.sources
        if self._batches_per_turn > 1:
            return result._replace(batch=[expand_batch(batch, sources) for batch in result.batch])
        return result._replace(batch=expand_batch(result.batch, sources))

    def record_result(self, result: DrawnBatch) -> None:
        self._lane_states[result.task.lane] = result.state

    def advance(self, progress: RankProgress, result: DrawnBatch) -> tuple[RankProgress, Any]:
        position, lane = progress.position, result.task.lane
        handed_out = position.handed_out.get(lane, 0)
        batch = result.batch if self._batches_per_turn == 1 else result.batch[handed_out]
        is_end = batch is END
        stats = progress.stats.plus(
            share_of_stats(result.stats, handed_out, self._batches_per_turn, self._dataset.batch_size or 1)
        )
        batches_handed_out = progress.batches_handed_out + (not is_end and self._counts_batches)
        if handed_out + 1 < self._batches_per_turn:
            under_way = replace(position, handed_out={**position.handed_out, lane: handed_out + 1})
            return replace(progress, position=under_way, stats=stats, batches_handed_out=batches_handed_out), batch
        after = RankProgress(
            progress.batches_drawn + (0 if is_end else self._workers.world_size),
            replace(
                position,
                states={**position.states, lane: result.state},
                turns={**position.turns, lane: position.turns[lane] + 1},
                ended=position.ended | {lane} if is_end else position.ended,
                handed_out={other: count for other, count in position.handed_out.items() if other != lane},
            ),
            stats,
            batches_handed_out,
            progress.pass_number,
        )
        return after, batch

    def is_under_way(self, progress: RankProgress, task: LaneTask) -> bool:
        return task.lane in progress.position.handed_out

    def has_more(self, progress: RankProgress, rank: int) -> bool:  # noqa: ARG002 - only this rank's lanes are known
        return self.next_turn(progress) is not None

    def ends_on_all_ranks(self, progress: RankProgress) -> bool:  # noqa: ARG002 - other ranks' lanes are unknown
        return self._is_endless or self._workers.world_size == 1 or self._dataset.uneven != "keep"

    def pass_length(self, rank: int) -> int:  # noqa: ARG002 - no rank has a known length
        raise TypeError("the length is unknown: the number of batches depends on packing and grouping")

    def make_padding_batch(self, progress: RankProgress) -> Any:
        """The first batch of one of this rank's lanes; if it has none, of another rank's."""
        layout = progress.position.layout
        runner = LaneRunner(self.pipeline, layout, {})
        own = self._turns.taken
        for lane in sorted(range(len(layout.lanes)), key=lambda lane: (lane not in own, lane)):
            if layout.lanes[lane] == UNKNOWN_LANE:
                continue
            batch = runner.run_task(LaneTask(lane, layout.first_batch + lane)).batch
            if batch is not END:
                return batch
        return None

    def state_fields(self, progress: RankProgress) -> dict[str, Any]:
        position = progress.position
        initial = self._initial_lane_state() if len(position.states) < len(position.turns) else {}
        states = {lane: position.states.get(lane, initial) for lane in sorted(position.turns)}
        states = {lane: {**state, "turns": position.turns[lane]} for lane, state in states.items()}
        lanes = position.layout.lanes
        for lane in states:
            if lanes[lane].splits:
                states[lane] = {**states[lane], "origin": [lanes[lane].root, [*map(list, lanes[lane].splits)]]}
        for lane, batches in position.handed_out.items():
            states[lane] = {**states[lane], "handed_out": batches * (self._dataset.batch_size or 1)}
        return {
            "plan": {**self.loader_plan.to_state(), "stages": self.pipeline.state_layout},
            "first_batch": position.layout.first_batch,
            "lanes": len(lanes),
            "lane_states": states,
        }

    def _count_batches_per_turn(self, plan: LoaderPlan, saved: Mapping[str, Any]) -> int:
        """How many batches replace one of the saved job, if a smaller batch size is the only difference; else 1."""
        encoder, size = self._dataset.task_encoder, self._dataset.batch_size
        if not self._is_endless or size is None or self.pipeline.group is not None:
            return 1
        if isgeneratorfunction(encoder.batch) or isgeneratorfunction(encoder.encode_batch):
            return 1
        count = plan.count_smaller_batches(size, saved)
        if count > 1:
            logger.info(
                "%d batches of %d samples replace each batch of %d of the saved job: the order of the samples, and "
                "global batches, stay the same",
                count,
                size,
                count * size,
            )
        return count

    def _batches_of(self, samples: Mapping[int, int], batches_per_turn: int, *, has_new_bans: bool) -> dict[int, int]:
        """The batches that were handed out of turns under way, by lane. Raises StateMismatch if they cannot be
        finished: with other samples, the rest of the turn would repeat or miss some."""
        if not samples:
            return {}
        size, dataset = self._dataset.batch_size or 1, self._dataset
        if any(count % size or count >= size * batches_per_turn for count in samples.values()):
            raise _within_turn_error(f"batch_size={size}, or other hooks")
        if has_new_bans:
            raise _within_turn_error("new bans")
        if isinstance(dataset, TrainDataset) and (dataset.adopt_weights or dataset.adopt is not None):
            raise _within_turn_error("adopt or adopt_weights")
        return {lane: count // size for lane, count in samples.items()}

    def _initial_lane_state(self) -> LoaderState:
        return LaneRunner(self.pipeline, new_layout(1), {}).initial_lane_state()

    def _split_lanes(self, progress: RankProgress) -> LanePosition:
        """The position with more lanes, if the ranks do not divide the lanes of a training. The lanes of a validation
        stay as they are, so that it has the same batches on any ranks."""
        position: LanePosition = progress.position
        world = self._workers.world_size
        if fits_ranks(len(position.layout.lanes), world) or isinstance(self._dataset, ValDataset):
            return position
        if position.handed_out:
            raise _within_turn_error("another number of ranks, which splits its lanes")
        number = progress.batches_drawn if self._is_endless else next_batch_number(position.layout, position.turns)
        return split_lanes_over_ranks(world, position, self._initial_lane_state(), number)


def _restore_lanes(count: int, origins: Mapping[int, list[Any]]) -> tuple[Lane, ...]:
    """The lanes of a job. Once lanes have been split, a rank knows only its own."""
    known = {lane: Lane(root, tuple(LaneSplit(*split) for split in splits)) for lane, (root, splits) in origins.items()}
    if any(lane.splits for lane in known.values()):
        return tuple(known.get(lane, UNKNOWN_LANE) for lane in range(count))
    return tuple(map(Lane, range(count)))


def _within_turn_error(changed: str) -> StateMismatch:
    return StateMismatch(
        f"the state was saved within a batch that smaller ones replace, which cannot be finished with {changed}",
        hint="resume with the arguments and the ranks of the run that saved the state; save the next state after a "
        "whole global batch",
    )


def split_lanes_over_ranks(
    world: int, position: LanePosition, initial_state: LoaderState, batch_number: int
) -> LanePosition:
    """Split lanes so that `world` ranks divide them. Needs the state of every lane.

    `initial_state`: that of a lane that has not been drawn from. `batch_number`: of the batch that comes next.
    """
    states = [position.states.get(i, initial_state) for i in range(len(position.layout.lanes))]
    following = split_lanes(position.layout, [state["draws"] for state in states], batch_number, world)
    children = {i: states[following.parents[i]] for i in range(following.continuing)}
    for i in range(following.continuing, len(following.layout.lanes)):
        history = states[following.parents[i]]["weight_history"]
        children[i] = {**initial_state, "weight_history": [*history, [[history[-1][-1][0], 0]]]}
    return replace(position, layout=following.layout, states=children, turns={})
