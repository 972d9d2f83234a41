"""The runtime: batches for training from a prepared dataset, in an order that can be saved and resumed exactly.

Names are looked up when they are first used, so that the order's arithmetic can be imported without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wdsctl.core.beneath import allow_path
    from wdsctl.core.blend_file import Blender
    from wdsctl.loader.av import AVData, AVDecoder, AVMetadata, get_clips_uniform, get_single_frames_uniform
    from wdsctl.loader.batch import Batch, CrudeBatch
    from wdsctl.loader.batching import batch_list, batch_pad_stack, batch_stack, generic_batch
    from wdsctl.loader.cache import CachePool, FileStoreCachePool, Lazy, NoCachePool
    from wdsctl.loader.cooking import Cooker, basic_sample_keys, cooker
    from wdsctl.loader.dataset import TrainDataset, ValDataset, get_train_dataset, get_val_dataset, get_val_datasets
    from wdsctl.loader.decoding import SampleDecoder
    from wdsctl.loader.failures import FatalSampleError, log_exception, reraise_exception
    from wdsctl.loader.hook_options import stateless
    from wdsctl.loader.lazy_part import LazyPart
    from wdsctl.loader.loader import Loader
    from wdsctl.loader.making import get_loader, get_savable_loader
    from wdsctl.loader.packing import Buckets, Packing
    from wdsctl.loader.registry import register_joiner, register_sample_type
    from wdsctl.loader.samples import (
        AudioSample,
        CaptioningSample,
        CrudeSample,
        ImageClassificationSample,
        ImageSample,
        InterleavedSample,
        MultiChoiceVQASample,
        OCRSample,
        Sample,
        SimilarityInterleavedSample,
        SourceInfo,
        TextSample,
        VideoSample,
        VidQASample,
        VQAOCRSample,
        VQASample,
        edataclass,
    )
    from wdsctl.loader.skip import SkipSample
    from wdsctl.loader.states import merge_states
    from wdsctl.loader.stats import Stats
    from wdsctl.loader.stores import FileStore, open_store
    from wdsctl.loader.task_encoder import AugmentTaskEncoder, DefaultTaskEncoder, TaskEncoder
    from wdsctl.loader.webdataset_pipeline import as_webdataset
    from wdsctl.loader.worker_config import WorkerConfig

_PLACES = {
    "av": ("AVData", "AVDecoder", "AVMetadata", "get_clips_uniform", "get_single_frames_uniform"),
    "cache": ("CachePool", "FileStoreCachePool", "Lazy", "NoCachePool"),
    "stats": ("Stats",),
    "stores": ("FileStore", "open_store"),
    "packing": ("Buckets", "Packing"),
    "failures": ("FatalSampleError", "log_exception", "reraise_exception"),
    "cooking": ("Cooker", "basic_sample_keys", "cooker"),
    "batch": ("Batch", "CrudeBatch"),
    "batching": ("batch_list", "batch_pad_stack", "batch_stack", "generic_batch"),
    "dataset": ("TrainDataset", "ValDataset", "get_train_dataset", "get_val_dataset", "get_val_datasets"),
    "decoding": ("SampleDecoder",),
    "hook_options": ("stateless",),
    "lazy_part": ("LazyPart",),
    "loader": ("Loader",),
    "making": ("get_loader", "get_savable_loader"),
    "registry": ("register_joiner", "register_sample_type"),
    "samples": (
        "AudioSample",
        "CaptioningSample",
        "CrudeSample",
        "ImageClassificationSample",
        "ImageSample",
        "InterleavedSample",
        "MultiChoiceVQASample",
        "OCRSample",
        "Sample",
        "SimilarityInterleavedSample",
        "SourceInfo",
        "TextSample",
        "VQAOCRSample",
        "VQASample",
        "VideoSample",
        "VidQASample",
        "edataclass",
    ),
    "skip": ("SkipSample",),
    "states": ("merge_states",),
    "task_encoder": ("AugmentTaskEncoder", "DefaultTaskEncoder", "TaskEncoder"),
    "webdataset_pipeline": ("as_webdataset",),
    "worker_config": ("WorkerConfig",),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

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
    "Cooker",
    "CrudeBatch",
    "CrudeSample",
    "DefaultTaskEncoder",
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
    "Sample",
    "SampleDecoder",
    "SimilarityInterleavedSample",
    "SkipSample",
    "SourceInfo",
    "Stats",
    "TaskEncoder",
    "TextSample",
    "TrainDataset",
    "VQAOCRSample",
    "VQASample",
    "ValDataset",
    "VidQASample",
    "VideoSample",
    "WorkerConfig",
    "allow_path",
    "as_webdataset",
    "basic_sample_keys",
    "batch_list",
    "batch_pad_stack",
    "batch_stack",
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
    "open_store",
    "register_joiner",
    "register_sample_type",
    "reraise_exception",
    "stateless",
]


def __getattr__(name: str) -> Any:
    if name == "Blender":
        return import_module("wdsctl.core.blend_file").Blender
    if name == "allow_path":
        return import_module("wdsctl.core.beneath").allow_path
    if name in _MODULE_OF:
        return getattr(import_module(f"wdsctl.loader.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'wdsctl.loader' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
