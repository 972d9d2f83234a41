"""The loader: batches for training from prepared datasets, in an order that can be saved and resumed exactly.

Names are imported when they are first used, so that the order's arithmetic can be imported without torch. A name that
needs torch raises UsageError WDS236 with the install command if torch is not installed.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from wdsctl.core.extras import require_packages
from wdsctl.core.samples.types import SAMPLE_TYPES

if TYPE_CHECKING:
    from wdsctl.core.blend import Blender
    from wdsctl.core.safe_open import allow_path
    from wdsctl.core.samples.boxes import convert_boxes
    from wdsctl.core.samples.conversations import normalize_conversation
    from wdsctl.core.samples.preferences import normalize_preference
    from wdsctl.loader.batching.batch import Batch, CrudeBatch
    from wdsctl.loader.batching.collate import batch_list, batch_pad_stack, batch_stack, generic_batch
    from wdsctl.loader.decoding.av import AVData, AVDecoder, AVMetadata, get_clips_uniform, get_single_frames_uniform
    from wdsctl.loader.decoding.decoder import SampleDecoder
    from wdsctl.loader.integrations.webdataset import as_webdataset
    from wdsctl.loader.loader import Loader, get_loader, get_savable_loader
    from wdsctl.loader.packing import Buckets, Packing
    from wdsctl.loader.recipe.dataset import (
        TrainDataset,
        ValDataset,
        get_train_dataset,
        get_val_dataset,
        get_val_datasets,
    )
    from wdsctl.loader.recipe.hooks import stateless
    from wdsctl.loader.recipe.task_encoder import AugmentTaskEncoder, DefaultTaskEncoder, TaskEncoder
    from wdsctl.loader.recipe.worker_config import WorkerConfig
    from wdsctl.loader.resume.state import merge_states
    from wdsctl.loader.runtime.failures import FatalSampleError, SkipSample, log_exception, reraise_exception
    from wdsctl.loader.runtime.stats import Stats
    from wdsctl.loader.samples import CrudeSample, Sample, SourceInfo, edataclass
    from wdsctl.loader.samples.compose import compose_fields
    from wdsctl.loader.samples.lazy_part import LazyPart
    from wdsctl.loader.samples.registry import register_joiner, register_sample_type
    from wdsctl.loader.samples.types import (
        AudioSample,
        CaptioningSample,
        ConversationSample,
        DetectionSample,
        ImageClassificationSample,
        ImageSample,
        InterleavedSample,
        MultiChoiceVQASample,
        OCRSample,
        PreferenceSample,
        SegmentationSample,
        SimilarityInterleavedSample,
        TextSample,
        TranscriptionSample,
        VideoSample,
        VidQASample,
        VQAOCRSample,
        VQASample,
    )
    from wdsctl.loader.stores import FileStore, open_store
    from wdsctl.loader.stores.cache import CachePool, Lazy, NoCachePool
    from wdsctl.loader.stores.cookers import Cooker, basic_sample_keys, cooker
    from wdsctl.loader.stores.disk_cache import FileStoreCachePool
    from wdsctl.loader.stores.shard_cache import ShardCache


# A public name is in three lists, which a test compares. Type checkers need the imports above and a literal `__all__`,
# and `__getattr__` needs the modules.
_EXPORTS_BY_MODULE = {
    "batching.batch": ("Batch", "CrudeBatch"),
    "batching.collate": ("batch_list", "batch_pad_stack", "batch_stack", "generic_batch"),
    "decoding.av": ("AVData", "AVDecoder", "AVMetadata", "get_clips_uniform", "get_single_frames_uniform"),
    "decoding.decoder": ("SampleDecoder",),
    "integrations.webdataset": ("as_webdataset",),
    "loader": ("get_loader", "get_savable_loader", "Loader"),
    "packing": ("Buckets", "Packing"),
    "recipe.dataset": ("get_train_dataset", "get_val_dataset", "get_val_datasets", "TrainDataset", "ValDataset"),
    "recipe.hooks": ("stateless",),
    "recipe.task_encoder": ("AugmentTaskEncoder", "DefaultTaskEncoder", "TaskEncoder"),
    "recipe.worker_config": ("WorkerConfig",),
    "resume.state": ("merge_states",),
    "runtime.failures": ("FatalSampleError", "log_exception", "reraise_exception", "SkipSample"),
    "runtime.stats": ("Stats",),
    "samples": ("CrudeSample", "edataclass", "Sample", "SourceInfo"),
    "samples.compose": ("compose_fields",),
    "samples.lazy_part": ("LazyPart",),
    "samples.registry": ("register_joiner", "register_sample_type"),
    "samples.types": tuple(SAMPLE_TYPES),
    "stores": ("FileStore", "open_store"),
    "stores.cache": ("CachePool", "Lazy", "NoCachePool"),
    "stores.cookers": ("basic_sample_keys", "Cooker", "cooker"),
    "stores.disk_cache": ("FileStoreCachePool",),
    "stores.shard_cache": ("ShardCache",),
}
_CORE_MODULE_OF = {
    "Blender": "blend",
    "allow_path": "safe_open",
    "convert_boxes": "samples.boxes",
    "normalize_conversation": "samples.conversations",
    "normalize_preference": "samples.preferences",
}
_MODULE_OF = {name: module for module, names in _EXPORTS_BY_MODULE.items() for name in names}

__all__ = [
    "AVData",
    "AVDecoder",
    "AVMetadata",
    "AudioSample",
    "AugmentTaskEncoder",
    "Batch",
    "Blender",
    "Buckets",
    "CachePool",
    "CaptioningSample",
    "ConversationSample",
    "Cooker",
    "CrudeBatch",
    "CrudeSample",
    "DefaultTaskEncoder",
    "DetectionSample",
    "FatalSampleError",
    "FileStore",
    "FileStoreCachePool",
    "ImageClassificationSample",
    "ImageSample",
    "InterleavedSample",
    "Lazy",
    "LazyPart",
    "Loader",
    "MultiChoiceVQASample",
    "NoCachePool",
    "OCRSample",
    "Packing",
    "PreferenceSample",
    "Sample",
    "SampleDecoder",
    "SegmentationSample",
    "ShardCache",
    "SimilarityInterleavedSample",
    "SkipSample",
    "SourceInfo",
    "Stats",
    "TaskEncoder",
    "TextSample",
    "TrainDataset",
    "TranscriptionSample",
    "VQAOCRSample",
    "VQASample",
    "ValDataset",
    "VidQASample",
    "VideoSample",
    "WorkerConfig",
    "allow_path",
    "basic_sample_keys",
    "batch_list",
    "batch_pad_stack",
    "batch_stack",
    "compose_fields",
    "convert_boxes",
    "cooker",
    "edataclass",
    "generic_batch",
    "get_clips_uniform",
    "get_loader",
    "get_savable_loader",
    "get_single_frames_uniform",
    "get_train_dataset",
    "get_val_dataset",
    "get_val_datasets",
    "log_exception",
    "merge_states",
    "normalize_conversation",
    "normalize_preference",
    "open_store",
    "register_joiner",
    "register_sample_type",
    "reraise_exception",
    "stateless",
]

if find_spec("webdataset") is not None:  # `import *` takes every name, and would fail at this one
    __all__ += ["as_webdataset"]


def __getattr__(name: str) -> Any:
    if name in _CORE_MODULE_OF:
        return getattr(import_module(f"wdsctl.core.{_CORE_MODULE_OF[name]}"), name)
    if name in _MODULE_OF:
        with require_packages(f"wdsctl.loader.{name}"):
            return getattr(import_module(f"wdsctl.loader.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'wdsctl.loader' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
