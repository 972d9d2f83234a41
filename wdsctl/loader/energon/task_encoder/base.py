"""`megatron.energon.task_encoder.base`: the task encoder and its functions."""

from __future__ import annotations

from wdsctl.loader.batching.batch import Batch
from wdsctl.loader.batching.collate import batch_list, batch_pad_stack, batch_stack, generic_batch
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.recipe.hooks import stateless
from wdsctl.loader.recipe.task_encoder import AugmentTaskEncoder, DefaultTaskEncoder, TaskEncoder
from wdsctl.loader.recipe.worker_config import WorkerConfig
from wdsctl.loader.runtime.failures import SkipSample
from wdsctl.loader.samples import CrudeSample, Sample, edataclass
from wdsctl.loader.stores.cookers import Cooker, basic_sample_keys, cooker

__all__ = [
    "AugmentTaskEncoder",
    "Batch",
    "Cooker",
    "CrudeSample",
    "DefaultTaskEncoder",
    "Sample",
    "SampleDecoder",
    "SkipSample",
    "TaskEncoder",
    "WorkerConfig",
    "basic_sample_keys",
    "batch_list",
    "batch_pad_stack",
    "batch_stack",
    "cooker",
    "edataclass",
    "generic_batch",
    "stateless",
]
