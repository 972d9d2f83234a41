"""The stages of a stream, put together for one lane: order -> references -> samples -> packs -> groups -> batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from wdsctl.core.addresses import waiting_in
from wdsctl.core.errors import StateMismatch
from wdsctl.loader.bans import Bans
from wdsctl.loader.failure_rates import Tally
from wdsctl.loader.failures import Failures, Handler
from wdsctl.loader.order.geometry import Lane
from wdsctl.loader.shapes import entry
from wdsctl.loader.stages.batches import BatchCursor, BatchStage, Together
from wdsctl.loader.stages.bulk import BulkStage, count_pieces, origins_of
from wdsctl.loader.stages.cursor import Cursor
from wdsctl.loader.stages.grouping import GroupStage, Rows, Straight
from wdsctl.loader.stages.hook import NOTHING, Hook
from wdsctl.loader.stages.refs import RefStage
from wdsctl.loader.stages.samples import SampleStage
from wdsctl.loader.stats import Stats

State = dict[str, Any]


class PackCursorLike(Cursor, Protocol):
    #: How many bans are in force: a pack that is half out is finished of what was there when it was begun.
    bans: int


class PackStageLike(Protocol):
    """What makes packs: of the encoder's hooks, or of lengths."""

    @property
    def options(self) -> str:
        """What decides which samples are in a pack, in a few characters: a state that is in the middle needs them."""

    @property
    def pack(self) -> Hook: ...

    @property
    def post(self) -> Hook | None: ...

    def open(self, upstream: Any, refs: Any, failures: Failures, stats: Stats) -> PackCursorLike: ...


@dataclass(frozen=True, slots=True)
class Schedule:
    """Segments of a blend's weights: `steps[i]` is the batch of the whole job from which segment i is in force."""

    steps: tuple[int, ...] = (0,)

    def segment(self, number: int) -> int:
        """The segment in force at batch `number` of the job."""
        return max(i for i, step in enumerate(self.steps) if step <= number)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The recipe of every lane. A stage that is None is left out, and costs nothing.

    With `bulk`, batches are made of references at once: where nothing is overridden and nothing decoded.
    """

    refs: RefStage
    samples: SampleStage
    pack: PackStageLike | None
    group: GroupStage | None
    batch: BatchStage
    bulk: BulkStage | None
    handler: Handler
    bans: Bans
    drop_last: bool = False
    schedule: Schedule = Schedule()
    refuses_changed: bool = False  # whether a shard that is not what was indexed ends the run

    def open(self, lane: Lane, stats: Stats, state: State | None = None, tally: Tally | None = None) -> LaneCursor:
        """The cursor of a lane, where `state` says or at its beginning."""
        return LaneCursor(self, lane, stats, state, tally or Tally())

    @property
    def shape(self) -> list[str]:
        """The stages whose states a lane's state has, and what decides how those are to be read: see `shapes`."""
        entries = [] if self.pack is None else [entry("pack", self.pack.options)]
        entries += [] if self.group is None else ["group"]
        # Hooks of batches may make several of one, and a state stand between them.
        return [*entries, entry("batch", self.batch.size)] if self.batch.needs_keys else entries

    @property
    def is_plain(self) -> bool:
        """Whether samples go straight into batches: no hook but `batch` and `encode_batch` sees them."""
        return self.pack is None and self.group is None and self.samples.is_plain


