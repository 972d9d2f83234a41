"""The stages of a webdataset pipeline over wdsctl's order, splits and resume. Imports webdataset, and so torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from webdataset import DataPipeline
from webdataset.compat import FluidInterface

from wdsctl.core.errors import UsageError
from wdsctl.core.line_files import is_lines
from wdsctl.core.urls import is_url
from wdsctl.loader.arguments import AnyEncoder
from wdsctl.loader.dataset import TrainDataset, ValDataset, get_train_dataset
from wdsctl.loader.decoding import SampleDecoder
from wdsctl.loader.lazy_part import LazyPart
from wdsctl.loader.sample_stream import SampleStream
from wdsctl.loader.samples import BASE_FIELDS, CrudeSample
from wdsctl.loader.states import State
from wdsctl.loader.task_encoder import HOOKS, TaskEncoder, overridden

WebDatasetSample = dict[str, Any]


class WebDatasetPipeline(DataPipeline, FluidInterface):  # type: ignore[misc]
    """A `webdataset.DataPipeline` whose first stage is a dataset of ours. Stages are added as to `wds.WebDataset`.

    All pipelines that are made from one by adding stages share its place in the data, and so its state.
    """

    def __init__(self, stream: SampleStream[WebDatasetSample]) -> None:
        super().__init__(stream)
        self._stream = stream

    def state_dict(self) -> State:
        """Where the first stage is, as JSON: after its last sample, or with a batch size after its last whole batch.

        What later stages hold (`shuffle`, a batch of another size) is not in it. Raises LoaderError where worker
        processes of torch's DataLoader make the samples.
        """
        return self._stream.state_dict()

    def load_state_dict(self, state: State | Sequence[State], *, strict: bool = False) -> None:
        """Go where a state says, for the next `iter()`: this rank's own state, all ranks' states, or a merged one.

        Raises StateMismatch as `Loader.load_state_dict` does; states of either are good for the other.
        """
        self._stream.load_state_dict(state, strict=strict)


def as_webdataset(dataset: TrainDataset | ValDataset | str | os.PathLike[str], **options: Any) -> WebDatasetPipeline:
    """A webdataset pipeline that begins with the samples of a prepared dataset, as webdataset reads them from shards.

    A sample is a dict: `__key__`, `__url__` (the path or URL of its shard), `__local_path__` (the same, where it is a
    path), and the bytes of every part by its name in small letters, whatever dataset.yaml maps. Add stages to it:
    `as_webdataset("shards", batch_size=16).decode("pil").to_tuple("jpg", "json").batched(16)`.

    `dataset`: what `get_train_dataset` or `get_val_dataset` returned, or a path, with `options` for
    `get_train_dataset`. `batch_size`: give the size that the pipeline batches by, and states stand between batches;
    without it they stand between samples. Raises UsageError for a dataset with hooks, a decoder of its own or
    `raw="view"`: here the stages do that.
    """
    if not isinstance(dataset, (TrainDataset, ValDataset)):
        dataset = get_train_dataset(dataset, **options)
    elif options:
        raise UsageError(
            f"{', '.join(options)} cannot be changed in a dataset that is made", hint="give it to get_train_dataset"
        )
    _check(dataset.task_encoder, dataset.raw)
    if dataset.batch_size is None:
        return WebDatasetPipeline(SampleStream(replace(dataset, task_encoder=_Parts(), crude=True), _alone))
    return WebDatasetPipeline(SampleStream(replace(dataset, task_encoder=_Listed(), crude=True), _all))


class _Parts(TaskEncoder[CrudeSample, CrudeSample, Any, Any]):
    decoder = None


class _Listed(_Parts):
    def batch(self, samples: list[CrudeSample]) -> list[CrudeSample]:
        return samples


def _alone(sample: CrudeSample) -> list[WebDatasetSample]:
    return [_converted(sample)]


def _all(samples: list[CrudeSample]) -> list[WebDatasetSample]:
    return [_converted(sample) for sample in samples]


def _converted(sample: CrudeSample) -> WebDatasetSample:
    """As `webdataset.tariterators.group_by_keys` makes them; a part that stands twice is the last one."""
    source = sample["__sources__"][0]
    path = source.dataset_path
    if not (is_lines(path) and os.path.basename(path) == source.shard_name):  # a dataset that is one file
        path = os.path.join(path, source.shard_name)
    made = {"__key__": sample["__key__"], "__url__": path}
    if not is_url(path):
        made["__local_path__"] = path
    for name, part in sample.items():
        if name not in BASE_FIELDS:
            made[name.lower()] = part.read() if isinstance(part, LazyPart) else part
    return made


def _check(encoder: AnyEncoder, raw: str) -> None:
    if encoder.decoder not in (None, SampleDecoder()) or any(overridden(encoder, hook) for hook in HOOKS):
        raise UsageError(
            "the task encoder of a webdataset pipeline does nothing: its hooks and its decoder would not run",
            hint="leave task_encoder out, and write what it does as stages: .decode(...), .map(...)",
        )
    if raw == "view":
        raise UsageError("webdataset's stages take bytes, not views", hint="leave raw at 'bytes'")
