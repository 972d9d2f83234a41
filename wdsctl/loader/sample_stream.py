"""The samples of a loader one by one, in this process or in the worker processes of torch's DataLoader."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import torch
from torch.utils.data import get_worker_info

from wdsctl.core.errors import LoaderError
from wdsctl.loader.dataset import LANES_A_RANK, TrainDataset, ValDataset
from wdsctl.loader.loader import Loader
from wdsctl.loader.making import get_loader
from wdsctl.loader.states import State, merge_states

T = TypeVar("T")

NOBODY = -1  # where the seed of a DataLoader's workers stands once there are any


class SampleStream(Generic[T]):
    """What `take_apart` makes of each batch of a dataset, one by one, at every call from where the last one stopped.

    Worker w of W on rank r of R is rank r + wR of WR: DataLoader takes from its workers in turn, and so hands out the
    batches that this process would have made. `take_apart` must be picklable where workers are spawned.
    """

    _loader: Loader
    _given: Any  # the state that workers begin at, until something has come in this process
    _begun: bool
    _in_worker: bool

    def __init__(self, dataset: TrainDataset | ValDataset, take_apart: Callable[[Any], Sequence[T]]) -> None:
        self._dataset = dataset
        self._take_apart = take_apart
        # Shared with workers, so that this process knows of them. Their seed tells one set of workers from the next.
        workers = torch.full((1,), NOBODY, dtype=torch.int64)
        self._workers: torch.Tensor = workers.share_memory_()  # type: ignore[no-untyped-call]
        self._begin(None)

    def __call__(self) -> Iterator[T]:
        """The samples from here on. Raises LoaderError where other workers have begun what these would begin again."""
        worker = get_worker_info()
        if worker is not None and not self._in_worker:
            self._note(worker.seed - worker.id)
            start = self._start()
            self._loader = get_loader(self._dataset_of(worker.id, worker.num_workers, fresh=start is None))
            self._loader.restore_state_rank(start)
            self._in_worker = True
        self._begun = True
        return self._loader.unbatched(self._take_apart)

    def state_dict(self) -> State:
        """Where the stream stands: before the batch of which something is still to come. JSON, under a millisecond.

        Raises LoaderError where worker processes make the samples: they are ahead, and do not say how far.
        """
        if int(self._workers[0]) != NOBODY and not self._in_worker:
            raise LoaderError(
                "worker processes of torch's DataLoader make the samples, ahead of what the training has got: "
                "where it stands is not known",
                hint="give num_workers=0 to a loader that is to be saved",
            )
        return self._loader.state_dict()

    def load_state_dict(self, state: State | Sequence[State], *, strict: bool = False) -> None:
        """Go where a state says: see `Loader.load_state_dict`. Workers that are started after it begin there too."""
        self._loader.load_state_dict(state, strict=strict)
        self._given = copy.deepcopy(state)
        self._begun = False
        self._workers[0] = NOBODY

    def close(self) -> None:
        """Close the shards. The next sample opens them again."""
        self._loader.close()

    def __getstate__(self) -> dict[str, Any]:
        """For workers that are spawned: where to begin, and no open files."""
        kept = {name: getattr(self, name) for name in ("_dataset", "_take_apart", "_workers")}
        return {**kept, "start": self._start()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._dataset, self._take_apart, self._workers = (state[n] for n in ("_dataset", "_take_apart", "_workers"))
        self._begin(state["start"])

    def _begin(self, given: Any) -> None:
        self._loader = get_loader(self._dataset)
        self._given = given
        self._begun = False
        self._in_worker = False

    def _start(self) -> State | None:
        """The state of the whole job that workers begin at; None for the beginning."""
        state: Any = self._loader.state_dict() if self._begun else self._given
        return None if state is None else merge_states([state] if isinstance(state, dict) else state)

    def _dataset_of(self, worker: int, workers: int, *, fresh: bool) -> TrainDataset | ValDataset:
        config = self._dataset.worker_config
        rank, world = config.rank + worker * config.world_size, workers * config.world_size
        dataset = replace(self._dataset, worker_config=replace(config, rank=rank, world_size=world))
        if isinstance(dataset, TrainDataset) and dataset.lanes is None and fresh:
            return replace(dataset, lanes=LANES_A_RANK * config.world_size)  # as without workers
        return dataset

    def _note(self, seed: int) -> None:
        """Workers of a DataLoader that is iterated for the second time would begin where the first ones did."""
        if isinstance(self._dataset, TrainDataset) and int(self._workers[0]) not in (NOBODY, seed):
            raise LoaderError(
                "the training was begun in other worker processes, which did not say how far they came",
                hint="give persistent_workers=True to the loader, or iterate it once: a training has no end",
            )
        self._workers[0] = seed
