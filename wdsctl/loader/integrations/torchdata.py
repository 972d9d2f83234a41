"""A torch `IterableDataset` of whole batches, for trainers that accept nothing but torch's DataLoader: NeMo AutoModel,
torchdata's StatefulDataLoader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from torch.utils.data import IterableDataset

from wdsctl.core.errors import UsageError
from wdsctl.loader.loader import Loader, get_loader
from wdsctl.loader.recipe.dataset import TrainDataset, ValDataset
from wdsctl.loader.resume.state import LoaderState


class IterableBatches(IterableDataset[Any]):
    """The batches of a dataset, as an `IterableDataset`: `DataLoader(IterableBatches(dataset), batch_size=None)`.

    Give torch's DataLoader `batch_size=None` and `num_workers=0`: wdsctl makes batches, in the workers of the dataset's
    WorkerConfig. Its state is that of this rank, and can be restored on as many ranks as saved it; for other numbers,
    `wdsctl checkpoint redistribute FOLDER --ranks N --in-place` rewrites the files.

    `loader_options`: of `get_loader`.
    """

    def __init__(self, dataset: TrainDataset | ValDataset, **loader_options: Any) -> None:
        super().__init__()
        self.dataset = dataset
        #: The loader that makes the batches. Made here, so that it notices the worker processes of a DataLoader.
        self.loader: Loader = get_loader(dataset, **loader_options)
        self._loader_options = loader_options
        self._has_begun = False

    def shard(self, num_shards: int, index: int) -> IterableBatches:
        """The batches of rank `index` of `num_shards`: torch's trainers divide a dataset among ranks by this method.

        Raises UsageError once batches were drawn: the position would be lost.
        """
        if self._has_begun:
            raise UsageError(
                "the dataset was divided among ranks after its first batch",
                hint="call shard() first, or give WorkerConfig(rank=..., world_size=...)",
            )
        workers = replace(self.dataset.worker_config, rank=index, world_size=num_shards)
        return IterableBatches(replace(self.dataset, worker_config=workers), **self._loader_options)

    def __iter__(self) -> Iterator[Any]:
        self._has_begun = True
        return iter(self.loader)

    def __len__(self) -> int:
        """Batches of this rank. Raises TypeError for an endless training: see `Loader.__len__`."""
        return len(self.loader)

    def __bool__(self) -> bool:
        return True

    def state_dict(self) -> LoaderState:
        """The state of this rank after its last batch."""
        return self.loader.state_dict()

    def load_state_dict(self, state: LoaderState | Sequence[LoaderState]) -> None:
        """Continue from a state of this rank, of all ranks, or a merged one."""
        self._has_begun = True
        self.loader.load_state_dict(state)

    def close(self) -> None:
        """End the workers and close the shards, as `Loader.close`."""
        self.loader.close()
