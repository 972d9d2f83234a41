"""How a loader runs, which is no part of what comes out of it: watchdog, tracing, pinning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wdsctl.core.errors import LoaderError, StorageError
from wdsctl.core.trace import SourceFacts, TraceWriter
from wdsctl.loader.dataset import Dataset
from wdsctl.loader.engine import Engine
from wdsctl.loader.logs import log
from wdsctl.loader.streams import Streams
from wdsctl.loader.worker_config import WorkerConfig
from wdsctl.loader.workers import PoolOptions


@dataclass(slots=True)
class Running:
    """`is_tracing`: whether work is to say whose samples a batch has. That is known before there is a `tracer`, which
    needs the opened streams. `starts`: how often each worker has begun."""

    watchdog_timeout_seconds: float | None = 60.0
    watchdog_initial_timeout_seconds: float | None = None
    ring_bytes: int | None = None
    max_failed_fraction: float | None = None
    is_tracing: bool = False
    tracer: TraceWriter | None = None
    starts: dict[int, int] = field(default_factory=dict)

    def trace(self, number: int, origins: list[Any], passes: int = 0) -> None:
        """Keep whose samples batch `number` of the job (of this pass) has."""
        if self.tracer is not None:
            self.tracer.add(number, origins, pass_number=passes)

    def later(self, make: Callable[[], Engine]) -> Engine:
        """An engine that is made when it is first asked: workers start with the first batch."""

        def made() -> Engine:
            self.starts.clear()  # now: an interrupt may have stopped the making of one whose workers had begun
            return make()

        return _Later(made)


def pool_options(workers: WorkerConfig, running: Running) -> PoolOptions:
    return PoolOptions(
        start=workers.start_method,
        ring_bytes=running.ring_bytes,
        timeout_seconds=running.watchdog_timeout_seconds,
        first_timeout_seconds=running.watchdog_initial_timeout_seconds,
    )


def usable_workers(workers: WorkerConfig, lanes: int) -> int:
    """How many workers a rank of so many lanes can use: one a lane. Where more were asked for, the log says so."""
    if workers.num_workers > lanes > 0:
        log.warning(
            "of %d workers %d will run, one for each lane of this rank; a job that begins with lanes=%d uses all",
            workers.num_workers,
            lanes,
            workers.num_workers * workers.world_size,
        )
    return min(workers.num_workers, lanes)


def check_lanes(dataset: Dataset, lanes: int) -> None:
    """Raise LoaderError WDS545 where a validation has fewer lanes than ranks, and what some ranks lack is to be left
    out, which is all. Otherwise the log says so once."""
    world = dataset.worker_config.world_size
    if lanes >= world:
        return
    if dataset.uneven == "drop":
        raise LoaderError(
            f"this validation packs or groups in {lanes} lanes, so that only {lanes} of {world} ranks have any of its "
            "batches, and uneven='drop' would leave out all of them",
            hint=f"give get_val_dataset lanes={world} or a multiple, wherever losses are compared; or uneven='pad'",
            code="WDS545",
        )
    if dataset.worker_config.rank == 0:
        log.warning(
            "%d of %d ranks have no batches of their own in this validation, which packs or groups in %d lanes; "
            "lanes=%d gives each rank some",
            world - lanes,
            world,
            lanes,
            world,
        )


class _Later:
    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._made: Engine | None = None

    def draw(self, turn: int) -> Any:
        return self._there().draw(turn)

    def start(self) -> None:
        self._there()

    def _there(self) -> Engine:
        if self._made is None:
            self._made = self._make()
        return self._made

    def again(self, last: int | None) -> bool:
        return self._made is not None and self._made.again(last)

    def close(self) -> None:
        if self._made is not None:
            self._made.close()


def tracer_of(dataset: Dataset, streams: Streams) -> TraceWriter | None:
    """The writer of this rank's trace, in the folder that the dataset names; None where the disk is full: a trace is an
    aid, and what it cannot keep is no reason to end a training. Raises StorageError, PermissionDenied otherwise."""
    sources = [
        SourceFacts(
            source.number,
            source.root if source.place is None else source.place.path,
            source.split,
            source.offsets.generation,
            source.split_digest,
            catalog=source.place.meta if source.place is not None else "",
        )
        for source in streams.sources
    ]
    workers = dataset.worker_config
    place = (str(dataset.trace), workers.rank, workers.world_size, sources)
    try:
        return TraceWriter(*place, run=_stores(streams), report=log.warning)
    except StorageError as error:
        if error.code != "WDS401":
            raise
        log.warning("nothing of this run will be in the trace: %s (%s)", error.message, error.where)
        return None


def _stores(streams: Streams) -> dict[str, Any]:
    """The auxiliary stores that samples of a source may have media of: what `restore_sample` reads them from."""
    stores = [
        {"source": source.number, "name": name, "path": store.path, "digest": store.digest}
        for source in streams.sources
        for name, store in source.aux.items()
    ]
    return {"aux": stores} if stores else {}
