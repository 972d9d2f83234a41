"""`megatron.energon.task_encoder`."""

from __future__ import annotations

from wdsctl.loader.energon.submodules import publish_submodules
from wdsctl.loader.energon.task_encoder.base import (
    AugmentTaskEncoder,
    Batch,
    Cooker,
    DefaultTaskEncoder,
    TaskEncoder,
    basic_sample_keys,
    batch_list,
    batch_pad_stack,
    batch_stack,
    cooker,
    generic_batch,
    stateless,
)
from wdsctl.loader.energon.task_encoder.loader import get_train_dataset, get_val_dataset, get_val_datasets

__all__ = [
    "AugmentTaskEncoder",
    "Batch",
    "Cooker",
    "DefaultTaskEncoder",
    "TaskEncoder",
    "basic_sample_keys",
    "batch_list",
    "batch_pad_stack",
    "batch_stack",
    "cooker",
    "generic_batch",
    "get_train_dataset",
    "get_val_dataset",
    "get_val_datasets",
    "stateless",
]

publish_submodules(__name__)
