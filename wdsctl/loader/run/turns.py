"""The progress of a rank, and the protocol of its plan of turns: which turn is next, and the progress after a result.

A turn is one task: the next batch of a lane (`lane_turns`), or one range of positions of a pass (`range_turns`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from wdsctl.loader.pipeline.pipeline import Pipeline
from wdsctl.loader.plan.plan import LoaderPlan
from wdsctl.loader.resume.state import LoaderState
from wdsctl.loader.run.engine import TaskPlan
from wdsctl.loader.run.lane_runner import DrawnBatch
from wdsctl.loader.runtime.stats import Stats
from wdsctl.loader.workers.options import TaskRunnerFactory


@dataclass(frozen=True, slots=True)
class RankProgress:
    """The progress of a rank.

    `batches_drawn`: by the world, in the job or in the pass; a plan of ranges counts ranges. `position`: what else the
    plan of turns needs. `batches_handed_out`: in the current pass or virtual epoch; 0 if there is neither.
    `pass_number`: 0 if there are no passes. `is_over`: the loop over the pass has ended, so that the next one begins
    the next pass.
    """

    batches_drawn: int
    position: Any
    stats: Stats
    batches_handed_out: int = 0
    pass_number: int = 0
    is_over: bool = False


class TurnPlan(TaskPlan, Protocol):
    """The turns of one rank, counted from 0 since the last `begin`."""

    #: The plan that determines the order, for states; and the recipe of every batch.
    loader_plan: LoaderPlan
    pipeline: Pipeline
    #: Worker processes that the rank can use, known from `begin` on; 0: it draws in its own process.
    worker_count: int
    #: The number of turns of a pass, if known; None: endless, or lanes decide.
    expected_turns: int | None
    #: Whether the number of batches of a pass is known before it begins, and passes are independent.
    has_fixed_length: bool

    def first_progress(self, pass_number: int, stats: Stats) -> RankProgress:
        """The progress at the beginning of a pass."""

    def restore_progress(self, saved: LoaderState, *, strict: bool) -> RankProgress:
        """The progress of a state. Raises StateMismatch for a state of another plan."""

    def check_ranks(self, progress: RankProgress) -> None:
        """Raise LoaderError WDS545 if some ranks have no batch of a pass and uneven="drop" would drop all others."""

    def use_worker(self) -> None:
        """Run tasks in one worker process from the next `begin` on, although none was requested."""

    def begin(self, progress: RankProgress) -> RankProgress:
        """Count turns from here; returns the progress with which they begin."""

    def runner_factory(self) -> TaskRunnerFactory:
        """Opens the runner of a worker."""

    def next_turn(self, progress: RankProgress) -> int | None:
        """The next turn; None if this rank has no more of the pass."""

    def run_task(self, task: Any, progress: RankProgress) -> DrawnBatch:
        """Run a task in this process."""

    def advance(self, progress: RankProgress, result: DrawnBatch) -> tuple[RankProgress, Any]:
        """The progress after the next batch of a result, and that batch; END if the result has none."""

    def is_under_way(self, progress: RankProgress, task: Any) -> bool:
        """Whether some batches of this task were handed out, so that its failures have been counted."""

    def has_more(self, progress: RankProgress, rank: int) -> bool:
        """Whether this rank of the world may have another turn in the pass."""

    def ends_on_all_ranks(self, progress: RankProgress) -> bool:
        """Whether no rank has a batch left in the pass, if this rank has none and all ranks draw in step. False if this
        rank cannot know."""

    def pass_length(self, rank: int) -> int:
        """Turns of a rank in a whole pass. Raises TypeError if lanes decide."""

    def make_padding_batch(self, progress: RankProgress) -> Any:
        """Make a batch of the current pass again in this process, of this rank if it has one, without counting it; None
        if no turn of the pass makes one."""

    def state_fields(self, progress: RankProgress) -> Mapping[str, Any]:
        """The arguments of `build_rank_state` that this plan knows: `plan`, `first_batch`, `lanes`, `lane_states`."""


def share_of_stats(stats: Stats, index: int, batches: int, batch_samples: int = 0) -> Stats:
    """The counts of a turn that belong to its batch number `index`, of `batches`. A batch counts when it is handed out,
    with its `batch_samples` if every batch of the turn has as many. Everything else counts with the first batch."""
    if index:
        return Stats(batches=1, samples=batch_samples)
    later = max(0, batches - 1)
    return (
        replace(stats, batches=stats.batches - later, samples=stats.samples - later * batch_samples) if later else stats
    )
