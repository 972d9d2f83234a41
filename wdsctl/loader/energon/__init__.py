"""`megatron.energon` under the name `wdsctl.loader.energon`: Energon's users change one line.

The names and the modules are those of Energon 7.4. Names with a counterpart are objects of `wdsctl.loader`. The other
names can be imported too, and raise UsageError with a replacement when they are used.

Names are imported when they are first used. In wdsctl, only the data module of Megatron imports this room.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wdsctl.core.extras import require_packages
from wdsctl.core.version import VERSION
from wdsctl.loader.energon.submodules import publish_submodules

if TYPE_CHECKING:
    from wdsctl.loader.batching.batch import Batch
    from wdsctl.loader.batching.collate import batch_list, batch_pad_stack, batch_stack, generic_batch
    from wdsctl.loader.decoding.decoder import SampleDecoder
    from wdsctl.loader.energon.cache import (
        CachePool,
        DecodeFileStore,
        DirectLazy,
        FileCacheLazy,
        FileStore,
        FileStoreCachePool,
        FileStoreDecoder,
        Lazy,
        MockLazy,
        NoCachePool,
        PrimaryFileStore,
        SystemFileStore,
    )
    from wdsctl.loader.energon.errors import SkipSample, log_exception, reraise_exception
    from wdsctl.loader.energon.flavors import (
        BaseCoreDatasetFactory,
        BaseWebdatasetFactory,
        CaptioningWebdataset,
        CrudeJsonlDatasetFactory,
        CrudeWebdataset,
        DefaultCrudeJsonlDatasetFactory,
        DefaultDecoderWebdatasetFactory,
        DefaultGenericWebdatasetFactory,
        ImageClassificationWebdataset,
        ImageWebdataset,
        InterleavedWebdataset,
        JoinedWebdatasetFactory,
        MultiChoiceVQAWebdataset,
        OCRWebdataset,
        SimilarityInterleavedWebdataset,
        StandardWebdatasetFactory,
        TextWebdataset,
        VidQAWebdataset,
        VQAOCRWebdataset,
        VQAWebdataset,
    )
    from wdsctl.loader.energon.loader import get_loader, get_savable_loader
    from wdsctl.loader.energon.metadataset import (
        DatasetLoader,
        DatasetLoaderInterface,
        Metadataset,
        MetadatasetV2,
        load_dataset,
        prepare_metadataset,
        traverse_metadataset,
    )
    from wdsctl.loader.energon.savable_loader import SavableDataLoader
    from wdsctl.loader.energon.task_encoder.loader import get_train_dataset, get_val_dataset, get_val_datasets
    from wdsctl.loader.energon.wrappers import (
        BatchDataset,
        BlendDataset,
        ConcatDataset,
        EpochizeDataset,
        FilterDataset,
        GcDataset,
        GroupBatchDataset,
        IterMapDataset,
        LimitDataset,
        LogSampleDataset,
        MapDataset,
        MixBatchDataset,
        PackingDataset,
        RepeatDataset,
        SavableDataset,
        ShuffleBufferDataset,
        concat_pad,
        generic_concat,
        homogeneous_concat_mix,
    )
    from wdsctl.loader.recipe.hooks import stateless
    from wdsctl.loader.recipe.task_encoder import AugmentTaskEncoder, DefaultTaskEncoder, TaskEncoder
    from wdsctl.loader.recipe.worker_config import WorkerConfig
    from wdsctl.loader.samples import CrudeSample, Sample, SourceInfo, edataclass
    from wdsctl.loader.samples.energon_types import CaptioningSample, InterleavedSample
    from wdsctl.loader.samples.types import (
        ImageClassificationSample,
        ImageSample,
        MultiChoiceVQASample,
        OCRSample,
        SimilarityInterleavedSample,
        TextSample,
        VidQASample,
        VQASample,
    )
    from wdsctl.loader.stores.cookers import Cooker, basic_sample_keys, cooker

_EXPORTS_BY_MODULE = {
    "batching.batch": ("Batch",),
    "batching.collate": (
        "batch_list",
        "batch_pad_stack",
        "batch_stack",
        "generic_batch",
    ),
    "decoding.decoder": ("SampleDecoder",),
    "energon.cache": (
        "CachePool",
        "DecodeFileStore",
        "DirectLazy",
        "FileCacheLazy",
        "FileStore",
        "FileStoreCachePool",
        "FileStoreDecoder",
        "Lazy",
        "MockLazy",
        "NoCachePool",
        "PrimaryFileStore",
        "SystemFileStore",
    ),
    "energon.errors": (
        "SkipSample",
        "log_exception",
        "reraise_exception",
    ),
    "energon.flavors": (
        "BaseCoreDatasetFactory",
        "BaseWebdatasetFactory",
        "CaptioningWebdataset",
        "CrudeJsonlDatasetFactory",
        "CrudeWebdataset",
        "DefaultCrudeJsonlDatasetFactory",
        "DefaultDecoderWebdatasetFactory",
        "DefaultGenericWebdatasetFactory",
        "ImageClassificationWebdataset",
        "ImageWebdataset",
        "InterleavedWebdataset",
        "JoinedWebdatasetFactory",
        "MultiChoiceVQAWebdataset",
        "OCRWebdataset",
        "SimilarityInterleavedWebdataset",
        "StandardWebdatasetFactory",
        "TextWebdataset",
        "VQAOCRWebdataset",
        "VQAWebdataset",
        "VidQAWebdataset",
    ),
    "energon.loader": (
        "get_loader",
        "get_savable_loader",
    ),
    "energon.metadataset": (
        "DatasetLoader",
        "DatasetLoaderInterface",
        "Metadataset",
        "MetadatasetV2",
        "load_dataset",
        "prepare_metadataset",
        "traverse_metadataset",
    ),
    "energon.savable_loader": ("SavableDataLoader",),
    "energon.task_encoder.loader": (
        "get_train_dataset",
        "get_val_dataset",
        "get_val_datasets",
    ),
    "energon.wrappers": (
        "BatchDataset",
        "BlendDataset",
        "ConcatDataset",
        "EpochizeDataset",
        "FilterDataset",
        "GcDataset",
        "GroupBatchDataset",
        "IterMapDataset",
        "LimitDataset",
        "LogSampleDataset",
        "MapDataset",
        "MixBatchDataset",
        "PackingDataset",
        "RepeatDataset",
        "SavableDataset",
        "ShuffleBufferDataset",
        "concat_pad",
        "generic_concat",
        "homogeneous_concat_mix",
    ),
    "recipe.hooks": ("stateless",),
    "recipe.task_encoder": (
        "AugmentTaskEncoder",
        "DefaultTaskEncoder",
        "TaskEncoder",
    ),
    "recipe.worker_config": ("WorkerConfig",),
    "samples": ("CrudeSample", "Sample", "SourceInfo", "edataclass"),
    "samples.energon_types": ("CaptioningSample", "InterleavedSample"),
    "samples.types": (
        "ImageClassificationSample",
        "ImageSample",
        "MultiChoiceVQASample",
        "OCRSample",
        "SimilarityInterleavedSample",
        "TextSample",
        "VQASample",
        "VidQASample",
    ),
    "stores.cookers": (
        "Cooker",
        "basic_sample_keys",
        "cooker",
    ),
}
__version__ = VERSION  # of wdsctl
publish_submodules(__name__)
_MODULE_OF = {name: module for module, names in _EXPORTS_BY_MODULE.items() for name in names}

__all__ = [
    "AugmentTaskEncoder",
    "BaseCoreDatasetFactory",
    "BaseWebdatasetFactory",
    "Batch",
    "BatchDataset",
    "BlendDataset",
    "CachePool",
    "CaptioningSample",
    "CaptioningWebdataset",
    "ConcatDataset",
    "Cooker",
    "CrudeJsonlDatasetFactory",
    "CrudeSample",
    "CrudeWebdataset",
    "DatasetLoader",
    "DatasetLoaderInterface",
    "DecodeFileStore",
    "DefaultCrudeJsonlDatasetFactory",
    "DefaultDecoderWebdatasetFactory",
    "DefaultGenericWebdatasetFactory",
    "DefaultTaskEncoder",
    "DirectLazy",
    "EpochizeDataset",
    "FileCacheLazy",
    "FileStore",
    "FileStoreCachePool",
    "FileStoreDecoder",
    "FilterDataset",
    "GcDataset",
    "GroupBatchDataset",
    "ImageClassificationSample",
    "ImageClassificationWebdataset",
    "ImageSample",
    "ImageWebdataset",
    "InterleavedSample",
    "InterleavedWebdataset",
    "IterMapDataset",
    "JoinedWebdatasetFactory",
    "Lazy",
    "LimitDataset",
    "LogSampleDataset",
    "MapDataset",
    "Metadataset",
    "MetadatasetV2",
    "MixBatchDataset",
    "MockLazy",
    "MultiChoiceVQASample",
    "MultiChoiceVQAWebdataset",
    "NoCachePool",
    "OCRSample",
    "OCRWebdataset",
    "PackingDataset",
    "PrimaryFileStore",
    "RepeatDataset",
    "Sample",
    "SampleDecoder",
    "SavableDataLoader",
    "SavableDataset",
    "ShuffleBufferDataset",
    "SimilarityInterleavedSample",
    "SimilarityInterleavedWebdataset",
    "SkipSample",
    "SourceInfo",
    "StandardWebdatasetFactory",
    "SystemFileStore",
    "TaskEncoder",
    "TextSample",
    "TextWebdataset",
    "VQAOCRWebdataset",
    "VQASample",
    "VQAWebdataset",
    "VidQASample",
    "VidQAWebdataset",
    "WorkerConfig",
    "__version__",
    "basic_sample_keys",
    "batch_list",
    "batch_pad_stack",
    "batch_stack",
    "concat_pad",
    "cooker",
    "edataclass",
    "generic_batch",
    "generic_concat",
    "get_loader",
    "get_savable_loader",
    "get_train_dataset",
    "get_val_dataset",
    "get_val_datasets",
    "homogeneous_concat_mix",
    "load_dataset",
    "log_exception",
    "prepare_metadataset",
    "reraise_exception",
    "stateless",
    "traverse_metadataset",
]


def __getattr__(name: str) -> Any:
    if name == "Blender":  # which Energon does not have, but its replacements name
        return import_module("wdsctl.core.blend").Blender
    if name in _MODULE_OF:
        with require_packages(f"wdsctl.loader.energon.{name}"):
            return getattr(import_module(f"wdsctl.loader.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'wdsctl.loader.energon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