class LaneCursor:
    """One lane, under way.

    State: `picks`, how many references it has taken; `stream`, where its stages stand; `mix`, which segments of the
    weights' schedule began at which pick; `bans`, which bans began at which pick: not the latest ones yet where a batch
    of which a part has left is finished first.
    """

    def __init__(self, pipeline: Pipeline, lane: Lane, stats: Stats, state: State | None, tally: Tally) -> None:
        self._pipeline = pipeline
        self._bulk = pipeline.bulk
        self._mix = [[list(entry) for entry in level] for level in state["mix"]] if state else new_mix(lane)
        self._bans = [list(entry) for entry in state["bans"]] if state else []
        self._refs = pipeline.refs.open(lane, self._mix)
        failures = Failures(pipeline.handler, stats, tally=tally, refuses_changed=pipeline.refuses_changed)
        self._tally = tally
        self._samples = pipeline.samples.open(self._refs, failures, stats)
        self._stats = stats
        self._was_bulk = False
        upstream: Any = self._samples
        self._packs = None if pipeline.pack is None else pipeline.pack.open(upstream, self._refs, failures, stats)
        upstream = self._packs or upstream
        together: Together
        if pipeline.group is not None:
            together = pipeline.group.open(upstream, failures, stats)
        elif pipeline.is_plain:
            size, with_keys = pipeline.batch.size or 1, pipeline.batch.needs_keys
            together = Straight(self._samples, size, with_keys=with_keys, drop_last=pipeline.drop_last)
        else:
            together = Rows(upstream, pipeline.batch.size or 1, stats, drop_last=pipeline.drop_last)
        self._together: Together = together
        self._batches: BatchCursor = pipeline.batch.open(together, failures, stats)
        if state is None:
            self._ban(0)
        elif state["stream"].get("left"):
            # The batch under way is finished of the samples that it was begun with: with others, its outputs would be
            # other ones, and what came in for a banned sample would be lost.
            self._judge()
            self._batches.before = self._catch_up
            self._go_to(self._batches, state["stream"])
        else:
            self._ban(state["picks"])
            self._go_to(self._batches, state["stream"])

    def _ban(self, picks: int) -> None:
        """From here on, at pick `picks`, nothing comes that is banned."""
        self._bans = self._pipeline.bans.history(self._bans, picks)
        self._judge()

    def _judge(self) -> None:
        self._samples.is_banned = self._pipeline.bans.judge(self._bans)
        if self._packs is not None:
            self._packs.bans = len(self._bans)

    def _catch_up(self) -> None:
        """Let bans begin that could not with the state, and find out what of them is held."""
        self._batches.before = None
        if len(self._bans) < len(self._pipeline.bans.entries):
            self._ban(self._refs.picks)
            self._go_to(self._together, self._together.state())

    def _go_to(self, stage: Together | BatchCursor, stream: Any) -> None:
        try:
            waiting = [address for address in waiting_in(stream) if address is not None]
            # First, as a batch that is under way is begun again when it is loaded.
            self._refs.foresee(address[0] if isinstance(address, list) else address for address in waiting)
            self._samples.foresee(waiting)
            stage.load(stream)
        except (KeyError, TypeError, ValueError) as error:
            raise StateMismatch(
                f"the state of a lane is not what its stages left: {type(error).__name__}: {error}",
                hint="give what save_state_rank() or state_dict() returned, as it was",
                code="WDS502",
            ) from error

    def draw(self, number: int) -> Any:
        """The lane's next batch, which is batch `number` of the whole job; END where a finite lane ends."""
        segment = self._pipeline.schedule.segment(number)
        if segment != self._mix[-1][-1][0]:
            self._begin_segment(segment)
        return self._batches.draw() if self._bulk is None else self._drawn_in_bulk(self._bulk)

    def origins(self, batch: Any) -> list[Any]:
        """The restore keys of the samples that `batch`, the last one drawn, was made of."""
        return origins_of(batch) if self._was_bulk else self._batches.origins()

    def state(self) -> State:
        return {
            "picks": self._refs.picks,
            "stream": self._batches.state(),
            "mix": [[list(entry) for entry in level] for level in self._mix],
            "bans": [list(entry) for entry in self._bans],
        }

    def tell(self, telling: Callable[[str], None]) -> None:
        """Say which sample is under way, from here on: it costs a line of text a sample."""
        self._samples.telling = telling

    def _drawn_in_bulk(self, bulk: BulkStage) -> Any:
        """The next batch without its samples, or with them where they do not allow it."""
        first, pieces = self._refs.picks, self._refs.pieces(bulk.size)
        batch = bulk.batch(pieces, self._stats)
        self._was_bulk = True
        if batch is not None:
            count_pieces(self._tally, pieces)
            return batch
        refs = [(source, block, i) for source, block, start, stop in pieces for i in range(start, stop)]
        samples = self._samples.load_all(refs, first)
        samples += self._samples.take(bulk.size - len(samples))
        made = self._batches.made_of(samples)
        return self._batches.draw() if made is NOTHING else made

    def _begin_segment(self, segment: int) -> None:
        present = self._mix[-1]
        if present[-1][1] == self._refs.picks:
            present.pop()
        present.append([segment, self._refs.picks])
        self._refs.mix(self._mix)


def new_mix(lane: Lane) -> list[list[list[int]]]:
    """The mixing of a lane that begins: segment 0 in all levels of its life."""
    return [[[0, 0]] for _ in range(1 + sum(cut.child > 0 for cut in lane.cuts))]
