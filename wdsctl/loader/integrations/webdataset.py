"""webdataset pipelines with wdsctl's order, splits and resume. Imports webdataset and torch."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import torch
from torch.utils.data import get_worker_info
from webdataset import DataPipeline
from webdataset.compat import FluidInterface

from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.core.urls import is_url
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.loader import Loader, get_loader
from wdsctl.loader.recipe.arguments import AnyTaskEncoder
from wdsctl.loader.recipe.dataset import LANES_PER_RANK, TrainDataset, ValDataset, get_train_dataset
from wdsctl.loader.recipe.task_encoder import HOOKS, TaskEncoder, is_overridden
from wdsctl.loader.resume.state import LoaderState, merge_states
from wdsctl.loader.samples import BASE_FIELDS, CrudeSample
from wdsctl.loader.samples.lazy_part import LazyPart

T = TypeVar("T")

NO_WORKERS_SEED = -1  # in the place of the seed of a DataLoader's workers until there are any


class SampleStream(Generic[T]):
    """The parts that `split_batch` returns for each batch of a dataset, one by one; every call continues where the last
    one stopped. Works in this process and in the worker processes of torch's DataLoader.

    Worker w of W on rank r of R is rank r + wR of WR: DataLoader takes from its workers in turn, and so hands out the
    batches that this process would have made. `split_batch` must be picklable if workers are spawned.
    """

    _loader: Loader
    _start_state: Any  # the state that workers begin at, until something has come in this process
    _has_begun: bool
    _is_in_worker: bool

    def __init__(self, dataset: TrainDataset | ValDataset, split_batch: Callable[[Any], Sequence[T]]) -> None:
        self._dataset = dataset
        self._split_batch = split_batch
        # Shared with workers, so that this process knows of them. Their seed tells one set of workers from the next.
        workers = torch.full((1,), NO_WORKERS_SEED, dtype=torch.int64)
        self._workers: torch.Tensor = workers.share_memory_()  # type: ignore[no-untyped-call]
        self._reset(None)

    def __call__(self) -> Iterator[T]:
        """The samples from here on. Raises LoaderError if earlier workers have begun the training that these would
        begin again."""
        worker = get_worker_info()
        if worker is not None and not self._is_in_worker:
            self._check_worker_seed(worker.seed - worker.id)
            start = self._merged_start_state()
            self._loader = get_loader(self._worker_dataset(worker.id, worker.num_workers, is_fresh=start is None))
            if start is not None:
                self._loader.load_state_dict(start)
            self._is_in_worker = True
        self._has_begun = True
        return self._loader.unbatched(self._split_batch)

    def state_dict(self) -> LoaderState:
        """The state, as JSON; before the current batch if some of its parts have not been returned yet.

        Raises LoaderError if worker processes make the samples: they prefetch, and do not report their position.
        """
        if int(self._workers[0]) != NO_WORKERS_SEED and not self._is_in_worker:
            raise LoaderError(
                "cannot save the state: worker processes of torch's DataLoader prefetch the samples, "
                "so the position of the training is unknown",
                hint="pass num_workers=0 to the DataLoader",
            )
        return self._loader.state_dict()

    def load_state_dict(self, state: LoaderState | Sequence[LoaderState], *, strict: bool = False) -> None:
        """Continue from a state: see `Loader.load_state_dict`. Workers that are started after it begin there, too."""
        self._loader.load_state_dict(state, strict=strict)
        self._start_state = copy.deepcopy(state)
        self._has_begun = False
        self._workers[0] = NO_WORKERS_SEED

    def close(self) -> None:
        """Close the shards. The next sample reopens them."""
        self._loader.close()

    def __getstate__(self) -> dict[str, Any]:
        """The state for workers that are spawned: where to begin, and no open files."""
        kept = {name: getattr(self, name) for name in ("_dataset", "_split_batch", "_workers")}
        return {**kept, "start": self._merged_start_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._dataset, self._split_batch, self._workers = (state[n] for n in ("_dataset", "_split_batch", "_workers"))
        self._reset(state["start"])

    def _reset(self, start_state: Any) -> None:
        self._loader = get_loader(self._dataset)
        self._start_state = start_state
        self._has_begun = False
        self._is_in_worker = False

    def _merged_start_state(self) -> LoaderState | None:
        """The state of the whole job that workers begin at; None for the beginning."""
        state: Any = self._loader.state_dict() if self._has_begun else self._start_state
        return None if state is None else merge_states([state] if isinstance(state, dict) else state)

    def _worker_dataset(self, worker: int, workers: int, *, is_fresh: bool) -> TrainDataset | ValDataset:
        config = self._dataset.worker_config
        rank, world = config.rank + worker * config.world_size, workers * config.world_size
        # The group is that of the ranks, of which each has several workers.
        workers_config = replace(config, rank=rank, world_size=world, data_parallel_group=None)
        dataset = replace(self._dataset, worker_config=workers_config)
        if isinstance(dataset, TrainDataset) and dataset.lanes is None and is_fresh:
            return replace(dataset, lanes=LANES_PER_RANK * config.world_size)  # as without workers
        return dataset

    def _check_worker_seed(self, seed: int) -> None:
        """Raise LoaderError if a DataLoader is iterated again: its new workers would begin where the first ones did."""
        if isinstance(self._dataset, TrainDataset) and int(self._workers[0]) not in (NO_WORKERS_SEED, seed):
            raise LoaderError(
                "other worker processes began this training run, and their position in it is unknown",
                hint="pass persistent_workers=True to the DataLoader, or iterate over it once: training never ends",
            )
        self._workers[0] = seed


WebDatasetSample = dict[str, Any]


class WebDatasetPipeline(DataPipeline, FluidInterface):  # type: ignore[misc]
    """A `webdataset.DataPipeline` whose first stage is a wdsctl dataset. Add stages as to `wds.WebDataset`.

    All pipelines that are made from one by adding stages share its position in the data, and so its state.
    """

    def __init__(self, stream: SampleStream[WebDatasetSample]) -> None:
        super().__init__(stream)
        self._stream = stream

    def state_dict(self) -> LoaderState:
        """The state of the first stage, as JSON: after its last sample, or with a batch size after its last whole
        batch.

        What later stages hold (`shuffle`, a batch of another size) is not in it. Raises LoaderError if worker processes
        of torch's DataLoader make the samples.
        """
        return self._stream.state_dict()

    def load_state_dict(self, state: LoaderState | Sequence[LoaderState], *, strict: bool = False) -> None:
        """Continue from a state, at the next `iter()`: this rank's own state, all ranks' states, or a merged one.

        Raises StateMismatch as `Loader.load_state_dict` does; their states are interchangeable.
        """
        self._stream.load_state_dict(state, strict=strict)


def as_webdataset(dataset: TrainDataset | ValDataset | str | os.PathLike[str], **options: Any) -> WebDatasetPipeline:
    """A webdataset pipeline that begins with the samples of a prepared dataset, as webdataset reads them from shards.

    A sample is a dict: `__key__`, `__url__` (the path or URL of its shard), `__local_path__` (the same, if it is a
    path), and the bytes of every part by its lower-case name, whatever dataset.yaml maps. Add stages to it:
    `as_webdataset("shards", batch_size=16).decode("pil").to_tuple("jpg", "json").batched(16)`.

    `dataset`: what `get_train_dataset` or `get_val_dataset` returned, or a path, with `options` for
    `get_train_dataset`. `batch_size`: pass the batch size of the pipeline to save states between batches; without it,
    states are between samples. Raises UsageError for a dataset with hooks, a decoder of its own or `raw="view"`: use
    stages instead.
    """
    if not isinstance(dataset, (TrainDataset, ValDataset)):
        dataset = get_train_dataset(dataset, **options)
    elif options:
        raise UsageError(
            f"{', '.join(options)} cannot be changed after the dataset was created",
            hint=f"pass {' and '.join(options)} to get_train_dataset",
        )
    _check_encoder(dataset.task_encoder, dataset.raw)
    if dataset.batch_size is None:
        return WebDatasetPipeline(
            SampleStream(replace(dataset, task_encoder=_RawPartsEncoder(), crude=True), _convert_one)
        )
    return WebDatasetPipeline(SampleStream(replace(dataset, task_encoder=_ListEncoder(), crude=True), _convert_batch))


class _RawPartsEncoder(TaskEncoder[CrudeSample, CrudeSample, Any, Any]):
    decoder = None


class _ListEncoder(_RawPartsEncoder):
    def batch(self, samples: list[CrudeSample]) -> list[CrudeSample]:
        return samples


def _convert_one(sample: CrudeSample) -> list[WebDatasetSample]:
    return [_to_webdataset_sample(sample)]


def _convert_batch(samples: list[CrudeSample]) -> list[WebDatasetSample]:
    return [_to_webdataset_sample(sample) for sample in samples]


def _to_webdataset_sample(sample: CrudeSample) -> WebDatasetSample:
    """A sample as `webdataset.tariterators.group_by_keys` makes it; of two parts with one name it has the last."""
    source = sample["__sources__"][0]
    path = source.dataset_path
    if not (is_jsonl_name(path) and os.path.basename(path) == source.shard_name):  # a dataset that is one file
        path = os.path.join(path, source.shard_name)
    plain_sample = {"__key__": sample["__key__"], "__url__": path}
    if not is_url(path):
        plain_sample["__local_path__"] = path
    for name, part in sample.items():
        if name not in BASE_FIELDS:
            plain_sample[name.lower()] = part.read() if isinstance(part, LazyPart) else part
    return plain_sample


def _check_encoder(encoder: AnyTaskEncoder, raw: str) -> None:
    if encoder.decoder not in (None, SampleDecoder()) or any(is_overridden(encoder, hook) for hook in HOOKS):
        raise UsageError(
            "a webdataset pipeline does not run the hooks and the decoder of a task encoder",
            hint="omit task_encoder, and add its steps as stages: .decode(...), .map(...)",
        )
    if raw == "view":
        raise UsageError("webdataset's stages take bytes, not views", hint="omit raw, or pass raw='bytes'")
