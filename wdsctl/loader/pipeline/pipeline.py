"""The stages of one lane, chained: order -> references -> samples -> packs -> groups -> batches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from wdsctl.core.checkpoint.addresses import pending_addresses
from wdsctl.core.errors import StateMismatch
from wdsctl.loader.lanes.rank_lanes import Lane
from wdsctl.loader.pipeline.batches import BatchCursor, BatchItemSource, BatchStage
from wdsctl.loader.pipeline.bulk import BulkStage, bulk_origins, count_ranges
from wdsctl.loader.pipeline.grouping import GroupStage, ItemBatches, PlainSampleBatches
from wdsctl.loader.pipeline.references import RefStage
from wdsctl.loader.pipeline.samples import SampleStage
from wdsctl.loader.pipeline.state_layout import layout_entry
from wdsctl.loader.plan.bans import Bans
from wdsctl.loader.reading.source import SplitSource, take_read_counts
from wdsctl.loader.runtime.failure_rates import FailureTally
from wdsctl.loader.runtime.failures import ChangedShardsMode, ErrorHandler, FailureTracker
from wdsctl.loader.runtime.stage import NO_OUTPUT, Cursor, Hook
from wdsctl.loader.runtime.stats import Stats

LaneState = dict[str, Any]


class PackCursorLike(Cursor, Protocol):
    #: The number of bans that apply. A pack that has begun is finished with the samples it began with.
    ban_count: int


class PackStageLike(Protocol):
    """Makes packs, by the encoder's hooks or by lengths."""

    @property
    def options(self) -> str:
        """A short text of the options that determine the samples of packs: a state within a pack depends on them."""

    @property
    def pack(self) -> Hook: ...

    @property
    def post(self) -> Hook | None: ...

    def open(self, upstream: Any, refs: Any, failures: FailureTracker, stats: Stats) -> PackCursorLike: ...


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The recipe of every lane. A stage that is None is left out, and costs nothing.

    With `bulk`, batches are made directly of references: if nothing is overridden and nothing decoded.
    """

    refs: RefStage
    samples: SampleStage
    pack: PackStageLike | None
    group: GroupStage | None
    batch: BatchStage
    bulk: BulkStage | None
    error_handler: ErrorHandler
    bans: Bans
    drop_last: bool = False
    segment_starts: tuple[int, ...] = (0,)  # the batches of the job from which segments of the weights are in force
    changed_shards: ChangedShardsMode | None = None
    remote_sources: tuple[SplitSource, ...] = ()  # the sources that read from stores

    def open(
        self, lane: Lane, stats: Stats, state: LaneState | None = None, tally: FailureTally | None = None
    ) -> LaneCursor:
        """Open the cursor of a lane, at `state` or at its beginning."""
        return LaneCursor(self, lane, stats, state, tally or FailureTally())

    def prefetch_first(self, lane: Lane, state: LaneState | None) -> list[object]:
        """Fetch what a lane reads first from stores, for as long as the result is kept."""
        if not self.remote_sources:
            return []
        refs = self.refs.open(lane, state["weight_history"] if state else new_weight_history(lane))
        refs.seek(state["draws"] if state else 0)
        return refs.prefetch_first()

    def count_reads(self, stats: Stats) -> None:
        """Count what was read from stores since the last call."""
        if self.remote_sources:
            stats.count_reads(take_read_counts(self.remote_sources))

    @property
    def state_layout(self) -> list[str]:
        """The stages whose states are in a lane's state, and what their states depend on: see
        `wdsctl.loader.pipeline.state_layout`."""
        entries = [] if self.pack is None else [layout_entry("pack", self.pack.options)]
        entries += [] if self.group is None else ["group"]
        # Hooks of batches may make several batches of one, and a state may be saved between them.
        return [*entries, layout_entry("batch", self.batch.batch_size)] if self.batch.needs_sample_keys else entries

    @property
    def is_plain(self) -> bool:
        """Whether samples go straight into batches: only the hooks `batch` and `encode_batch` see them."""
        return self.pack is None and self.group is None and self.samples.is_plain


class LaneCursor:
    """The position of one lane.

    State: `draws`, the references it has drawn; `stream`, the states of its stages; `weight_history`, the draws at
    which segments of the weights' schedule began; `failures`, if there are any, the failures in a row by hook; `bans`,
    the draws at which bans began: without the latest ones while a batch is under way of which some outputs were
    emitted, so that it is finished with the samples it began with.
    """

    def __init__(
        self, pipeline: Pipeline, lane: Lane, stats: Stats, state: LaneState | None, tally: FailureTally
    ) -> None:
        self._pipeline = pipeline
        self._bulk = pipeline.bulk
        self._weight_history = (
            [[list(entry) for entry in level] for level in state["weight_history"]]
            if state
            else new_weight_history(lane)
        )
        self._ban_history = [list(entry) for entry in state["bans"]] if state else []
        self._refs = pipeline.refs.open(lane, self._weight_history)
        failures = FailureTracker(pipeline.error_handler, stats, tally=tally, changed_shards=pipeline.changed_shards)
        self._failures, self._tally = failures, tally
        self._samples = pipeline.samples.open(self._refs, failures, stats)
        self._stats = stats
        self._is_last_bulk = False
        upstream: Any = self._samples
        self._packs = None if pipeline.pack is None else pipeline.pack.open(upstream, self._refs, failures, stats)
        upstream = self._packs or upstream
        item_source: BatchItemSource
        if pipeline.group is not None:
            item_source = pipeline.group.open(upstream, failures, stats)
        elif pipeline.is_plain:
            size, with_keys = pipeline.batch.batch_size or 1, pipeline.batch.needs_sample_keys
            item_source = PlainSampleBatches(self._samples, size, with_keys=with_keys, drop_last=pipeline.drop_last)
        else:
            item_source = ItemBatches(upstream, pipeline.batch.batch_size or 1, stats, drop_last=pipeline.drop_last)
        self._item_source: BatchItemSource = item_source
        self._batches: BatchCursor = pipeline.batch.open(item_source, failures, stats)
        if state is None:
            self._begin_bans(0)
        elif state["stream"].get("emitted"):
            # The current batch is finished with the samples it began with: with others, its outputs would differ, and
            # the sample in the place of a banned one would be lost.
            self._apply_bans()
            self._batches.before_next_batch = self._begin_late_bans
            self._load_stage(self._batches, state["stream"])
        else:
            self._begin_bans(state["draws"])
            self._load_stage(self._batches, state["stream"])
        failures.consecutive_failures = dict(state.get("failures", {})) if state else {}

    def _begin_bans(self, draws: int) -> None:
        """Apply all bans from this draw on."""
        self._ban_history = self._pipeline.bans.history(self._ban_history, draws)
        self._apply_bans()

    def _apply_bans(self) -> None:
        self._samples.ban_check = self._pipeline.bans.ban_filter(self._ban_history)
        if self._packs is not None:
            self._packs.ban_count = len(self._ban_history)

    def _begin_late_bans(self) -> None:
        """Begin the bans that had to wait for the batch of a state, and apply them to what the stages hold."""
        self._batches.before_next_batch = None
        if len(self._ban_history) < len(self._pipeline.bans.entries):
            self._begin_bans(self._refs.draws)
            self._load_stage(self._item_source, self._item_source.state())

    def _load_stage(self, stage: BatchItemSource | BatchCursor, stage_state: Any) -> None:
        try:
            waiting = [address for address in pending_addresses(stage_state) if address is not None]
            # Before `load`, which begins the current batch again.
            self._refs.prefetch(address[0] if isinstance(address, list) else address for address in waiting)
            self._samples.prefetch(waiting)
            with self._failures.repeating():
                stage.load(stage_state)
        except (KeyError, TypeError, ValueError) as error:
            raise StateMismatch(
                f"the state of a lane is damaged: {type(error).__name__}: {error}",
                hint="pass the unchanged value that save_state_rank() or state_dict() returned",
                code="WDS502",
            ) from error

    def draw(self, batch_number: int) -> Any:
        """The lane's next batch, which is batch `batch_number` of the whole job; END at the end of a finite lane."""
        segment = bisect_right(self._pipeline.segment_starts, batch_number) - 1
        if segment != self._weight_history[-1][-1][0]:
            self._begin_segment(segment)
        return self._batches.draw() if self._bulk is None else self._draw_in_bulk(self._bulk)

    def origins(self, batch: Any) -> list[Any]:
        """The restore keys of the samples in `batch`, the last one drawn."""
        return bulk_origins(batch) if self._is_last_bulk else self._batches.origins()

    @property
    def is_within_batch(self) -> bool:
        """Whether hooks have made several batches of one, and some were not drawn yet."""
        return bool(self._batches.state()["emitted"])

    def state(self) -> LaneState:
        failures = self._failures.consecutive_failures
        return {
            "draws": self._refs.draws,
            "stream": self._batches.state(),
            "weight_history": [[list(entry) for entry in level] for level in self._weight_history],
            "bans": [list(entry) for entry in self._ban_history],
            **({"failures": dict(failures)} if failures else {}),
        }

    def set_sample_reporter(self, report_sample: Callable[[str], None]) -> None:
        """Report the current sample from here on. Costs a line of text per sample."""
        self._samples.report_sample = report_sample

    def _draw_in_bulk(self, bulk: BulkStage) -> Any:
        """The next batch without its samples, or with them if it cannot be made in bulk."""
        first, pieces = self._refs.draws, self._refs.take_ranges(bulk.batch_size)
        batch = bulk.make_batch(pieces, self._stats)
        self._is_last_bulk = True
        if batch is not None:
            count_ranges(self._tally, pieces)
            self._failures.record_success("load")
            return batch
        refs = [(source, block, i) for source, block, start, stop in pieces for i in range(start, stop)]
        samples = self._samples.load_all(refs, first)
        samples += self._samples.take(bulk.batch_size - len(samples))
        batch_of_samples = self._batches.make_default_batch(samples)
        return self._batches.draw() if batch_of_samples is NO_OUTPUT else batch_of_samples

    def _begin_segment(self, segment: int) -> None:
        present = self._weight_history[-1]
        if present[-1][1] == self._refs.draws:
            present.pop()
        present.append([segment, self._refs.draws])
        self._refs.set_weight_histories(self._weight_history)


def new_weight_history(lane: Lane) -> list[list[list[int]]]:
    """The weight history of a lane that begins: segment 0 in all levels of its life."""
    return [[[0, 0]] for _ in range(1 + sum(split.child > 0 for split in lane.splits))]
