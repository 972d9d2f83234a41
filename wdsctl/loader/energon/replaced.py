"""Names of Energon without a counterpart: they can be imported, and raise UsageError with a replacement when used.

Energon's code often imports names for annotations only, so that an import must not fail.
"""

from __future__ import annotations

from typing import Any, NoReturn

from wdsctl.core.errors import UsageError

_BLEND = "write a blend file, or pass a Blender to get_train_dataset"
_BATCHES = "pass batch_size to get_train_dataset, and override batch or encode_batch in the task encoder"
_PATH = "pass the path of the dataset to get_train_dataset or get_val_dataset"
_TYPE = f"{_PATH}; `wdsctl prepare --sample-type` sets the type of its samples"
_METADATASET = "pass the path of the metadataset, or the same as a mapping, to get_train_dataset or get_val_dataset"
_LAZY = "use `Lazy`: get_lazy and to_cache of a cache pool return objects of this type"

#: What to write instead of each name.
REPLACEMENTS = {
    "AVWebdatasetDecoder": "set decoder = SampleDecoder(av_decode=...) in the task encoder",
    "BaseCoreDatasetFactory": _PATH,
    "BaseWebdatasetFactory": f"{_PATH}; `wdsctl prepare` replaces prepare_dataset",
    "BatchDataset": _BATCHES,
    "BlendDataset": _BLEND,
    "CaptioningWebdataset": _TYPE,
    "CrudeJsonlDatasetFactory": _PATH,
    "CrudeWebdataset": f"{_PATH}; `wdsctl prepare --sample-type CrudeSample` makes its samples crude",
    "CustomTransform": "write the transform as a function of an image",
    "DatasetLoader": _METADATASET,
    "DatasetLoaderInterface": _METADATASET,
    "DefaultCrudeJsonlDatasetFactory": _PATH,
    "DefaultDecoderWebdatasetFactory": _PATH,
    "DefaultGenericWebdatasetFactory": _PATH,
    "DirectLazy": _LAZY,
    "FileCacheLazy": _LAZY,
    "FileStoreDecoder": "use a SampleDecoder: its `decoders` are functions for single formats",
    "GroupBatchDataset": "override batch_group_criterion in the task encoder",
    "ImageClassificationWebdataset": _TYPE,
    "ImageWebdataset": _TYPE,
    "InterleavedWebdataset": _TYPE,
    "IterMapDataset": "make encode_sample or encode_batch of the task encoder a generator",
    "JoinedWebdatasetFactory": "write a join in a blend file",
    "LogSampleDataset": "pass trace=FOLDER to get_train_dataset, and read it with `wdsctl trace`",
    "Metadataset": _METADATASET,
    "MetadatasetV2": _METADATASET,
    "MixBatchDataset": f"{_BLEND}; batch_group_criterion of the task encoder separates datasets in batches",
    "MultiChoiceVQAWebdataset": _TYPE,
    "OCRWebdataset": _TYPE,
    "PackingDataset": "pass packing=Packing(...), or packing_buffer_size, to get_train_dataset",
    "PrimaryFileStore": "mark the cooker with @cooker(need_primary=True), and use its argument `primary`",
    "ShuffleBufferDataset": "pass shuffle_buffer_size to get_train_dataset",
    "SimilarityInterleavedWebdataset": _TYPE,
    "StandardWebdatasetFactory": _PATH,
    "TextWebdataset": _TYPE,
    "VQAOCRWebdataset": _TYPE,
    "VQAWebdataset": _TYPE,
    "VidQAWebdataset": _TYPE,
    "Watchdog": "pass watchdog_timeout_seconds to get_loader",
    "WebdatasetMeta": "`wdsctl inspect --json` prints counts of splits and shards",
    "load_dataset": _METADATASET,
}


class Replaced:
    """A name of Energon that raises UsageError when it is called, derived from, or read from.

    It can be imported, subscripted and used in annotations; nothing is an instance of it.
    """

    def __init__(self, name: str, replacement: str) -> None:
        self.__name__ = self.__qualname__ = name
        self._replacement = replacement

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise self._error()

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        raise self._error()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the protocols of copy, inspect and typing
            raise AttributeError(name)
        raise self._error()

    def __getitem__(self, _: Any) -> Replaced:
        return self

    def __or__(self, other: Any) -> Any:
        return Any

    __ror__ = __or__

    def __instancecheck__(self, _: Any) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self.__name__} of Energon, which wdsctl does not have>"

    def _error(self) -> UsageError:
        return UsageError(f"wdsctl has no {self.__name__}", hint=self._replacement)


def replaced(name: str) -> Replaced:
    """The stand-in for a name of `REPLACEMENTS`."""
    return Replaced(name, REPLACEMENTS[name])
