"""All names of Energon are importable from `wdsctl.loader.energon`; unsupported ones raise with a replacement."""

from __future__ import annotations

import ast
import subprocess
import sys
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from wdsctl.core.energon.names import NAMES_BY_MODULE, REPLACEMENTS
from wdsctl.core.errors import UsageError
from wdsctl.loader import energon
from wdsctl.loader.energon.replaced import Replaced

#: `megatron.energon.__all__` of version 7.4.1.
NAMES = [
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

#: Modules of 7.4.1 that other code imports, with some of their names.
MODULES = {
    "av": ["AVDecoder", "AVWebdatasetDecoder", "AVData", "get_clips_uniform", "get_single_frames_uniform"],
    "cache": ["CachePool", "FileStore", "FileStoreCachePool", "Lazy", "NoCachePool", "SystemFileStore"],
    "epathlib": ["EPath"],
    "errors": ["FatalSampleError", "SkipSample", "log_exception", "reraise_exception"],
    "flavors": ["CaptioningSample", "CrudeSample", "Sample", "VQAOCRWebdataset", "BaseWebdatasetFactory"],
    "flavors.webdataset": ["SampleDecoder", "BaseWebdatasetFactory", "WebdatasetMeta"],
    "loader": ["get_loader", "get_savable_loader"],
    "media": ["AVMetadata", "ImageMetadata"],
    "metadataset": ["load_dataset", "traverse_metadataset"],
    "savable_loader": ["BasicDataLoader", "SavableDataLoader", "SavableDataLoaderState"],
    "task_encoder": ["TaskEncoder", "cooker", "get_train_dataset"],
    "task_encoder.base": ["Batch", "DefaultTaskEncoder", "TaskEncoder", "stateless"],
    "task_encoder.loader": ["get_train_dataset"],
    "transforms": ["MergeTransform", "CustomTransform"],
    "watchdog": ["Watchdog"],
    "worker": ["WorkerConfig"],
    "wrappers": ["LimitDataset", "RepeatDataset", "concat_pad"],
}


#: Modules of the room that Energon does not have.
OWN_MODULES = {"replaced", "submodules", "flavors.factories", "flavors.prepare_dataset"}


def test_energon_all_matches_megatron_energon() -> None:
    assert sorted(energon.__all__) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_energon_name_is_importable(name: str) -> None:
    assert getattr(energon, name) is not None


@pytest.mark.parametrize(("module", "names"), MODULES.items())
def test_submodules_have_names_of_energon_modules(module: str, names: list[str]) -> None:
    actual = import_module(f"wdsctl.loader.energon.{module}")
    assert {name for name in names if not hasattr(actual, name)} == set()


def test_names_by_module_matches_all_of_every_module() -> None:
    package = Path(energon.__file__).parent
    files = {path.relative_to(package).with_suffix("").as_posix().replace("/", ".") for path in package.rglob("*.py")}
    modules = {name.removesuffix(".__init__") for name in files if name != "__init__"} - OWN_MODULES

    assert {"", *modules} == set(NAMES_BY_MODULE)
    for module, names in NAMES_BY_MODULE.items():
        actual = import_module(f"wdsctl.loader.energon.{module}".rstrip("."))
        assert set(actual.__all__) == names, module


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("edataclass", "edataclass"),
        ("source_info", "SourceInfo"),
        ("cache.base", "CachePool"),
        ("epathlib.epath", "EPath"),
        ("flavors.base_dataset", "Sample"),
        ("flavors.webdataset.base_webdataset", "BaseWebdatasetFactory"),
        ("flavors.webdataset.config", "MAIN_FOLDER_NAME"),
        ("metadataset.loader_interface", "DatasetBlendMode"),
        ("task_encoder.cooking", "cooker"),
        ("wrappers.watchdog_dataset", "WatchdogDataset"),
    ],
)
def test_modules_with_few_names_are_module_above_them(module: str, name: str) -> None:
    found = import_module(f"wdsctl.loader.energon.{module}")

    assert getattr(found, name) is getattr(import_module(found.__name__), name)
    assert callable(energon.edataclass)  # not the module of that name


def test_energon_import_does_not_load_torch() -> None:
    program = "import sys; from wdsctl.loader import energon; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == (
        "False\n"
    )


@pytest.mark.parametrize("name", sorted(set(NAMES) & set(REPLACEMENTS)))
def test_name_without_counterpart_raises_error_with_replacement(name: str) -> None:
    stand_in: Any = getattr(energon, name)

    with pytest.raises(UsageError, match=f"wdsctl has no {name}") as raised:
        stand_in("path", worker_config=None)
    assert raised.value.hint == REPLACEMENTS[name]


def test_replaced_name_allows_annotations_and_refuses_subclasses() -> None:
    stand_in: Any = energon.BlendDataset

    def build(dataset: stand_in[int], other: stand_in | None = None) -> list[stand_in]:
        return [dataset, other]

    assert build(1) == [1, None]
    assert not isinstance(3, stand_in)
    with pytest.raises(UsageError, match="wdsctl has no BlendDataset"):
        types.new_class("Mine", types.resolve_bases((stand_in,)))


def test_every_replacement_belongs_to_replaced_name() -> None:
    modules = [import_module(f"wdsctl.loader.energon.{module}".rstrip(".")) for module in NAMES_BY_MODULE]
    names = {name for module in modules for name in dir(module) if isinstance(getattr(module, name), Replaced)}
    assert names == set(REPLACEMENTS)


def test_type_checking_block_imports_all_exported_names() -> None:
    with open(energon.__file__, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == set(NAMES) - {"__version__"}
